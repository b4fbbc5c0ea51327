"""Seg-Zero: `<think>…</think><answer>{"bbox": […], "points_1": […], "points_2": […]}</answer>`.

Liu et al., "Seg-Zero" (2025); the wording and the rules of reading are those of the official code
(`dvlab-research/Seg-Zero`): one object, and the first `{…}` of the whole reply is the answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import ParseError
from harness.models.envelope import Read, begin_reply, read_reply
from harness.models.grammar import Item, ParseResult, ask_for_frame, loads
from harness.models.prompts import filled, text_of
from harness.models.visionreasoner.grammar import CANVAS
from harness.replies import MAX_TEXT, finite_numbers
from harness.types import Box, Point

KEYS = ("bbox", "points_1", "points_2")


def template(name: str = "prompt.txt") -> str:
    """A text of this folder, word for word."""
    return text_of("harness.models.seg_zero", name)


def question(text: str) -> str:
    """A question as the official code puts it into the prompt, in training and evaluation.

    >>> question("Where is the dog?.")
    'where is the dog?'
    """
    return text.lower().strip(".")


def ask(text: str) -> str:
    """The official prompt for a question."""
    return filled(template(), question=question(text), answer=template("example_answer.txt"))


def braced(reply: str) -> str | None:
    """The first `{…}` with something and no `}` in it, or None; in linear time.

    >>> braced('{} so {"bbox": [1]} or {2}')
    '{"bbox": [1]}'
    """
    text = reply[:MAX_TEXT]
    start = text.find("{")
    while start >= 0:
        end = text.find("}", start)
        if end < 0:
            return None
        if end > start + 1:
            return text[start : end + 1]
        start = text.find("{", start + 1)
    return None


def parse(reply: str) -> ParseResult:
    """Read a reply with the repairs that inference may make; never raises.

    Its example answer has single quotes, which JSON has not: they are read, and reported.
    """
    return read_reply(reply, _read)


def _read(reply: str) -> Read:
    found = braced(reply)
    if found is None:
        raise ParseError("reply", expected="{…}", found=repr(reply[:60]) if reply else "nothing")
    value, repairs = loads(found, strict=False)
    return (_item(value),), repairs


def _item(value: Any) -> Item:
    if not isinstance(value, Mapping):
        raise ParseError("answer", expected="an object", found=type(value).__name__)
    key = next((key for key in value if "bbox" in key.lower()), None)
    places = [key for key in value if "points" in key.lower()][:2]
    if key is None or len(places) < 2:
        found = ", ".join(map(str, value))[:60]
        raise ParseError("answer", expected="a box and two points", found=found or "nothing")
    box = Box(*finite_numbers(value[key], 4, key))
    if box.right <= box.left or box.bottom <= box.top:
        raise ParseError(key, expected="x1 < x2 and y1 < y2", found=str(list(box)))
    first, second = (Point(*finite_numbers(value[place], 2, place)) for place in places)
    return Item(box, first, second=second)


def write(items: Sequence[Item], *, think: str = "", frame: int | None = None) -> str:
    """The reply that says `items` as one object: the box around all, points on the first two.

    Raises:
        ParseError: there is nothing to say, which this grammar has no words for.
    """
    begun = begin_reply(think, frame=frame)
    if not items:
        raise ParseError("answer to write", expected="one object", found="none")
    boxes = [item.box for item in items]
    lows, highs = [min(box[side] for box in boxes) for side in (0, 1)], [
        max(box[side] for box in boxes) for side in (2, 3)
    ]  # fmt: skip
    first = items[0].place
    second = items[1].place if len(items) > 1 else items[0].second or first
    values = ([*lows, *highs], first, second)
    plain = {key: [round(number) for number in value]
             for key, value in zip(KEYS, values, strict=True)}  # fmt: skip
    return f"{begun}<answer>{json.dumps(plain)}</answer>"


@dataclass(frozen=True, slots=True)
class SegZero:
    """The prompt and the grammar together, as a model composition takes them."""

    name: str = "seg_zero"
    resize: tuple[int, int] | None = CANVAS

    def ask(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """The official prompt, after the words that ask for a frame where one must be named."""
        return ask_for_frame(numbered) + ask(text)

    def parse(self, reply: str) -> ParseResult:
        """Read a reply with repairs."""
        return parse(reply)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """The reply that says `items` as one object."""
        return write(items, frame=frame)
