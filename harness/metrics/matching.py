"""One joint assignment of predicted to true objects, as VisionReasoner's reward makes it.

Metric and reward share it. All coordinates are in the reward's own frame, 840 × 840 pixels.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from harness.errors import DataError
from harness.metrics.boxes import BoxRows, box_iou_inclusive, rows_of
from harness.metrics.points import PointRows, point_distances, points_in_boxes

MAX_OBJECTS = 120
"""Objects further on in either list are not looked at."""
MIN_IOU = 0.5
MAX_BOX_DISTANCE = 10.0  # pixels, mean of the four absolute differences
MAX_POINT_DISTANCE = 30.0  # pixels, Euclidean
BITS = 3


class Objects(NamedTuple):
    """N objects: a box (left, top, right, bottom) and a point (x, y) each."""

    boxes: BoxRows
    points: PointRows


class Matching(NamedTuple):
    """Assignment of predicted to true objects, and the number of tests that each pair passes."""

    predicted: NDArray[np.int64]
    ground_truth: NDArray[np.int64]
    bits: NDArray[np.int64]


def pair_bits(ground_truth: Objects, predicted: Objects) -> NDArray[np.int64]:
    """Return the number of three tests that each pair passes; int64 of predicted × true, 0 to 3.

    Inclusive IoU above 0.5; mean absolute difference of the boxes' four sides below 10; points less
    than 30 apart and the predicted point inside *its own* box, edges included. A number that is not
    finite passes no test that it takes part in.

    Raises:
        DataError: rows of the wrong length, or not one point a box.

    >>> true = Objects([(0, 0, 99, 99)], [(50, 50)])
    >>> pair_bits(true, Objects([(0, 0, 99, 99), (0, 0, 99, 49)], [(50, 50), (50, 60)])).tolist()
    [[3], [0]]
    """
    output, true = _check_objects(predicted, "predicted"), _check_objects(ground_truth, "true")
    overlapping = _inclusive_iou(output[0], true[0]) > MIN_IOU
    with np.errstate(invalid="ignore"):  # infinity less infinity: compares as False below
        near = np.abs(output[0][:, None] - true[0][None]).mean(axis=2) < MAX_BOX_DISTANCE
        close = point_distances(output[1], true[1]) < MAX_POINT_DISTANCE
    own = points_in_boxes(output[1], output[0])
    return np.asarray(overlapping.astype(np.int64) + near + (close & own[:, None]))


def match(bits: NDArray[np.int64]) -> Matching:
    """The assignment with most bits: cost 3 - bits, min(predicted, true) pairs.

    >>> match(np.array([[3, 2], [3, 0]])).bits.tolist()
    [2, 3]
    """
    predicted, ground_truth = linear_sum_assignment(BITS - bits)
    return Matching(predicted, ground_truth, bits[predicted, ground_truth])


def matching_score(ground_truth: Objects, predicted: Objects) -> float:
    """Bits of the best assignment over the larger number of objects, from 0 to 3.

    0 where either list is empty: the official code fails then and keeps its zero, also for nothing
    predicted where nothing is. Equal bit for bit to `vision_reasoner_accuracy_reward` in
    `verl/utils/reward_score/vision_reasoner.py` (Seg-Zero, commit 42a3345) for responses that can
    be read as rows of numbers; what cannot be read scores 0 there.

    Raises:
        DataError: rows of the wrong length, or not one point a box.

    >>> one = Objects([(0, 0, 99, 99)], [(50, 50)])
    >>> two = Objects([(0, 0, 99, 99)] * 2, [(50, 50)] * 2)
    >>> matching_score(one, one), matching_score(one, two), matching_score(one, Objects([], []))
    (3.0, 1.5, 0.0)
    """
    bits = pair_bits(ground_truth, predicted)
    if bits.size == 0:
        return 0.0
    return float(match(bits).bits.sum() / max(bits.shape))


def _check_objects(objects: Objects, what: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    boxes = rows_of(objects.boxes, 4, f"{what} boxes")[:MAX_OBJECTS]
    points = rows_of(objects.points, 2, f"{what} points")[:MAX_OBJECTS]
    if len(boxes) != len(points):
        raise DataError(
            f"{what} objects", expected=f"{len(boxes)} points, one a box", found=str(len(points))
        )
    return boxes, points


def _inclusive_iou(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inclusive IoU of every pair; 0 where a side is not finite."""
    fine = np.isfinite(first).all(axis=1, keepdims=True)
    good = np.isfinite(second).all(axis=1, keepdims=True)
    ious = box_iou_inclusive(np.where(fine, first, 0), np.where(good, second, 0))
    return ious * (fine & good.T)
