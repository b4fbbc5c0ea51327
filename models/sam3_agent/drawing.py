"""Images that the agent is shown: masks with numbers, and one mask from near."""

import hashlib
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from harness.masks import BoolArray, Rle
from harness.media import Frame, Media, pixels
from harness.models.response_writer import parts
from harness.models.tracks import extent
from harness.overlay import Colour, outline, rectangle, side_by_side, tint

COLOURS: tuple[Colour, ...] = (
    *((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66)),
    *((0, 114, 178), (213, 94, 0), (204, 121, 167)),
)
"""Okabe and Ito's."""
ALPHA = 0.3
MARGIN, LEAST_MARGIN = 0.2, 16
"""Surroundings of a mask from near: a share of its sides, and at least so many pixels in all."""
NEAR = 448
"""Longest side of each half of the image from near, in pixels."""


def numbered(image: Frame, masks: Sequence[BoolArray]) -> Frame:
    """Draw masks on an image, each with its number, from 1, where it is widest."""
    for place, mask in enumerate(masks):
        image = _marked(image, mask, COLOURS[place % len(COLOURS)])
    drawn = Image.fromarray(image)
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(max(10, min(drawn.size) // 25))
    for place, mask in enumerate(masks):
        (part,) = parts(Rle.from_array(mask), limit=1)
        at = (part.place.x + 0.5, part.place.y + 0.5)
        pen.text(at, str(place + 1), "white", font, "mm", stroke_width=2, stroke_fill="black")
    return np.asarray(drawn)


def from_near(image: Frame, mask: BoolArray, colour: Colour) -> Frame:
    """Draw a mask's surroundings with its box, beside the same with the mask."""
    box = extent(mask)
    assert box is not None, "masks that are shown are not empty"
    height, width = mask.shape
    across, down = (
        max(MARGIN * side, LEAST_MARGIN) / 2
        for side in (box.right - box.left, box.bottom - box.top)
    )
    rows = slice(max(0, int(box.top - down)), min(height, int(box.bottom + down) + 1))
    columns = slice(max(0, int(box.left - across)), min(width, int(box.right + across) + 1))
    halves = [rectangle(image, box, colour=colour), _marked(image, mask, colour)]
    return side_by_side([_enlarged(half[rows, columns]) for half in halves])


def as_image(frame: Frame) -> Media:
    """Return pixels as an image to show, whose id is a hash of them."""
    digest = hashlib.blake2b(frame.tobytes(), digest_size=16).hexdigest()
    return pixels([frame], times=(0.0,), is_video=False, id=digest)


def _marked(image: Frame, mask: BoolArray, colour: Colour) -> Frame:
    return outline(tint(image, mask, colour=colour, alpha=ALPHA), mask, colour=colour)


def _enlarged(part: Frame) -> Frame:
    factor = NEAR / max(part.shape[:2])
    if factor <= 1:
        return part
    size = (round(part.shape[1] * factor), round(part.shape[0] * factor))
    return np.asarray(Image.fromarray(part).resize(size, Image.Resampling.BICUBIC))
