"""Boxes in an image: `<answer>[x1, y1, x2, y2]</answer>`, or a list of such lists.

The paper's "IoU" questions name the resolution that their numbers mean. Where a question does not,
they mean what the backbone's own boxes mean (`Chat.coordinates`): see `models/canvas.py`.
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


def named_resolution(text: str) -> tuple[int, int] | None:
    """Return the (width, height) that a question gives for its coordinates, if it does.

    >>> named_resolution("its box is [1, 2, 3, 4] in a 640x480 resolution video")
    (640, 480)
    """
    match = RESOLUTION.search(text)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class SpokenBoxes:
    """The prompt and the grammar for places, in the words of a method."""

    package: str = "harness.models.video_str"
    file: str = "prompt.toml"
    resize: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """A short name for records."""
        return f"{self.package.rpartition('.')[2]}/boxes"

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt; it contains no request for a graph or map."""
        wording = templates(self.package, self.file)
        return ask_for_frame(numbered) + wording.render(text, form=AnswerForm.BOXES)

    def parse(self, response: str) -> ParseResult:
        """Read a response with repairs."""
        return parse(response, aid=templates(self.package, self.file).tag)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items`: one box, or a list of boxes."""
        rows = [numerals(item.bounds) for item in items]
        return frame_tag(frame) + answer_response(json.dumps(rows[0] if len(rows) == 1 else rows))


def parse(response: str, *, aid: str = "", strict: bool = False) -> ParseResult:
    """Read a response; never raises.

    Args:
        response: The network's text, which may begin with `<frame>k</frame>` for a video.
        aid: The tag of a graph or map, which is not an answer.
        strict: As a reward reads: no repairs, and any four numbers are a box.
    """

    def read_boxes(rest: str) -> Read:
        answer = answer_part(rest, aid=aid)
        corners = () if strict else boxes_of_corners(answer)
        if corners:
            return corners, ()
        value, repairs = loads(answer, strict=strict)
        items, notes = read_items(_rows(value), keys=("bbox_2d",), strict=strict)
        return items, (*repairs, *notes)

    return read_response(response, read_boxes)


def _rows(value: object) -> object:
    """Boxes as the shared reader takes them: objects with a key."""
    if not isinstance(value, list):
        return value
    rows = [value] if value and not isinstance(value[0], (list, dict)) else value
    return [{"bbox_2d": row} if isinstance(row, list) else row for row in rows]
