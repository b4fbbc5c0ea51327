"""Boundary F-measure of the DAVIS challenge, on the rectangle that holds both objects.

The official code works on full frames, a byte a pixel. Here a pixel is a bit, and what lies outside
of the rectangle is left out; all counts of pixels are the same, and so is every bit of F.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray, Rle
from harness.metrics.bits import Words, dilate_by_disk, outline
from harness.metrics.overlap import Mask, Track, check_masks, each_frame

TOLERANCE = 0.008  # of the frame's diagonal
MARGIN = 1  # a boundary lies at most one pixel outside its mask
STEPS = 8  # in which background after the last foreground is looked for


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
        predicted: The same kind, with as many frames of the same size.
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
    """F of one frame, of boolean arrays of height × width or of run-lengths.

    Of run-lengths only the columns that hold an object are decoded.

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
    outlines = outline(*cropped, gap=max(radius, 1))
    n_shown, n_predicted = _count(outlines)
    if n_shown == 0 or n_predicted == 0:
        return 1.0 if n_shown == n_predicted else 0.0
    near = dilate_by_disk(outlines, radius)
    n_found, n_right = _count(outlines & near[::-1])
    precision, recall = n_right / n_predicted, n_found / n_shown
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def boundary_radius(height: int, width: int) -> int:
    """Return the tolerance of boundaries in pixels: 0.008 of the full frame's diagonal, rounded up.

    >>> boundary_radius(480, 854), boundary_radius(720, 1280), boundary_radius(1080, 1920)
    (8, 12, 18)
    """
    return math.ceil(TOLERANCE * math.sqrt(height * height + width * width))


def _count(images: Words) -> tuple[int, int]:
    first, second = np.bitwise_count(images).sum(axis=(1, 2))
    return int(first), int(second)


def _crop(
    ground_truth: Mask, predicted: Mask, void: Mask | None
) -> tuple[BoolArray, BoolArray] | None:
    """Crop both masks, without void, to the area of outlines; None if there is no foreground.

    Outside lie no outlines, and a row or column of the margin is empty, so that it draws the same
    whether it is the last of the crop or not. Run-lengths come transposed, as they are stored: the
    official rule is the same for rows and columns, so F does not change.
    """
    if isinstance(ground_truth, Rle):
        assert isinstance(predicted, Rle), "check_masks saw one kind"
        span = _columns(ground_truth, predicted)
        if span is None:
            return None
        ground_truth, predicted = (_decode_columns(one, span) for one in (ground_truth, predicted))
        void = _decode_columns(void, span) if isinstance(void, Rle) else None
    assert not isinstance(predicted, Rle) and not isinstance(void, Rle), "check_masks saw one kind"
    window = _window(ground_truth, predicted)
    if window is None:
        return None
    if void is None:
        return ground_truth[window], predicted[window]
    counts = ~void[window]
    return ground_truth[window] & counts, predicted[window] & counts


def _window(ground_truth: BoolArray, predicted: BoolArray) -> tuple[slice, slice] | None:
    """The bounding rectangle of both foregrounds and its margin, within the frame."""
    start, end = _stretch(ground_truth.ravel(), predicted.ravel())
    if start == end:
        return None
    height, width = ground_truth.shape
    first, last = start // width, -(-end // width)
    used = ground_truth[first:last] | predicted[first:last]
    rows, columns = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
    return _span(first + int(rows[0]), first + int(rows[-1]), height), _span(
        int(columns[0]), int(columns[-1]), width
    )


def _stretch(first: BoolArray, second: BoolArray) -> tuple[int, int]:
    """Return the start of the foreground of two rows of pixels, and an end without any behind it.

    The two are equal where there is no foreground. `argmax` passes over background four times as
    fast as rows are looked through, but only from the start; from the end it is done in steps.
    """
    start, end = _leading_background(first), first.size
    start = min(start, _leading_background(second[: start + 1]))
    step = end // STEPS + 1
    while end - start > step:
        tail, other = first[end - step : end], second[end - step : end]
        if tail[tail.argmax()] or other[other.argmax()]:
            break
        end -= step
    return start, end


def _leading_background(pixels: BoolArray) -> int:
    """Return the number of background pixels before the first foreground; all if there is none."""
    place = int(pixels.argmax())
    return place if pixels[place] else pixels.size


def _span(first: int, last: int, size: int) -> slice:
    """Return the range of the used rows or columns with their margin, clipped to `size`."""
    return slice(max(first - MARGIN, 0), min(last + 1 + MARGIN, size))


def _columns(*masks: Rle) -> slice | None:
    """The columns of the frame that hold foreground of any mask, with their margin."""
    places = [place for mask in masks for place in _ends(mask)]
    if not places:
        return None
    height, width = masks[0].height, masks[0].width
    return _span(min(places) // height, max(places) // height, width)


def _ends(mask: Rle) -> Iterator[int]:
    """Column-major indices of the first and the last foreground pixel, if there is one."""
    ones = np.flatnonzero(mask.runs[1::2])
    if ones.size:
        yield int(mask.runs[: 2 * ones[0] + 1].sum())
        yield int(mask.runs[: 2 * ones[-1] + 2].sum()) - 1


def _decode_columns(mask: Rle, span: slice) -> BoolArray:
    """The pixels of some columns, as an array of columns × height."""
    edges = mask.runs.cumsum()
    # numpy's maximum and minimum together take half as long as its clip
    edges = np.minimum(np.maximum(edges, span.start * mask.height), span.stop * mask.height)
    runs = edges - span.start * mask.height
    runs[1:] -= runs[:-1].copy()
    foreground = np.zeros(runs.size, dtype=np.bool_)
    foreground[1::2] = True
    pixels = np.repeat(foreground, runs)
    return pixels.reshape(span.stop - span.start, mask.height)
