"""IoU of boxes in pixels, by the two conventions in use: right and bottom exclusive, or inclusive.

Exclusive is the convention of scores, inclusive that of VisionReasoner's training reward.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.types import Box

BoxRows = Sequence[Box] | NDArray[np.floating] | Sequence[Sequence[float]]
"""N boxes as rows of left, top, right, bottom, in pixels; an empty sequence holds none."""


HIT_IOU = 0.5  # a hit has a larger IoU


def rows_of(
    rows: object, length: int, what: str, *, order: str = "", finite: bool = False
) -> NDArray[np.float64]:
    """Return rows as float64 of N × `length`; an empty sequence gives 0 rows.

    Args:
        rows: The boxes.
        length: Numbers of a row.
        what: Name of the rows, for errors.
        order: Meaning of the numbers, for errors.
        finite: True to refuse infinite numbers and NaN.

    Raises:
        DataError: they are not such rows.
    """
    expected = f"rows of {length} {'finite ' if finite else ''}numbers{order and ': '}{order}"
    try:
        numbers = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(what, expected=expected, found=repr(rows)[:60]) from error
    if numbers.size == 0 and numbers.ndim <= 2:
        return np.empty((0, length))
    if numbers.ndim != 2 or numbers.shape[1] != length:
        raise DataError(what, expected=expected, found=f"shape {numbers.shape}")
    if finite and not np.isfinite(numbers).all():
        raise DataError(what, expected=expected, found=repr(numbers.tolist())[:60])
    return numbers


def box_iou(ground_truth: BoxRows, predicted: BoxRows) -> NDArray[np.float64]:
    """IoU of every pair of boxes, right and bottom exclusive; float64 of true × predicted.

    A box of width 10 spans left to left + 10. The IoU of two empty boxes is 0, and so is that of a
    box whose right is less than its left. Equal bit for bit to `compute_bbox_iou` in
    `evaluation/evaluation_segmentation.py` of VisionReasoner (commit a455092).

    Raises:
        DataError: an operand is not rows of four finite numbers.

    >>> box_iou([Box(0, 0, 10, 10)], [Box(5, 0, 15, 10), Box(20, 0, 30, 10)])
    array([[0.33333333, 0.        ]])
    """
    return _pairwise_iou(ground_truth, predicted, rim=0.0)


def box_iou_inclusive(ground_truth: BoxRows, predicted: BoxRows) -> NDArray[np.float64]:
    """IoU of every pair of boxes, right and bottom inclusive; float64 of true × predicted.

    A box from 0 to 9 covers ten pixels. This is the convention of VisionReasoner's training
    reward, not of any score: `batch_iou` in `verl/utils/reward_score/vision_reasoner.py` of
    Seg-Zero (commit 42a3345), bit for bit.

    Raises:
        DataError: an operand is not rows of four finite numbers.

    >>> box_iou_inclusive([Box(0, 0, 9, 9)], [Box(5, 0, 14, 9), Box(9, 9, 12, 12)])
    array([[0.33333333, 0.00869565]])
    """
    return _pairwise_iou(ground_truth, predicted, rim=1.0)


def any_box_hits(ground_truth: Box, predicted: BoxRows) -> bool:
    """Return True if any predicted box has an exclusive IoU with the true box above 0.5.

    The mean over samples is what VisionReasoner prints as `bbox_AP`; an IoU of 0.5 does not count.
    No predicted box: False.

    >>> any_box_hits(Box(0, 0, 10, 10), [Box(0, 0, 10, 5), Box(0, 0, 10, 5.1)])
    True
    >>> any_box_hits(Box(0, 0, 10, 10), [Box(0, 0, 10, 5)])
    False
    """
    return bool((box_iou([ground_truth], predicted) > HIT_IOU).any())


def _pairwise_iou(ground_truth: BoxRows, predicted: BoxRows, *, rim: float) -> NDArray[np.float64]:
    """Return the IoU of all pairs; a side is right - left (or bottom - top) + `rim` pixels."""
    order = "left, top, right, bottom"
    first = rows_of(ground_truth, 4, "true boxes", order=order, finite=True)
    second = rows_of(predicted, 4, "predicted boxes", order=order, finite=True)
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.maximum(0.0, high - low + rim).prod(axis=2)
    union = _areas(first, rim)[:, None] + _areas(second, rim)[None, :] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def _areas(boxes: NDArray[np.float64], rim: float) -> NDArray[np.float64]:
    sides = boxes[:, 2:] - boxes[:, :2] + rim
    return np.asarray(sides[:, 0] * sides[:, 1])
