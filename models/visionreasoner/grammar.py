"""VisionReasoner: `<think>…</think><answer>[{"bbox_2d": […], "point_2d": […]}, …]</answer>`.

Liu et al., "VisionReasoner" (2025); the wording, the parser's rules and the 840 × 840 canvas are
those of the official code (`dvlab-research/Seg-Zero` and `dvlab-research/VisionReasoner`). The
first `<answer>` after the thought counts (the official code and its reward search the thought too);
`[]` says that there is no such object. Coordinates are pixels of the canvas.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import ParseError
from harness.models.envelope import Read, begin_response, read_response
from harness.models.grammar import Item, ParseResult, ask_for_frame, loads, numerals, read_items
from harness.models.prompts import fill, text_of
from harness.responses import tag_text

CANVAS = (840, 840)
"""(width, height) that every image is squashed to, bilinear: 30 × 30 patches of 28 pixels."""


def template(name: str = "prompt.txt") -> str:
    """Return the content of a text file of this folder."""
    return text_of("harness.models.visionreasoner", name)


def question(text: str) -> str:
    """Return a question as the official evaluation puts it into the prompt.

    >>> question("Where is the dog?")
    'where is the dog'
    """
    return text.lower().strip('."?!')


def build_prompt(text: str, *, answer: str | None = None) -> str:
    """Return the official prompt for a question; `answer` replaces the example response in it."""
    example = template("example_answer.txt") if answer is None else answer
    return fill(template(), Question=question(text), Answer=example)


def answer_value(response: str, *, strict: bool = False) -> tuple[Any, tuple[str, ...]]:
    """Return the JSON value of the first `<answer>`, and the repairs that were made to read it.

    Raises:
        ParseError: there is no answer, or it is not JSON within the limits of `harness.responses`.
    """
    text = tag_text(response, "answer")
    if text is None:
        raise ParseError("response", expected="<answer>…</answer>", found=_missing_part(response))
    return loads(text, strict=strict)


def parse(response: str, *, strict: bool = False) -> ParseResult:
    """Parse a response; an unreadable one gives a result with an error, nothing is raised.

    Args:
        response: The network's text, which may begin with `<frame>k</frame>` for a video.
        strict: Read as the official reward does: without repairs, and any four numbers are a box.
            Otherwise (predictions) the JSON is repaired, and a box must have an area.
    """

    def read_json(text: str) -> Read:
        value, repairs = answer_value(text, strict=strict)
        items, notes = read_items(value, keys=("bbox_2d",), point="point_2d", strict=strict)
        return items, (*repairs, *notes)

    return read_response(response, read_json)


def write(items: Sequence[Item], *, think: str = "", frame: int | None = None) -> str:
    """Return the response for `items`; coordinates are written as whole numbers.

    Raises:
        ParseError: `think` holds a tag of the grammar, or an item has no point.
    """
    beginning = begin_response(think, frame=frame)
    objects = [
        {"bbox_2d": numerals(item.bounds), "point_2d": numerals(_point(item))} for item in items
    ]
    return f"{beginning}<answer>{json.dumps(objects)}</answer>"


@dataclass(frozen=True, slots=True)
class VisionReasoner:
    """The prompt and the parser of VisionReasoner, for a `PromptedModel`."""

    name: str = "visionreasoner"
    resize: tuple[int, int] | None = CANVAS
    """(width, height) in pixels that images are squashed to."""
    newline: bool = False
    """Put a newline between image and prompt, as the official training does, but not evaluation."""

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt; before it, the request to name a frame of `numbered`, if any."""
        newline = "\n" if self.newline else ""
        return newline + ask_for_frame(numbered) + build_prompt(text)

    parse = staticmethod(parse)
    write = staticmethod(write)


def _point(item: Item) -> tuple[float, float]:
    """Return the point of an object; ParseError without one."""
    if item.point is None:
        raise ParseError("object to write", expected="a box and a point", found="only a box")
    return item.point


def _missing_part(response: str) -> str:
    """Return what stands in place of `<answer>…</answer>`, for an error."""
    if not response.strip():
        return "nothing"
    return "one that is not closed" if "<answer>" in response else repr(response[:60])
