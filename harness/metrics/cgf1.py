"""Parts of SA-Co's cgF1: F1 of the instances of phrases, and correlation of their presence.

cgF1 is the product of `positive_f1` and `image_mcc`. A question is an image and a phrase; its
`PhraseCounts` are the matched instances at ten thresholds of IoU, and a cell of the contingency
table of whether an instance is true and whether one is predicted. Equal to `CGF1Evaluator` in
`sam3/eval/cgf1_eval.py` (facebookresearch/sam3, commit 99d02f2); predictions are those whose score
reaches its threshold.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from harness.masks import Rle

THRESHOLDS = np.linspace(0.5, 0.95, 10)
EPSILON, CELL_EPSILON = 1e-4, 1e-6  # added to denominators, as the official code does
Cell = Literal["TP", "TN", "FP", "FN"]


class PhraseCounts(TypedDict):
    """Counts of one question."""

    cell: Cell
    hits: list[int]
    """Matched instances at each of `THRESHOLDS`."""
    predicted: int
    """Number of predicted instances."""
    true: int
    """Number of true instances."""


def track_ious(
    predicted: Sequence[Sequence[Rle]], true: Sequence[Sequence[Rle]]
) -> NDArray[np.float64]:
    """Return the IoU over all frames of each pair of objects, predicted × true.

    The IoU of two objects without a pixel is 1.

    Args:
        predicted: Objects, each with one mask a frame; an image is one frame.
        true: True objects, with as many frames of the same size.
    """
    ious = np.zeros((len(predicted), len(true)))
    for row, column in np.ndindex(ious.shape):
        frames = list(zip(predicted[row], true[column], strict=True))
        common = sum(first.intersection(second).area for first, second in frames)
        union = sum(first.area + second.area for first, second in frames) - common
        ious[row, column] = common / union if union else 1.0
    return ious


def found_instances(ious: NDArray[np.float64]) -> PhraseCounts:
    """Count the hits of one question after matching predictions to true instances one to one.

    The matching has the largest sum of IoUs; a hit is a pair whose IoU reaches the threshold.

    Args:
        ious: IoU of every pair, predicted × true; either number may be 0.

    >>> found_instances(np.array([[0.8, 0.1], [0.2, 0.55]]))["hits"]
    [2, 2, 1, 1, 1, 1, 1, 0, 0, 0]
    """
    predicted, true = ious.shape
    rows, columns = linear_sum_assignment(-ious)
    reached = ious[rows, columns]
    hits = [int((reached >= threshold).sum()) for threshold in THRESHOLDS]
    cell: Cell = ("TP" if predicted else "FN") if true else ("FP" if predicted else "TN")
    return PhraseCounts(cell=cell, hits=hits, predicted=predicted, true=true)


def best_annotator(annotators: Sequence[PhraseCounts]) -> PhraseCounts:
    """Return the counts against the annotator whom the prediction fits best.

    If nothing is predicted and some annotators marked nothing, it is the last of these; else the
    first with the highest mean F1.
    """
    best = annotators[0]
    for annotator in annotators[1:]:
        if annotator["cell"] == "TN" or (
            best["cell"] != "TN" and _mean_f1(annotator) > _mean_f1(best)
        ):
            best = annotator
    return best


def _mean_f1(phrase: PhraseCounts) -> float:
    hits = np.asarray(phrase["hits"])
    return float(
        _f1(hits / (phrase["predicted"] + EPSILON), hits / (phrase["true"] + EPSILON)).mean()
    )


def _f1(precision: NDArray[np.float64], recall: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(2 * precision * recall / (precision + recall + EPSILON))


def positive_f1(phrases: Sequence[Any]) -> float:
    """Return the F1 of all instances, mean over the thresholds: the official `positive_micro_F1`.

    Predictions for phrases without a true instance do not count.
    """
    hits = np.sum([phrase["hits"] for phrase in phrases], axis=0)
    predicted = sum(phrase["predicted"] for phrase in phrases if phrase["true"])
    true = sum(phrase["true"] for phrase in phrases)
    return float(_f1(hits / (predicted + EPSILON), hits / (true + EPSILON)).mean())


def image_mcc(phrases: Sequence[Any]) -> float:
    """Return the Matthews correlation of true and predicted presence (`IL_MCC`); from -1 to 1."""
    tp, tn, fp, fn = (
        sum(phrase["cell"] == cell for phrase in phrases) for cell in ("TP", "TN", "FP", "FN")
    )
    product = float(tp + fp) * float(tp + fn) * float(tn + fp) * float(tn + fn)
    return float(tp * tn - fp * fn) / (math.sqrt(product) + CELL_EPSILON)
