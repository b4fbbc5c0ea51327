"""Boundary F-measure (F) of the DAVIS challenge, for masks and tracks of masks.

The official code works on full frames, a byte a pixel. Here both masks are cropped to the rows or
columns that hold an object, and a pixel is a bit (`harness.metrics.bits`): all counts of pixels are
the same, and so is every bit of F.
"""

import math

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray, Rle
from harness.metrics.bits import count, dilate_by_disk, outline, split
from harness.metrics.overlap import Mask, Track, check_masks, each_frame

TOLERANCE = 0.008  # as a fraction of the frame's diagonal
MARGIN = 1  # pixels; a boundary lies at most one pixel outside its mask
N_BLOCKS = 48  # blocks of rows that are searched for foreground


def boundary_f_measure(
    ground_truth: Track, predicted: Track, void: Track | None = None
) -> NDArray[np.float64]:
    """Return F of each frame, the agreement of the outlines; float64 of shape (frames,), 0 to 1.

    Equal bit for bit to `db_eval_boundary` in `davis2017/metrics.py` (davis2017-evaluation, commit
    ac7c43f; the same code is in MeViS, VISA and ReferFormer). Precision is the part of the
    predicted boundary that lies within `boundary_radius` of the true one, recall the converse, F
    their harmonic mean. The scorer compares *boundaries*, so that a mask that fills the frame
    equals an empty one: both have none, and F is 1. One of two boundaries empty gives 0.

    Args:
        ground_truth: Boolean array of frames × height × width, or one run-length a frame.
        predicted: Predicted masks, as many and of the same size as the true ones.
        void: Pixels that are taken out of both masks before their boundaries are drawn.

    Raises:
        MaskError: kinds, sizes or numbers of frames differ, or an array is not boolean.

    >>> ground_truth, predicted = np.zeros((2, 1, 100, 100), bool)
    >>> ground_truth[0, 20:60, 20:60] = predicted[0, 20:60, 24:64] = True
    >>> boundary_f_measure(ground_truth, predicted)
    array([0.5125])
    """
    return each_frame(boundary_f_measure_frame, ground_truth, predicted, void)


def boundary_f_measure_frame(
    ground_truth: Mask, predicted: Mask, void: Mask | None = None
) -> float:
    """Return F of one frame, for boolean arrays of height × width or for run-lengths.

    Only the columns of run-lengths that hold an object are decoded.

    >>> empty, full, dot = np.zeros((9, 9), bool), np.ones((9, 9), bool), np.pad([[True]], 4)
    >>> [boundary_f_measure_frame(*pair) for pair in ((dot, dot), (dot, empty), (full, empty))]
    [1.0, 0.0, 1.0]
    """
    check_masks(ground_truth, predicted, ignore=void)
    height, width = (
        (ground_truth.height, ground_truth.width)
        if isinstance(ground_truth, Rle)
        else ground_truth.shape
    )
    cropped = _crop(ground_truth, predicted, void)
    if cropped is None:
        return 1.0
    radius = boundary_radius(height, width)
    first, second = cropped
    outlines = outline(first, second, gap=radius)
    true_outline, predicted_outline = split(outlines)
    n_true, n_predicted = count(true_outline), count(predicted_outline)
    if n_true == 0 or n_predicted == 0:
        return 1.0 if n_true == n_predicted else 0.0
    near_true, near_predicted = split(dilate_by_disk(outlines, radius))
    n_found, n_right = count(true_outline & near_predicted), count(predicted_outline & near_true)
    precision, recall = n_right / n_predicted, n_found / n_true
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def boundary_radius(height: int, width: int) -> int:
    """Return the tolerance of boundaries in pixels: 0.008 of the full frame's diagonal, rounded up.

    >>> boundary_radius(480, 854), boundary_radius(720, 1280), boundary_radius(1080, 1920)
    (8, 12, 18)
    """
    return math.ceil(TOLERANCE * math.sqrt(height * height + width * width))


def _crop(ground_truth: Mask, predicted: Mask, void: Mask | None) -> list[BoolArray] | None:
    """Crop both masks, less void, to the rows that hold foreground; None if there is none.

    A margin of one row is kept, so that the outline is the same as in the full frame. Run-lengths
    are cropped to columns and returned as columns × rows, as they are stored: the official rule is
    the same for rows and columns, so F does not change.
    """
    masks = [ground_truth, predicted] if void is None else [ground_truth, predicted, void]
    runs = [mask for mask in masks if isinstance(mask, Rle)]
    arrays = [mask for mask in masks if not isinstance(mask, Rle)]
    crops = _crop_runs(*runs) if runs else _crop_arrays(*arrays)
    if void is None or crops is None:
        return crops
    return [crop & ~crops[2] for crop in crops[:2]]


def _crop_arrays(*masks: BoolArray) -> list[BoolArray] | None:
    """Crop all masks to the blocks of rows where the first two have foreground, and a margin."""
    height, width = masks[0].shape
    block = height // N_BLOCKS + 1
    starts = np.arange(0, height * width, block * width)
    pixels = [mask.view(np.uint8) for mask in masks]
    first, second = (np.maximum.reduceat(mask.ravel(), starts) for mask in pixels[:2])
    used = (first | second).nonzero()[0]
    if used.size == 0:
        return None
    rows = _span(int(used[0]) * block, int(used[-1] + 1) * block - 1, height)
    if max(first.max(), second.max()) > 1:  # a view of 0 and 255 as bool; `outline` needs 0 and 1
        return [mask[rows] != 0 for mask in pixels]
    return [mask[rows] for mask in masks]


def _crop_runs(*masks: Rle) -> list[BoolArray] | None:
    """Decode the columns where the first two masks have foreground, and a margin: columns × height.

    Runs alternate from background on, so that foreground runs have odd indices.
    """
    height, width = masks[0].height, masks[0].width
    ends = [mask.runs.cumsum() for mask in masks]
    occupied = [end for end in ends[:2] if end.size > 1]
    if not occupied:
        return None
    first = min(int(end[0]) for end in occupied)
    last = max(int(end[1::2][-1]) for end in occupied) - 1
    columns = _span(first // height, last // height, width)
    return [_decode_columns(end, columns, height) for end in ends]


def _span(first: int, last: int, size: int) -> slice:
    """Return the range of the used rows or columns with their margin, clipped to `size`."""
    return slice(max(first - MARGIN, 0), min(last + 1 + MARGIN, size))


def _decode_columns(ends: NDArray[np.int64], columns: slice, height: int) -> BoolArray:
    """Return the pixels of some columns of a mask, columns × height; `ends` are its runs' ends."""
    start, stop = columns.start * height, columns.stop * height
    # numpy's maximum and minimum together take half as long as its clip
    runs = np.minimum(np.maximum(ends, start), stop) - start
    runs[1:] -= runs[:-1].copy()
    foreground = np.zeros(runs.size, dtype=np.bool_)
    foreground[1::2] = True
    return np.repeat(foreground, runs).reshape(-1, height)
