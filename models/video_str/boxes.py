"""The grammar of boxes in Video-STR's wording: `<answer>[x1, y1, x2, y2]</answer>`, or a list.

The paper's "IoU" questions state the resolution of their numbers ("in a 640x480 resolution video").
In any other question, numbers mean what the backbone's own boxes mean (`Chat.coordinates`).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.models.box_corners import boxes_of_corners
from harness.models.envelope import Read, read_response
from harness.models.grammar import (
    Item,
    ParseResult,
    ask_for_frame,
    frame_tag,
    loads,
    numerals,
    read_items,
)
from harness.models.questions import answer_part
from harness.models.video_str.grammar import answer_response
from harness.models.video_str.templates import templates
from harness.types import AnswerForm

RESOLUTION = re.compile(r"\b([1-9]\d{1,4})\s?[x×]\s?([1-9]\d{1,4})[ -](?:resolution|pixels)\b")
"""Matches "640x480 resolution", "640 × 480 pixels"."""


def named_resolution(text: str) -> tuple[int, int] | None:
    """Return the (width, height) that a question states for its coordinates; None if it does not.

    >>> named_resolution("its box is [1, 2, 3, 4] in a 640x480 resolution video")
    (640, 480)
    """
    match = RESOLUTION.search(text)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class BoxPrompt:
    """The prompt and the parser for boxes, in the wording of a method, for a `PromptedModel`."""

    package: str = "harness.models.video_str"
    file: str = "prompt.toml"
    resize: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Short name for records: the method's, and `/boxes`."""
        return f"{self.package.rpartition('.')[2]}/boxes"

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request for boxes, without a request for a graph or map."""
        wording = templates(self.package, self.file)
        return ask_for_frame(numbered) + wording.render(text, form=AnswerForm.BOXES)

    def parse(self, response: str) -> ParseResult:
        """Parse a response with repairs."""
        return parse(response, aid=templates(self.package, self.file).tag)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items`: one box, or a list of boxes."""
        rows = [numerals(item.bounds) for item in items]
        return frame_tag(frame) + answer_response(json.dumps(rows[0] if len(rows) == 1 else rows))


def parse(response: str, *, aid: str = "", strict: bool = False) -> ParseResult:
    """Parse a response; an unreadable one gives a result with an error, nothing is raised.

    Args:
        response: The network's text, which may begin with `<frame>k</frame>` for a video.
        aid: Tag of the graph or map before the answer, which is skipped.
        strict: Read as a reward does: without repairs, and any four numbers are a box.
    """

    def read_boxes(text: str) -> Read:
        answer = answer_part(text, aid=aid)
        corners = () if strict else boxes_of_corners(answer)
        if corners:
            return corners, ()
        value, repairs = loads(answer, strict=strict)
        items, notes = read_items(_rows(value), keys=("bbox_2d",), strict=strict)
        return items, (*repairs, *notes)

    return read_response(response, read_boxes)


def _rows(value: object) -> object:
    """Return lists of four numbers as the objects that `read_items` takes: `{"bbox_2d": […]}`."""
    if not isinstance(value, list):
        return value
    rows = [value] if value and not isinstance(value[0], (list, dict)) else value
    return [{"bbox_2d": row} if isinstance(row, list) else row for row in rows]
