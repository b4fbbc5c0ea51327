"""Draw the images that the SAM 3 agent is shown: numbered masks, and a close-up of one mask."""

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
"""Okabe and Ito's colours, which colour-blind people can distinguish."""
MASK_OPACITY = 0.3  # opacity of a mask
MARGIN, LEAST_MARGIN = 0.2, 16
"""Margin around the mask in a close-up, both sides together: a share of the box's side, and at
least this many pixels."""
CLOSE_UP_SIDE = 448
"""Longest side of each half of a close-up, in pixels."""


def numbered(image: Frame, masks: Sequence[BoolArray]) -> Frame:
    """Return the image with masks (not empty) drawn on it, each with its number, from 1."""
    for number, mask in enumerate(masks):
        image = _with_mask(image, mask, COLOURS[number % len(COLOURS)])
    drawn = Image.fromarray(image)
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(max(10, min(drawn.size) // 25))
    for number, mask in enumerate(masks, start=1):
        (part,) = parts(Rle.from_array(mask), limit=1)
        centre = (part.place.x + 0.5, part.place.y + 0.5)  # of the largest inscribed circle
        pen.text(centre, str(number), "white", font, "mm", stroke_width=2, stroke_fill="black")
    return np.asarray(drawn)


def close_up(image: Frame, mask: BoolArray, colour: Colour) -> Frame:
    """Return a close-up of a mask: the surroundings with its box, beside the same with the mask."""
    box = extent(mask)
    assert box is not None, "masks that are shown are not empty"
    height, width = mask.shape
    # margin on each side, in pixels
    across, down = (
        max(MARGIN * side, LEAST_MARGIN) / 2
        for side in (box.right - box.left, box.bottom - box.top)
    )
    rows = slice(max(0, int(box.top - down)), min(height, int(box.bottom + down) + 1))
    columns = slice(max(0, int(box.left - across)), min(width, int(box.right + across) + 1))
    halves = [rectangle(image, box, colour=colour), _with_mask(image, mask, colour)]
    return side_by_side([_enlarged(half[rows, columns]) for half in halves])


def as_image(frame: Frame) -> Media:
    """Return a decoded image as a medium; its id is a hash of the pixels."""
    digest = hashlib.blake2b(frame.tobytes(), digest_size=16).hexdigest()
    return pixels([frame], times=(0.0,), is_video=False, id=digest)


def _with_mask(image: Frame, mask: BoolArray, colour: Colour) -> Frame:
    """Return the image with a tinted and outlined mask."""
    return outline(tint(image, mask, colour=colour, alpha=MASK_OPACITY), mask, colour=colour)


def _enlarged(part: Frame) -> Frame:
    """Return an image, enlarged to a longest side of `CLOSE_UP_SIDE` pixels if it is smaller."""
    factor = CLOSE_UP_SIDE / max(part.shape[:2])
    if factor <= 1:
        return part
    size = (round(part.shape[1] * factor), round(part.shape[0] * factor))
    return np.asarray(Image.fromarray(part).resize(size, Image.Resampling.BICUBIC))
