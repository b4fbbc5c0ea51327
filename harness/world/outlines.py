"""Conversion of masks to polygons: the outer border of each connected piece, pixel by pixel.

OpenCV's contours are not used: their points may differ between its versions, and the files of a
world must be equal wherever they are made.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from harness.masks import BoolArray

Pixel = tuple[int, int]
"""(x, y)."""

STEPS: tuple[Pixel, ...] = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
"""The eight neighbours, clockwise from the right."""


def outlines(mask: BoolArray) -> list[list[Pixel]]:
    """Return the corners of the closed outer border of each piece, clockwise.

    Pieces are connected by edges and corners, and ordered by their first pixels, row by row. The
    polygon through the corners, outline and filling, equals the piece unless that has holes.
    """
    pieces, number = ndimage.label(np.pad(mask, 1), structure=np.ones((3, 3), dtype=np.int64))
    return [_border(pieces == piece) for piece in range(1, number + 1)]


def _border(padded: NDArray[np.bool_]) -> list[Pixel]:
    """Return the corners of one piece's border; the mask has a margin of one empty pixel."""
    first_row = int(padded.any(1).argmax())
    start = (int(padded[first_row].argmax()), first_row)
    first = _turn(padded, start, 0)
    if first is None:
        return [_unpadded(start)]
    corners: list[Pixel] = []
    pixel, step = start, first
    while True:
        pixel = (pixel[0] + STEPS[step][0], pixel[1] + STEPS[step][1])
        turned = _turn(padded, pixel, step)
        assert turned is not None  # the way back is always there
        if turned != step:
            corners.append(_unpadded(pixel))
        step = turned
        if pixel == start and step == first:
            return corners


def _turn(padded: NDArray[np.bool_], pixel: Pixel, step: int) -> int | None:
    """Return the next step along the border, which turns most to the left after the last `step`.

    A step is an index in `STEPS`; None: the pixel has no neighbour.
    """
    x, y = pixel
    for turn in range(6, 14):  # from a right angle to the left, clockwise
        dx, dy = STEPS[(step + turn) % 8]
        if padded[y + dy, x + dx]:
            return (step + turn) % 8
    return None


def _unpadded(pixel: Pixel) -> Pixel:
    return pixel[0] - 1, pixel[1] - 1
