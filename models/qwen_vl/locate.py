"""Qwen2.5-VL's own grounding format: a JSON list of boxes with labels, in a ```json fence.

The request is the one of the zero-shot baseline in the official VisionReasoner code, at native
resolution. That code does not undo the processor's resizing; here coordinates are taken as
pixels of the canvas that the network saw, which is what the network was trained to give.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.errors import ParseError
from harness.models.box_corners import boxes_of_corners
from harness.models.envelope import Read, read_response
from harness.models.grammar import (
    Item,
    ParseResult,
    ask_for_frame,
    fenced,
    frame_tag,
    loads,
    numerals,
    read_items,
    several_answers,
)
from harness.models.prompts import fill, text_of

LABEL = "target"


def parse(response: str, *, strict: bool = False) -> ParseResult:
    """Read a response; never raises.

    The list is the inside of the first fence, or what lies from the first `[` to the last `]`, of
    what follows the thought. A note says where there are more fences; after words that take the
    first back, the next one counts.
    Boxes stand under `bbox_2d` or `bbox`; points and labels are not read, as in the official
    baseline. Unless `strict`, two corners are a box as well (`harness.models.box_corners`).
    """

    def read_list(rest: str) -> Read:
        corners = () if strict else boxes_of_corners(rest)
        if corners:
            return corners, ()
        value, repairs = _value(rest, strict=strict)
        items, notes = read_items(value, keys=("bbox_2d", "bbox"), strict=strict)
        fences = several_answers(rest.count("```") // 2, "first")
        return items, (*repairs, *notes, *fences)

    return read_response(response, read_list)


def _value(response: str, *, strict: bool) -> tuple[object, tuple[str, ...]]:
    if fenced(response) is not None:
        return loads(fenced(response) or "", strict=strict)
    start, end = response.find("["), response.rfind("]")
    brace = response.find("{")
    if 0 <= brace < start and not strict:  # an object without a list
        with suppress(ParseError):
            return loads(response[brace : response.rfind("}") + 1], strict=strict)
    if not 0 <= start < end or "[" in response[end:]:
        raise ParseError("response", expected="a JSON list", found=repr(response[:60]))
    return loads(response[start : end + 1], strict=strict)


def write(items: Sequence[Item], *, frame: int | None = None) -> str:
    """Return the response for `items`, laid out as Qwen2.5-VL does."""
    lines = [json.dumps({"bbox_2d": numerals(item.bounds), "label": LABEL}) for item in items]
    body = "[\n\t" + ",\n\t".join(lines) + "\n]" if lines else "[]"
    return f"{frame_tag(frame)}```json\n{body}\n```"


@dataclass(frozen=True, slots=True)
class Locate:
    """The prompt and the grammar together, as a model composition takes them."""

    name: str = "locate"
    resize: tuple[int, int] | None = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """The request; the question is put into it as it is."""
        template = text_of("harness.models.qwen_vl", "locate.txt")
        return ask_for_frame(numbered) + fill(template, Question=text)

    parse = staticmethod(parse)
    write = staticmethod(write)
