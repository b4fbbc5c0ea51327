"""Boxes as masks, for readers of perfect answers that segment and track."""

from harness.masks import Rle
from harness.run_lengths import encode_runs
from harness.types import Box


def box_mask(box: Box | None, size: tuple[int, int]) -> Rle:
    """The pixels inside a box, sides rounded and cut to an image of (width, height)."""
    width, height = size
    if box is None:
        return Rle.empty(height, width)
    left, right = (min(max(round(side), 0), width) for side in (box.left, box.right))
    top, bottom = (min(max(round(side), 0), height) for side in (box.top, box.bottom))
    if right <= left or bottom <= top:
        return Rle.empty(height, width)
    columns, rows = right - left, bottom - top
    if rows == height:
        runs = [left * height, columns * height, (width - right) * height]
    else:
        runs = [left * height + top]
        runs += [rows, height - rows] * (columns - 1)
        runs += [rows, (width - right) * height + height - bottom]
    return Rle(height, width, encode_runs(runs if runs[-1] else runs[:-1]))
