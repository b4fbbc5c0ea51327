"""Seg-Zero: `<think>…</think><answer>{"bbox": […], "points_1": […], "points_2": […]}</answer>`.

Liu et al., "Seg-Zero" (2025); the wording and the rules of reading are those of the official code
(`dvlab-research/Seg-Zero`): one object, and the first `{…}` is the answer; here of what follows the
thought, which the official code searches too, and so does its reward. Which keys and values are
taken is a matter of `Semantics`, as in its two rewards.
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

KEYS = ("bbox", "points_1", "points_2")

Semantics: TypeAlias = Literal["soft", "strict"]
"""`soft`: keys that contain `bbox` and `points`, and repairs of the JSON. `strict`: `KEYS` and
nothing else for them, and no repairs, as the reward of the official runs reads
(`seg_restrict.py`)."""


def method_name(semantics: Semantics) -> str:
    """Return the method's name in records: strict semantics are another method than soft ones.

    >>> method_name("soft"), method_name("strict")
    ('seg_zero', 'seg_zero/strict')
    """
    return "seg_zero" if semantics == "soft" else f"seg_zero/{semantics}"


def template(name: str = "prompt.txt") -> str:
    """A text of this folder, word for word."""
    return text_of("harness.models.seg_zero", name)


def question(text: str) -> str:
    """A question as the official code puts it into the prompt, in training and evaluation.

    >>> question("Where is the dog?.")
    'where is the dog?'
    """
    return text.lower().strip(".")


def build_prompt(text: str, *, wording: Wording = "paper") -> str:
    """The prompt for a question, the official one or one in few words."""
    if wording == "short":
        return asked_briefly(question(text))
    return fill(template(), Question=question(text), Answer=template("example_answer.txt"))


def first_braces(response: str) -> str | None:
    """The first `{…}` with something and no `}` in it, or None; in linear time.

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
    """Read a response; never raises.

    Softly with the repairs that inference may make: the prompt's example answer has single quotes,
    which JSON has not; they are read, and reported. Strictly, what the strict reward gives no
    `answer_format` for is an error. Both need a box that has an area.
    """

    def read_json(rest: str) -> Read:
        braced = first_braces(rest)
        if braced is None:
            raise ParseError(
                "response", expected="{…}", found=repr(rest[:60]) if rest else "nothing"
            )
        value, repairs = loads(braced, strict=semantics == "strict")
        more = first_braces(rest[rest.find(braced) + len(braced) :]) is not None
        return (_item(value, semantics),), (*repairs, *several_answers(1 + more, "first"))

    return read_response(response, read_json)


def _item(value: object, semantics: Semantics) -> Item:
    if not isinstance(value, Mapping):
        raise ParseError("answer", expected="an object", found=type(value).__name__)
    key, places = _keys(value, semantics)
    if key is None or len(places) < 2:
        shown = ", ".join(map(str, value))[:60]
        wanted = "a box and two points" if semantics == "soft" else ", ".join(KEYS)
        raise ParseError("answer", expected=wanted, found=shown or "nothing")
    box = read_box(value[key], key)
    first, second = (Point(*finite_numbers(value[place], 2, place)) for place in places)
    return Item(box, first, second=second)


def _keys(value: Mapping[str, object], semantics: Semantics) -> tuple[str | None, list[str]]:
    """Return the key of the box, and those of two points, where there are some."""
    if semantics == "strict":
        box, *places = (key if key in value else None for key in KEYS)
        return box, [key for key in places if key is not None]
    box = next((key for key in value if "bbox" in key.lower()), None)
    return box, [key for key in value if "points" in key.lower()][:2]


def write(items: Sequence[Item], *, think: str = "", frame: int | None = None) -> str:
    """Return the response for `items` as one object: a box around all, points on the first two.

    Raises:
        ParseError: there is nothing to say, which this grammar has no words for.
    """
    started = begin_response(think, frame=frame)
    if not items:
        raise ParseError("answer to write", expected="one object", found="none")
    boxes = [item.bounds for item in items]
    lows, highs = (
        [min(box[side] for box in boxes) for side in (0, 1)],
        [max(box[side] for box in boxes) for side in (2, 3)],
    )
    first = items[0].place
    second = items[1].place if len(items) > 1 else items[0].second or first
    values = ([*lows, *highs], first, second)
    plain = {key: numerals(value) for key, value in zip(KEYS, values, strict=True)}
    return f"{started}<answer>{json.dumps(plain)}</answer>"


@dataclass(frozen=True, slots=True)
class SegZero:
    """The prompt and the grammar together, as a model composition takes them."""

    resize: tuple[int, int] | None = CANVAS
    semantics: Semantics = "soft"
    wording: Wording = "paper"

    @property
    def name(self) -> str:
        """`seg_zero`, or `seg_zero/strict`."""
        return method_name(self.semantics)

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt, after a request for a frame where one must be named."""
        return ask_for_frame(numbered) + build_prompt(text, wording=self.wording)

    def parse(self, response: str) -> ParseResult:
        """Read a response."""
        return parse(response, semantics=self.semantics)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items` as one object."""
        return write(items, frame=frame)
