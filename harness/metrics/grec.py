"""Generalised referring comprehension (gRefCOCO): an expression refers to any number of boxes.

A sample is right if each predicted box is matched to a true one and none is left over (`grec_f1` is
1). *Generalised IoU* (Rezatofighi et al., 2019) is the IoU of two boxes, less the share of their
common hull that neither covers. Boxes that are not rows of four finite numbers, or have a negative
side, are a DataError.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.metrics.boxes import BoxRows, rows_of

MIN_SCORE = 0.7  # of a predicted box that counts
MIN_OVERLAP = 0.5  # generalised IoU of a match


def generalised_box_iou(ground_truth: BoxRows, predicted: BoxRows) -> NDArray[np.float32]:
    """Return the generalised IoU of every pair of boxes; float32 of true × predicted, -1 to 1.

    Right and bottom are exclusive. A quotient by an area of 0 counts as 0; the official function
    returns NaN for it. Otherwise equal bit for bit to
    `generalized_box_iou` in `mdetr/util/box_ops.py` of gRefCOCO (commit 41a8f00) on float32.

    >>> generalised_box_iou([(0, 0, 4, 4)], [(0, 0, 4, 4), (0, 0, 4, 2), (8, 0, 12, 4)]).tolist()
    [[1.0, 0.5, -0.3333333432674408]]
    """
    first, second = _rows(ground_truth, "true boxes"), _rows(predicted, "predicted boxes")
    shared = _area(
        np.maximum(first[:, None, :2], second[None, :, :2]),
        np.minimum(first[:, None, 2:], second[None, :, 2:]),
    )
    areas = [_area(boxes[:, :2], boxes[:, 2:]) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1] - shared
    hull = _area(
        np.minimum(first[:, None, :2], second[None, :, :2]),
        np.maximum(first[:, None, 2:], second[None, :, 2:]),
    )
    return _quotient(shared, union) - _quotient(hull - union, hull)


def confident(boxes: BoxRows, scores: Sequence[float]) -> list[tuple[float, ...]]:
    """Return the boxes that count: those whose score is at least 0.7 as a float32, the best first.

    A score written as 0.7 does not count: the official code receives it as a float32, which is a
    little less than 0.7. Of boxes with equal scores the one with the larger left side comes first,
    then the larger top, right and bottom.

    Raises:
        DataError: there are not as many scores as boxes, or one is not finite.

    >>> confident([(0, 0, 4, 4), (1, 0, 4, 4), (2, 0, 4, 4)], [0.71, 0.7, 0.9])
    [(2.0, 0.0, 4.0, 4.0), (0.0, 0.0, 4.0, 4.0)]
    """
    rows = _rows(boxes, "predicted boxes")
    if len(rows) != len(scores) or not np.isfinite(np.asarray(scores, dtype=np.float64)).all():
        raise DataError(
            "scores of boxes", expected=f"{len(rows)} finite numbers", found=repr(scores)[:60]
        )
    ranked = sorted(
        zip(np.asarray(scores, dtype=np.float32).tolist(), map(tuple, rows.tolist()), strict=True),
        reverse=True,
    )
    return [box for score, box in ranked if score >= MIN_SCORE]


def grec_f1(ground_truth: BoxRows, predicted: BoxRows) -> float:
    """Return the F1 of one sample, `2 TP / (2 TP + FP + FN)`, of boxes matched greedily.

    The pair with the largest generalised IoU is matched first, then the largest of the remaining
    pairs, while it is at least 0.5. Without a true box, "no target", the F1 is 1 without a
    predicted box and 0 otherwise. The benchmark's `F1_score` is the share of samples whose F1 is 1,
    `f1 >= 1.0`; its N_acc is the share of samples without a target that have no predicted box, its
    T_acc the share of samples with a target that have a predicted box.

    Equal to `RefExpEvaluator.summarize` in `mdetr/datasets/refexp.py` of gRefCOCO (commit 41a8f00),
    in whose data a sample without a target is an annotation of category -1, whatever its box.

    Args:
        ground_truth: The boxes of all target objects; empty without a target.
        predicted: The boxes that count, in the order of `confident`.

    >>> grec_f1([(0, 0, 4, 4), (8, 0, 12, 4)], [(0, 0, 4, 4)])
    0.6666666666666666
    >>> grec_f1([], []), grec_f1([], [(0, 0, 4, 4)]), grec_f1([(0, 0, 4, 4)], [])
    (1.0, 0.0, 0.0)
    """
    # Predicted × true, as in the official code: the order decides which of equal pairs is matched.
    quality = generalised_box_iou(ground_truth, predicted).T
    n_predicted, n_true = quality.shape
    if n_true == 0:
        return float(n_predicted == 0)
    matched = 0
    while matched < min(n_predicted, n_true):
        output, true = divmod(int(quality.argmax()), n_true)  # row and column of the largest
        if quality[output, true] < MIN_OVERLAP:
            break
        matched += 1
        quality[output, :] = quality[:, true] = 0.0
    return float(2 * matched / (n_predicted + n_true))


def _area(low: NDArray[np.float32], high: NDArray[np.float32]) -> NDArray[np.float32]:
    sides = np.maximum(high - low, np.float32(0))
    return np.asarray(sides[..., 0] * sides[..., 1])


def _quotient(above: NDArray[np.float32], below: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def _rows(boxes: BoxRows, what: str) -> NDArray[np.float32]:
    """Return boxes as float32 of N × 4, the precision of the official code."""
    with np.errstate(over="ignore"):
        rows = rows_of(boxes, 4, what).astype(np.float32)
    if not (np.isfinite(rows).all() and (rows[:, 2:] >= rows[:, :2]).all()):
        expected = "four finite numbers a row: left, top, right ≥ left, bottom ≥ top"
        raise DataError(what, expected=expected, found=repr(rows.tolist())[:80])
    return rows
