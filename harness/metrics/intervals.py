"""Temporal IoU of two intervals in seconds: over their union, or over their hull (V-STaR)."""

import math

from harness.errors import DataError
from harness.types import Interval


def temporal_iou(ground_truth: Interval, predicted: Interval | None) -> float:
    """Shared time over time in either interval, from 0 to 1.

    None, a predicted interval that ends before it begins, and two intervals without length score 0.

    Raises:
        DataError: a bound is not finite, or the true interval ends before it begins.

    >>> temporal_iou(Interval(2, 6), Interval(4, 8)), temporal_iou(Interval(2, 4), Interval(8, 10))
    (0.3333333333333333, 0.0)
    """
    check_interval(ground_truth, "true interval")
    if ground_truth.end < ground_truth.start:
        raise DataError(
            "true interval", expected="an end after its start", found=repr(ground_truth)
        )
    if predicted is None:
        return 0.0
    check_interval(predicted, "predicted interval")
    if predicted.end < predicted.start:
        return 0.0
    shared = max(
        0.0, min(ground_truth.end, predicted.end) - max(ground_truth.start, predicted.start)
    )
    either = (ground_truth.end - ground_truth.start) + (predicted.end - predicted.start) - shared
    return shared / either if either > 0 else 0.0


def temporal_iou_of_hull(ground_truth: Interval, predicted: Interval | None) -> float:
    """Shared time over the time from the first start to the last end, from 0 to 1.

    The hull is the union if the intervals touch; if they do not, nothing is shared and both forms
    are 0. So this one differs from `temporal_iou` only in rounding, and for a predicted interval
    that ends before it begins. Equal bit for bit to `calculate_temporal_iou` in
    `eval.py` (V-STaR, commit 1894682).

    Raises:
        DataError: a bound is not finite.

    >>> temporal_iou_of_hull(Interval(2, 6), Interval(4, 8))
    0.3333333333333333
    """
    if predicted is None:
        return 0.0
    check_interval(ground_truth, "true interval")
    check_interval(predicted, "predicted interval")
    shared = max(0, min(ground_truth.end, predicted.end) - max(ground_truth.start, predicted.start))
    hull = max(ground_truth.end, predicted.end) - min(ground_truth.start, predicted.start)
    return shared / hull if hull > 0 else 0.0


def check_interval(interval: Interval, what: str) -> None:
    """Raise DataError unless both bounds are finite."""
    if not (math.isfinite(interval.start) and math.isfinite(interval.end)):
        raise DataError(what, expected="two finite bounds in seconds", found=repr(interval))
