"""Masks to polygons: the outer border of each piece, followed pixel by pixel.

Written here, since the order and the choice of points of OpenCV's contours is the library's own
affair, and the files of a world are equal wherever they are made.
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
    """Corners of the closed outer border of each piece, clockwise.

    Pieces join by edges and corners and come in the order of their first pixels, row by row. A
    polygon through these corners, outline and filling, is the piece itself unless it has holes.
    """
    pieces, number = ndimage.label(np.pad(mask, 1), structure=np.ones((3, 3), dtype=np.int64))
    return [_border(pieces == piece) for piece in range(1, number + 1)]


def _border(padded: NDArray[np.bool_]) -> list[Pixel]:
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
    """The next step along the border: the leftmost one, as seen from the step just made."""
    x, y = pixel
    for turn in range(6, 14):
        dx, dy = STEPS[(step + turn) % 8]
        if padded[y + dy, x + dx]:
            return (step + turn) % 8
    return None


def _unpadded(pixel: Pixel) -> Pixel:
    return pixel[0] - 1, pixel[1] - 1
