"""VideoSeg-R1: `<think>…</think><answer>[{"bbox_2d": […], "point_pos": [x, y, 1], …}]</answer>`.

Xu et al., "VideoSeg-R1: Reasoning Video Object Segmentation via Reinforcement Learning" (2025).
The answer's keys are those of the paper's appendix C. The paper prints no prompt for the reasoner,
and its official repository holds no code: the prompt here is VisionReasoner's, which asks for both
kinds of points. The 840 × 840 canvas (pixels) is VisionReasoner's too. The first `<answer>` after
the thought counts; `[]` says that there is no such object.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import ParseError
from harness.models.envelope import Read, begin_response, read_response
from harness.models.grammar import (
    Item,
    ParseResult,
    as_objects,
    ask_for_frame,
    numerals,
    read_items,
)
from harness.models.prompts import Wording, asked_briefly, fill, text_of
from harness.models.visionreasoner.grammar import CANVAS, answer_value, question
from harness.responses import finite_numbers
from harness.types import Point

POSITIVE, NEGATIVE = "point_pos", "point_neg"
POINT_LABELS: Mapping[str, int] = {POSITIVE: 1, NEGATIVE: 0}
"""The third number of a point, by its key."""
ALIAS_KEY = "point_2d"
"""Key of VisionReasoner's positive point, which networks trained on that grammar write."""


def template(name: str) -> str:
    """Return the content of a text file of this folder."""
    return text_of("harness.models.videoseg_r1", name)


def build_prompt(text: str, *, think: bool = True, wording: Wording = "paper") -> str:
    """Return the prompt for a question, with or without a request to reason (Table 4).

    The wording `short` does not say whether to reason; a network learns it in training.
    """
    if wording == "short":
        return asked_briefly(question(text))
    prompt = template("prompt.txt" if think else "prompt_direct.txt")
    return fill(prompt, Question=question(text), Answer=template("example_answer.txt"))


def parse(response: str, *, strict: bool = False) -> ParseResult:
    """Parse a response; an unreadable one gives a result with an error, nothing is raised.

    Args:
        response: The network's text, which may begin with `<frame>k</frame>` for a video.
        strict: Read as the reward does: without repairs, any four numbers are a box, and each
            object must have both points with their labels. Otherwise (predictions) a missing point
            is left out, a missing label follows from the key, and `point_2d` is the positive
            point; notes say so.
    """

    def read_objects(text: str) -> Read:
        value, repairs = answer_value(text, strict=strict)
        if not strict:
            value, list_repairs = as_objects(value, "bbox_2d")
            repairs = (*repairs, *list_repairs)
        boxes, notes = read_items(value, keys=("bbox_2d",), strict=strict)
        point_repairs: list[str] = []
        items = tuple(
            _with_points(item, entry, f"object {number}", point_repairs, strict=strict)
            for number, (item, entry) in enumerate(zip(boxes, value, strict=False), start=1)
        )
        return items, (*repairs, *notes, *point_repairs)

    return read_response(response, read_objects)


def write(items: Sequence[Item], *, think: str | None = "", frame: int | None = None) -> str:
    """Return the response for `items`; coordinates are written as whole numbers.

    A point that an object lacks is left out. `think=None` leaves out the reasoning and its tags.

    Raises:
        ParseError: `think` holds a tag of the grammar.
    """
    beginning = begin_response(think, frame=frame)
    objects = [{"bbox_2d": numerals(item.bounds), **_points(item)} for item in items]
    return f"{beginning}<answer>{json.dumps(objects)}</answer>"


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt and the parser of VideoSeg-R1's reasoner, for a `PromptedModel`."""

    name: str = "videoseg_r1"
    resize: tuple[int, int] | None = CANVAS
    """(width, height) in pixels that images are squashed to."""
    think: bool = True
    """Ask for reasoning."""
    wording: Wording = "paper"

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt; before it, the request to name a frame of `numbered`, if any."""
        return ask_for_frame(numbered) + build_prompt(text, think=self.think, wording=self.wording)

    def parse(self, response: str) -> ParseResult:
        """Parse a response with repairs."""
        return parse(response)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items`."""
        return write(items, think="" if self.think else None, frame=frame)


def _with_points(
    item: Item, entry: Mapping[str, object], what: str, notes: list[str], *, strict: bool
) -> Item:
    """Return the object with the points of its JSON `entry`; add their repairs to `notes`."""
    if not strict and POSITIVE not in entry and ALIAS_KEY in entry:
        entry = {**entry, POSITIVE: entry[ALIAS_KEY]}
        notes.append(f"{what}: {ALIAS_KEY} read as {POSITIVE}")
    points = [_point(entry, key, what, notes, strict=strict) for key in POINT_LABELS]
    return item._replace(point=points[0], negative=points[1])


def _point(
    entry: Mapping[str, object], key: str, what: str, notes: list[str], *, strict: bool
) -> Point | None:
    """Return the point under `key`, `[x, y, label]`; None if it is missing and not `strict`.

    Raises:
        ParseError: it is malformed, or `strict` and its label is wrong.
    """
    value = entry.get(key)
    if value is None and not strict:
        notes.append(f"{what}: no {key}")
        return None
    labelled = isinstance(value, (list, tuple)) and len(value) == 3
    if not strict and not labelled:
        x, y = finite_numbers(value, 2, f"{what}: {key}")
        notes.append(f"{what}: {key} has no label")
        return Point(x, y)
    x, y, label = finite_numbers(value, 3, f"{what}: {key}")
    if label != POINT_LABELS[key]:
        if strict:
            raise ParseError(
                f"{what}: {key}", expected=f"the label {POINT_LABELS[key]}", found=str(label)
            )
        notes.append(f"{what}: {key} has the label {label:g}")
    return Point(x, y)


def _points(item: Item) -> dict[str, list[int]]:
    """Return the points that an object has as JSON fields, `[x, y, label]` by key."""
    points = {POSITIVE: item.point, NEGATIVE: item.negative}
    return {
        key: [round(point.x), round(point.y), POINT_LABELS[key]]
        for key, point in points.items()
        if point is not None
    }
