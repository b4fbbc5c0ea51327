"""Convert V-STaR's true boxes to masks, for models that answer with masks."""

from harness.masks import Rle
from harness.run_lengths import encode_runs
from harness.types import Box


def box_mask(box: Box | None, size: tuple[int, int]) -> Rle:
    """Return the mask of a box's pixels in an image of `size` (width, height).

    The sides of the box are rounded to whole pixels and clipped to the image. The mask is empty if
    the box is None or has no pixel in the image.
    """
    width, height = size
    if box is None:
        return Rle.empty(height, width)
    left, right = (min(max(round(side), 0), width) for side in (box.left, box.right))
    top, bottom = (min(max(round(side), 0), height) for side in (box.top, box.bottom))
    if right <= left or bottom <= top:
        return Rle.empty(height, width)
    columns, rows = right - left, bottom - top
    # Lengths of runs of 0 and 1 in turns, starting with 0, column by column.
    if rows == height:
        runs = [left * height, columns * height, (width - right) * height]
    else:
        runs = [left * height + top]
        runs += [rows, height - rows] * (columns - 1)
        runs += [rows, (width - right) * height + height - bottom]
    if runs[-1] == 0:
        runs.pop()
    return Rle(height, width, encode_runs(runs))
