"""Molmo: objects as points in percent of the image, and the masks of those points."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import ParseError
from harness.models.composition import Composition
from harness.models.envelope import Read, read_response
from harness.models.grammar import Item, ParseResult, ask_for_frame, frame_tag, numerals
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.options import with_options
from harness.types import Point

NONE = "There are none."
NUMBER = r'"(\d{1,3}(?:\.\d{1,9})?)"'
PLACE = re.compile(rf" x(\d*)={NUMBER} y\1={NUMBER}")


def read(text: str) -> Read:
    """The points of `<point x="12.3" y="45.6" alt="…">` or `<points x1= y1= x2= y2= …>`."""
    items = tuple(Item(point=Point(float(x), float(y))) for _, x, y in PLACE.findall(text))
    if not items and NONE not in text:
        raise ParseError("response", expected=f"points, or {NONE!r}", found=repr(text[:60]))
    return items, ()


@dataclass(frozen=True)
class Points:
    name: str = "points"
    resize: tuple[int, int] | None = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        return f"{ask_for_frame(numbered)}Point to {text}"

    def parse(self, text: str) -> ParseResult:
        return read_response(text, read)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        places = [numerals(item.place) for item in items]
        output = [f'x{n}="{x}" y{n}="{y}"' for n, (x, y) in enumerate(places, start=1)]
        return frame_tag(frame) + (f"<points {' '.join(output)}>it</points>" if output else NONE)


@with_options(Composition)
def molmo(parts: Composition) -> PromptedModel:
    """Molmo, asked to point; a segmenter makes a mask of each point."""
    return PromptedModel(
        name="molmo",
        prompt=Points(),
        coordinates="normalized_100",
        words=Questions(),
        **parts.build(),
    )
