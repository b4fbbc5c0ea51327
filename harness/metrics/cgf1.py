"""cgF1 of SA-Co: instances of a phrase that are found, times whether it was seen that it is there.

A question counts by its true and false positives at ten thresholds of IoU, and as one of four
cells: something is there or not, something is predicted or not. Equal to `CGF1Evaluator` in
`sam3/eval/cgf1_eval.py` (facebookresearch/sam3, commit 99d02f2), for predictions with a score that
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
EPSILON, CELL_EPSILON = 1e-4, 1e-6
Cell = Literal["TP", "TN", "FP", "FN"]


class PhraseCounts(TypedDict):
    """One question: its cell, true positives at each threshold, and numbers of instances."""

    cell: Cell
    hits: list[int]
    predicted: int
    true: int


def track_ious(
    predicted: Sequence[Sequence[Rle]], true: Sequence[Sequence[Rle]]
) -> NDArray[np.float64]:
    """IoU over all frames of every pair of objects, predicted × true; 1 of two without a pixel.

    Args:
        predicted: Objects, each with one mask a frame; an image is one frame.
        true: The same, of as many frames of the same size.
    """
    ious = np.zeros((len(predicted), len(true)))
    for place in np.ndindex(ious.shape):
        pair = list(zip(predicted[place[0]], true[place[1]], strict=True))
        common = sum(first.intersection(second).area for first, second in pair)
        union = sum(first.area + second.area for first, second in pair) - common
        ious[place] = common / union if union else 1.0
    return ious


def found_instances(ious: NDArray[np.float64]) -> PhraseCounts:
    """Match predictions to true instances one to one, so that the sum of their IoUs is largest.

    Args:
        ious: IoU of every pair, predicted × true; either may be 0.

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

    That is the highest mean F1, or an annotator and a prediction that are both empty. The first of
    equals; of several with nothing predicted and nothing true the last.
    """
    best = annotators[0]
    for counts in annotators[1:]:
        if counts["cell"] == "TN" or (best["cell"] != "TN" and _mean_f1(counts) > _mean_f1(best)):
            best = counts
    return best


def _mean_f1(counts: PhraseCounts) -> float:
    hits = np.asarray(counts["hits"])
    return float(
        _f1(hits / (counts["predicted"] + EPSILON), hits / (counts["true"] + EPSILON)).mean()
    )


def _f1(precision: NDArray[np.float64], recall: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(2 * precision * recall / (precision + recall + EPSILON))


def positive_f1(phrases: Sequence[Any]) -> float:
    """F1 of all instances of phrases that are there, mean over thresholds (`positive_micro_F1`)."""
    hits = np.sum([counts["hits"] for counts in phrases], axis=0)
    predicted = sum(counts["predicted"] for counts in phrases if counts["true"])
    true = sum(counts["true"] for counts in phrases)
    return float(_f1(hits / (predicted + EPSILON), hits / (true + EPSILON)).mean())


def image_mcc(phrases: Sequence[Any]) -> float:
    """Matthews correlation of seeing that something is there (`IL_MCC`); from -1 to 1."""
    tp, tn, fp, fn = (
        sum(counts["cell"] == cell for counts in phrases) for cell in ("TP", "TN", "FP", "FN")
    )
    both = float(tp + fp) * float(tp + fn) * float(tn + fp) * float(tn + fn)
    return float(tp * tn - fp * fn) / (math.sqrt(both) + CELL_EPSILON)
