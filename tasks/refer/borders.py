"""Convert masks to polygons that COCO's code rasterises to the same masks, for sample data."""

import numpy as np
from scipy import ndimage

from harness.masks import BoolArray

Corner = tuple[int, int]
"""(x, y) of a corner of pixels; (0, 0) is the top left corner of the first pixel."""


def borders(mask: BoolArray) -> list[list[float]]:
    """Return one clockwise polygon [x, y, x, y, …] per 4-connected piece of a mask.

    A polygon follows the edges of pixels. COCO's code sets the pixels whose centres are inside, so
    that it restores the piece exactly. Holes are filled, because only outer borders are followed.
    """
    pieces, number = ndimage.label(mask)
    return [_flatten(_loop(np.pad(pieces == piece, 1))) for piece in range(1, number + 1)]


def _flatten(corners: list[Corner]) -> list[float]:
    """Return [x, y, …] of the corners where the border turns, without the padding of 1 pixel."""
    previous_corners, next_corners = [corners[-1], *corners[:-1]], [*corners[1:], corners[0]]
    corners_of_turns = [
        corner
        for before, corner, after in zip(previous_corners, corners, next_corners, strict=True)
        if not (before[0] == corner[0] == after[0] or before[1] == corner[1] == after[1])
    ]
    return [float(value - 1) for turn in corners_of_turns for value in turn]


def _loop(padded: BoolArray) -> list[Corner]:
    """Return the corners of the outer border of one piece, one pixel apart, clockwise."""
    row = int(padded.any(1).argmax())
    start = (int(padded[row].argmax()), row)
    corners, corner, step = [start], (start[0] + 1, start[1]), (1, 0)
    while corner != start:
        corners.append(corner)
        step = _turn(padded, corner, step)
        corner = (corner[0] + step[0], corner[1] + step[1])
    return corners


def _turn(padded: BoolArray, corner: Corner, step: Corner) -> Corner:
    """Return the next step along the border: the leftmost turn that has the piece on its right."""
    dx, dy = step
    for turned in ((dy, -dx), (dx, dy), (-dy, dx)):  # left, straight on, right (y is downwards)
        left_side, right_side = _sides(padded, corner, turned)
        if right_side and not left_side:
            return turned
    raise AssertionError("unreachable: a border goes on")


def _sides(padded: BoolArray, corner: Corner, step: Corner) -> tuple[bool, bool]:
    """Return (left, right): True if the pixel on that side of the next edge is in the piece."""
    (x, y), (dx, dy) = corner, step
    if dx:
        column = x if dx > 0 else x - 1
        above, below = bool(padded[y - 1, column]), bool(padded[y, column])
        return (above, below) if dx > 0 else (below, above)
    row = y if dy > 0 else y - 1
    before, after = bool(padded[row, x - 1]), bool(padded[row, x])
    return (after, before) if dy > 0 else (before, after)
