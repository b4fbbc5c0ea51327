"""Qwen2.5-VL's own grounding format: a JSON list of boxes with labels, in a ```json fence.

The request is the one of the zero-shot baseline in the official VisionReasoner code, at native
resolution. That code does not undo the processor's resizing; here coordinates are taken as
pixels of the canvas that the network saw, which is what the network was trained to give.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.errors import ParseError
from harness.models.box_corners import boxes_of_corners
from harness.models.envelope import Read, read_response
from harness.models.grammar import (
    MAX_OBJECTS,
    Item,
    ParseResult,
    ask_for_frame,
    fenced,
    frame_tag,
    label_of,
    loads,
    numerals,
    read_items,
    several_answers,
)
from harness.models.prompts import fill, text_of
from harness.responses import finite_numbers
from harness.types import Point

LABEL = "target"
BOX_KEYS = ("bbox_2d", "bbox")


def parse(response: str, *, strict: bool = False) -> ParseResult:
    """Read a response; never raises.

    The list is the inside of the first fence, or what lies from the first `[` to the last `]`, of
    what follows the thought. A note says where there are more fences; after words that take the
    first back, the next one counts.
    Boxes stand under `bbox_2d` or `bbox`. Unless `strict`, two corners are a box as well
    (`harness.models.box_corners`), and a list whose objects have `point_2d` and no box, the form
    in which Qwen3-VL points, is read as points. The official baseline reads boxes alone.
    """

    def read_list(rest: str) -> Read:
        corners = () if strict else boxes_of_corners(rest)
        if corners:
            return corners, ()
        value, repairs = _value(rest, strict=strict)
        fences = several_answers(rest.count("```") // 2, "first")
        points = () if strict else _points(value)
        if points:
            return points, (*repairs, *fences)
        items, notes = read_items(value, keys=BOX_KEYS, strict=strict)
        return items, (*repairs, *notes, *fences)

    return read_response(response, read_list)


def _points(value: object) -> tuple[Item, ...]:
    """Return the points of a list in which every object has one and none a box; else nothing."""
    rows = value if isinstance(value, list) else [value]
    objects = [row for row in rows if isinstance(row, Mapping) and "point_2d" in row]
    has_box = any(key in row for row in objects for key in BOX_KEYS)
    if has_box or len(objects) < len(rows) or len(rows) > MAX_OBJECTS:
        return ()
    return tuple(
        Item(
            point=Point(*finite_numbers(row["point_2d"], 2, f"object {number}: point_2d")),
            label=label_of(row),
        )
        for number, row in enumerate(objects, start=1)
    )


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
