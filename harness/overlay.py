"""Drawing answers on pictures: tints, outlines, frames, and pictures side by side.

Every function takes and returns pictures of height × width × 3, uint8, RGB, origin at the top
left, and leaves its input as it was. Coordinates are pixels of the picture that is drawn on.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from PIL import Image

from harness.errors import MaskError, MediaError
from harness.masks import BoolArray
from harness.media import Frame

Colour: TypeAlias = tuple[int, int, int]
"""Red, green and blue from 0 to 255."""

# Two of Okabe and Ito's colours, which stay apart for the colour-blind and in grey.
TRUTH: Colour = (0, 158, 115)
PREDICTION: Colour = (213, 94, 0)
WHITE: Colour = (255, 255, 255)


def tint(picture: Frame, mask: BoolArray, *, colour: Colour, alpha: float = 0.5) -> Frame:
    """Blend `colour` into the pixels of `mask` (height × width); `alpha` 1 covers them.

    Raises:
        MaskError: the mask is not of the picture's size.
    """
    _check(picture, mask)
    drawn = picture.copy()
    blended = picture[mask] * (1 - alpha) + np.asarray(colour, dtype=np.float64) * alpha
    drawn[mask] = np.rint(blended).astype(np.uint8)
    return drawn


def outline(picture: Frame, mask: BoolArray, *, colour: Colour, width: int = 2) -> Frame:
    """Paint the outermost `width` pixels of `mask` (height × width) in `colour`.

    Where the mask touches the picture's border, the line runs along the border.

    Raises:
        MaskError: the mask is not of the picture's size.
    """
    _check(picture, mask)
    inside = np.pad(mask, 1)
    for _ in range(width):
        core = inside.copy()
        core[1:-1, 1:-1] &= (
            inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
        )
        inside = core
    drawn = picture.copy()
    drawn[mask & ~inside[1:-1, 1:-1]] = colour
    return drawn


def rectangle(
    picture: Frame,
    box: tuple[float, float, float, float],
    *,
    colour: Colour,
    width: int = 2,
) -> Frame:
    """Paint the frame of a box (left, top, right, bottom; the last two exclusive).

    What lies outside the picture is not drawn.
    """
    height, across = picture.shape[:2]
    if box[2] <= 0 or box[3] <= 0:
        return picture.copy()
    left, right = sorted(_whole(edge, across) for edge in (box[0], box[2]))
    top, bottom = sorted(_whole(edge, height) for edge in (box[1], box[3]))
    area = np.zeros((height, across), dtype=np.bool_)
    area[top : max(bottom, top + 1), left : max(right, left + 1)] = True
    return outline(picture, area, colour=colour, width=width)


def dot(picture: Frame, point: tuple[float, float], *, colour: Colour, radius: int = 4) -> Frame:
    """Paint a disc around a point (x, y), with a white rim so that it shows on any ground."""
    rows, columns = np.ogrid[: picture.shape[0], : picture.shape[1]]
    distance = np.hypot(columns + 0.5 - point[0], rows + 0.5 - point[1])
    drawn = picture.copy()
    drawn[distance <= radius + 1.5] = WHITE
    drawn[distance <= radius] = colour
    return drawn


def thumbnail(picture: Frame, *, width: int) -> Frame:
    """The picture made at most `width` pixels wide, averaged over areas; never enlarged."""
    if picture.shape[1] <= width:
        return picture
    height = max(1, round(picture.shape[0] * width / picture.shape[1]))
    small = Image.fromarray(picture).resize((width, height), Image.Resampling.BOX)
    return np.asarray(small)


def side_by_side(pictures: Sequence[Frame], *, gap: int = 8, background: Colour = WHITE) -> Frame:
    """Pictures in a row from left to right, `gap` pixels apart, aligned at the top.

    Raises:
        MediaError: there are none.
    """
    if not pictures:
        raise MediaError("pictures side by side", expected="at least one", found="none")
    height = max(picture.shape[0] for picture in pictures)
    width = sum(picture.shape[1] for picture in pictures) + gap * (len(pictures) - 1)
    row = np.empty((height, width, 3), dtype=np.uint8)
    row[:] = background
    left = 0
    for picture in pictures:
        row[: picture.shape[0], left : left + picture.shape[1]] = picture
        left += picture.shape[1] + gap
    return row


def strip(frames: Sequence[Frame], *, width: int = 160, gap: int = 4) -> Frame:
    """A video's frames as thumbnails of `width` pixels in a row, in the order given."""
    return side_by_side([thumbnail(frame, width=width) for frame in frames], gap=gap)


def spread(frames: int, most: int = 6) -> tuple[int, ...]:
    """Indices of at most `most` frames, evenly spread from the first to the last.

    >>> spread(11, 3)
    (0, 5, 10)
    >>> spread(2, 6)
    (0, 1)
    """
    if frames <= most:
        return tuple(range(frames))
    return tuple(int(index) for index in np.linspace(0, frames - 1, most).round())


def _check(picture: Frame, mask: BoolArray) -> None:
    if mask.shape != picture.shape[:2]:
        raise MaskError(
            "mask to draw",
            expected=f"{picture.shape[1]} × {picture.shape[0]} pixels, as the picture",
            found=f"shape {mask.shape}",
        )


def _whole(edge: float, limit: int) -> int:
    return round(min(max(edge, 0), limit))
