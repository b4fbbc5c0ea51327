"""Seg-Zero: `<think>…</think><answer>{"bbox": […], "points_1": […], "points_2": […]}</answer>`.

Liu et al., "Seg-Zero" (2025). The prompts and the parser are those of the official code
(`dvlab-research/Seg-Zero`): a response names one object, and the first `{…}` is its answer. Here
the search starts after the thought; the official inference and reward search the thought too.
`Semantics` decides which keys and values are accepted, as the two official rewards do. Coordinates
are pixels of the 840 × 840 canvas.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import ParseError
from harness.models.envelope import Read, begin_response, read_response
from harness.models.grammar import (
    Item,
    ParseResult,
    ask_for_frame,
    loads,
    numerals,
    read_box,
    several_answers,
)
from harness.models.prompts import Wording, asked_briefly, fill, text_of
from harness.models.visionreasoner.grammar import CANVAS
from harness.responses import MAX_TEXT, finite_numbers
from harness.types import Point

KEYS = ("bbox", "points_1", "points_2")  # of the answer in the official prompt

Semantics: TypeAlias = Literal["soft", "strict"]
"""`soft` accepts any keys that contain `bbox` and `points`, and repairs the JSON. `strict` accepts
only `KEYS` and repairs nothing, as the reward of the official runs does (`seg_restrict.py`)."""


def method_name(semantics: Semantics) -> str:
    """Return the method's name in records; the two semantics count as two methods.

    >>> method_name("soft"), method_name("strict")
    ('seg_zero', 'seg_zero/strict')
    """
    return "seg_zero" if semantics == "soft" else f"seg_zero/{semantics}"


def template(name: str = "prompt.txt") -> str:
    """Return the content of a text file of this folder."""
    return text_of("harness.models.seg_zero", name)


def question(text: str) -> str:
    """Return a question in lower case, without full stops at its ends, as in the official code.

    >>> question("Where is the dog?.")
    'where is the dog?'
    """
    return text.lower().strip(".")


def build_prompt(text: str, *, wording: Wording = "paper") -> str:
    """Return the prompt for a question in the official (`paper`) or a `short` wording."""
    if wording == "short":
        return asked_briefly(question(text))
    return fill(template(), Question=question(text), Answer=template("example_answer.txt"))


def first_braces(response: str) -> str | None:
    """Return the text from a `{` to the next `}`, the first that is not `{}`; None without one.

    The search takes linear time.

    >>> first_braces('{} so {"bbox": [1]} or {2}')
    '{"bbox": [1]}'
    """
    text = response[:MAX_TEXT]
    start = text.find("{")
    while start >= 0:
        end = text.find("}", start)
        if end < 0:
            return None
        if end > start + 1:
            return text[start : end + 1]
        start = text.find("{", start + 1)
    return None


def parse(response: str, *, semantics: Semantics = "soft") -> ParseResult:
    """Parse a response; errors are part of the result, and none is raised.

    Soft semantics repair the JSON and report it: the prompt's example answer has single quotes,
    which JSON does not allow. Strict semantics report an error if the strict reward gives no
    `answer_format` credit. Both require a box with an area.
    """

    def read_json(text: str) -> Read:
        json_text = first_braces(text)
        if json_text is None:
            raise ParseError(
                "response", expected="{…}", found=repr(text[:60]) if text else "nothing"
            )
        value, repairs = loads(json_text, strict=semantics == "strict")
        after = text[text.find(json_text) + len(json_text) :]
        n_answers = 1 if first_braces(after) is None else 2  # or more
        return (_item(value, semantics),), (*repairs, *several_answers(n_answers, "first"))

    return read_response(response, read_json)


def _item(value: object, semantics: Semantics) -> Item:
    """Return the object that an answer names; ParseError without a box and two points."""
    if not isinstance(value, Mapping):
        raise ParseError("answer", expected="an object", found=type(value).__name__)
    key, point_keys = _keys(value, semantics)
    if key is None or len(point_keys) < 2:
        given_keys = ", ".join(map(str, value))[:60]
        expected_keys = "a box and two points" if semantics == "soft" else ", ".join(KEYS)
        raise ParseError("answer", expected=expected_keys, found=given_keys or "nothing")
    box = read_box(value[key], key)
    first, second = (Point(*finite_numbers(value[name], 2, name)) for name in point_keys)
    return Item(box, first, second=second)


def _keys(value: Mapping[str, object], semantics: Semantics) -> tuple[str | None, list[str]]:
    """Return the box's key (None if missing) and the keys of at most two points."""
    if semantics == "strict":
        box, *point_keys = (key if key in value else None for key in KEYS)
        return box, [key for key in point_keys if key is not None]
    box = next((key for key in value if "bbox" in key.lower()), None)
    return box, [key for key in value if "points" in key.lower()][:2]


def write(items: Sequence[Item], *, think: str = "", frame: int | None = None) -> str:
    """Return the response for `items` as one object: their common box, points on the first two.

    Raises:
        ParseError: `items` is empty; the grammar cannot express that there is no object.
    """
    beginning = begin_response(think, frame=frame)
    if not items:
        raise ParseError("answer to write", expected="one object", found="none")
    boxes = [item.bounds for item in items]
    left, top = (min(box[side] for box in boxes) for side in (0, 1))
    right, bottom = (max(box[side] for box in boxes) for side in (2, 3))
    first = items[0].place
    second = items[1].place if len(items) > 1 else items[0].second or first
    values = ([left, top, right, bottom], first, second)
    answer = {key: numerals(value) for key, value in zip(KEYS, values, strict=True)}
    return f"{beginning}<answer>{json.dumps(answer)}</answer>"


@dataclass(frozen=True, slots=True)
class SegZero:
    """The prompt and the parser of Seg-Zero, for a `PromptedModel`."""

    resize: tuple[int, int] | None = CANVAS
    """(width, height) in pixels that images are squashed to."""
    semantics: Semantics = "soft"
    wording: Wording = "paper"

    @property
    def name(self) -> str:
        """`seg_zero`, or `seg_zero/strict`."""
        return method_name(self.semantics)

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt; before it, the request to name a frame of `numbered`, if any."""
        return ask_for_frame(numbered) + build_prompt(text, wording=self.wording)

    def parse(self, response: str) -> ParseResult:
        """Parse a response with the semantics of this prompt."""
        return parse(response, semantics=self.semantics)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items` as one object, without reasoning."""
        return write(items, frame=frame)
