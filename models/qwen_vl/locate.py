"""Qwen2.5-VL's own grounding format: a JSON list of boxes with labels, in a ```json fence.

The request is that of the zero-shot baseline in the official VisionReasoner code, at native
resolution. That code ignores the processor's resizing; here coordinates are pixels of the image as
the network saw it (the canvas), which is what the network was trained to write.
"""

import json
import re
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

WRITTEN_LABEL = "target"  # of every object in a response that is written here
BOX_KEYS = ("bbox_2d", "bbox")
FOREIGN_MARKS = re.compile(r"(?i:<\|?(?:det|b?box|begin_of_box|ref)\|?>)")
"""Matches marks around boxes of other families, such as "<|det|>" (DeepSeek-VL2), "<box>"
(InternVL) or "<|begin_of_box|>" (GLM), whose numbers are not pixels."""


def parse(response: str, *, strict: bool = False) -> ParseResult:
    """Parse a response; an unreadable one gives a result with an error, nothing is raised.

    The list is the content of the first fence after the thought, or the text from the first `[` to
    the last `]`. If there are more fences, a note says so; a fence that later words correct ("wait,
    …") does not count. Boxes are under `bbox_2d` or `bbox`.

    Args:
        response: The network's text.
        strict: Read boxes only, as the official baseline does. Otherwise two corners are a box as
            well (`harness.models.box_corners`), and a list of objects with `point_2d` and no box,
            the form in which Qwen3-VL points, is read as points.
    """

    def read_list(text: str) -> Read:
        corners = () if strict else boxes_of_corners(text)
        if corners:
            return corners, ()
        value, repairs = _value(text, strict=strict)
        fences = several_answers(text.count("```") // 2, "first")
        points = () if strict else _points(value)
        if points:
            return points, (*repairs, *fences)
        if not strict and (mark := FOREIGN_MARKS.search(text)) and not _has_keys(value):
            raise ParseError(
                "response",
                expected="boxes under bbox_2d, in pixels, as Qwen2.5-VL writes them",
                found=f"{mark[0]} of another model. vlm(backend=stored,dialect=internvl3_5) reads "
                "thousandths",
            )
        items, notes = read_items(value, keys=BOX_KEYS, strict=strict)
        return items, (*repairs, *notes, *fences)

    return read_response(response, read_list)


def _has_keys(value: object) -> bool:
    """Return True for a JSON object, or a list of JSON objects."""
    return isinstance(value, Mapping) or (
        isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
    )


def _points(value: object) -> tuple[Item, ...]:
    """Return the points of a list in which every object has a point and none a box, else ()."""
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
    """Return the JSON value in a response, and the repairs that were made to read it.

    Raises:
        ParseError: there is no JSON list.
    """
    fence_content = fenced(response)
    if fence_content is not None:
        return loads(fence_content, strict=strict)
    start, end = response.find("["), response.rfind("]")
    brace = response.find("{")
    if 0 <= brace < start and not strict:  # one object, not in a list
        with suppress(ParseError):
            return loads(response[brace : response.rfind("}") + 1], strict=strict)
    is_cut_off = "[" in response[end:]  # a list that begins after the last `]`
    if not 0 <= start < end or is_cut_off:
        raise ParseError("response", expected="a JSON list", found=repr(response[:60]))
    return loads(response[start : end + 1], strict=strict)


def write(items: Sequence[Item], *, frame: int | None = None) -> str:
    """Return the response for `items`, with the line breaks that Qwen2.5-VL writes."""
    lines = [
        json.dumps({"bbox_2d": numerals(item.bounds), "label": WRITTEN_LABEL}) for item in items
    ]
    body = "[\n\t" + ",\n\t".join(lines) + "\n]" if lines else "[]"
    return f"{frame_tag(frame)}```json\n{body}\n```"


@dataclass(frozen=True, slots=True)
class Locate:
    """The request and the parser of Qwen's grounding format, for a `PromptedModel`."""

    name: str = "locate"
    resize: tuple[int, int] | None = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request; before it, the request to name a frame of `numbered`, if any."""
        template = text_of("harness.models.qwen_vl", "locate.txt")
        return ask_for_frame(numbered) + fill(template, Question=text)

    parse = staticmethod(parse)
    write = staticmethod(write)
