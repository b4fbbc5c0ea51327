"""IoUs of box tracks (one box a frame): by frame, their mean (VIoU), and areas for cIoU.

Tracks of different lengths, tracks without a frame and sides that are not finite are a DataError.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.metrics.boxes import box_iou
from harness.types import Box

BoxTrack = Sequence[Box | None]
"""A box a frame in pixels; None where the object is not in the frame."""


class BoxOverlap(NamedTuple):
    """Shared area and area of the union in square pixels, summed over frames."""

    intersection: float
    union: float


def track_ious(ground_truth: BoxTrack, predicted: BoxTrack) -> NDArray[np.float64]:
    """Return the exclusive IoU of each frame; float64 of shape (frames,).

    It is 1 where neither track has a box, and 0 where only one has.

    The mean over frames is the spatial score of a sample; `gIoU` of RVTBench's grounding is taken
    as the mean of this score over samples (the paper does not define it).

    >>> ground_truth = [Box(0, 0, 4, 4), None, Box(2, 0, 6, 4)]
    >>> predicted = [Box(0, 0, 4, 4), None] * 2
    >>> track_ious(ground_truth, predicted[:2] + predicted[:1]).tolist()
    [1.0, 1.0, 0.3333333333333333]
    """
    _check_lengths(ground_truth, predicted)
    pairs = zip(ground_truth, predicted, strict=True)
    return np.array([_frame_iou(true, predicted) for true, predicted in pairs], dtype=np.float64)


def video_iou(ground_truth: BoxTrack, predicted: BoxTrack) -> float:
    """Return VIoU of spatio-temporal grounding: the mean IoU of frames in which either has a box.

    A frame in which only one track has a box counts as 0; VIoU is 1 if neither ever has a box.

    >>> video_iou([Box(0, 0, 4, 4), Box(0, 0, 4, 4), None], [Box(0, 0, 4, 2), None, None])
    0.25
    """
    ious = track_ious(ground_truth, predicted)
    pairs = zip(ground_truth, predicted, strict=True)
    is_present = np.array([true is not None or predicted is not None for true, predicted in pairs])
    return float(ious[is_present].mean()) if is_present.any() else 1.0


def track_overlap(ground_truth: BoxTrack, predicted: BoxTrack) -> BoxOverlap:
    """Return intersection and union summed over frames; a `Ratio` of the two gives cIoU of boxes.

    `cIoU` of RVTBench's grounding is taken as cumulative IoU, `sum(I) / sum(U)` over the data set
    (the paper does not define it; complete IoU may be negative). An image is one frame.

    >>> track_overlap([Box(0, 0, 4, 4), None], [Box(0, 0, 4, 2), Box(0, 0, 1, 1)])
    BoxOverlap(intersection=8.0, union=17.0)
    """
    _check_lengths(ground_truth, predicted)
    shared = united = 0.0
    for true, output in zip(ground_truth, predicted, strict=True):
        common = _shared_area(true, output)
        shared, united = shared + common, united + (_area(true) + _area(output) - common)
    return BoxOverlap(shared, united)


def _frame_iou(true: Box | None, predicted: Box | None) -> float:
    if true is None or predicted is None:
        return float(true is predicted)  # 1 if both are None
    return float(box_iou([true], [predicted])[0, 0])


def _area(box: Box | None) -> float:
    if box is None:
        return 0.0
    return float(max(0.0, box.right - box.left) * max(0.0, box.bottom - box.top))


def _shared_area(first: Box | None, second: Box | None) -> float:
    if first is None or second is None:
        return 0.0
    left, top = max(first.left, second.left), max(first.top, second.top)
    right, bottom = min(first.right, second.right), min(first.bottom, second.bottom)
    return _area(Box(left, top, right, bottom))


def _check_lengths(ground_truth: BoxTrack, predicted: BoxTrack) -> None:
    """Raise DataError for tracks of different lengths, without frames, or with infinite sides."""
    if len(ground_truth) != len(predicted) or not ground_truth:
        raise DataError(
            "tracks of boxes",
            expected="equally many frames, at least one",
            found=f"{len(ground_truth)} and {len(predicted)}",
        )
    for box in (*ground_truth, *predicted):
        if box is not None and not np.isfinite(box).all():
            raise DataError("box of a track", expected="finite sides", found=repr(box))
