"""V-STaR: scores of the questions "what", "when" and "where" of a sample, and averages over them.

Each sample is asked in two chains, what → when → where (metrics ending in "1") and what → where →
when ("2"). `scores` returns the statistics of a sample for `METRICS`. Source: `eval.py` of
V-STaR-Bench/V-STaR (commit 1894682).
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.metrics.averages import Numbers, mean_in_order
from harness.metrics.boxes import box_iou
from harness.scores import Mean, Metric
from harness.types import Box, Interval

MIN_RATING, MIN_TEMPORAL, MIN_SPATIAL = 2, 0.3, 0.1
"""Least rating of "what", temporal IoU of "when" and mean spatial IoU of "where" that are right."""
MAX_FLOAT = 1e300
TEMPORAL_THRESHOLDS = (0.3, 0.5, 0.7)
SPATIAL_THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
BELOW_ONE = 1 - 2**-53
"""The largest number below 1, to which fractions are clamped before a logarithm is taken."""

_UNSIGNED = re.compile(r"\b\d+(?:\.\d+)?\b")  # 3.2


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _is_finite(value: float) -> bool:
    return abs(value) < MAX_FLOAT  # math.isfinite raises for an int beyond the range of floats


def interval_in(response: str) -> Interval | None:
    """Return the interval in a response with exactly two numbers (signs are ignored), or None.

    Equal to `extract_timestamps` in `inference_demo.py` (same commit).

    >>> interval_in("From 3.2 to 7 seconds."), interval_in("At 3, 4 and 5")
    (Interval(start=3.2, end=7.0), None)
    """
    numbers = _UNSIGNED.findall(response)
    return Interval(float(numbers[0]), float(numbers[1])) if len(numbers) == 2 else None


def read_rating(judgement: str) -> int | None:
    r"""Parse a judge's rating as a whole number; None for -1 and for anything else.

    None counts as 0, and 2 or more is right. Ratings above 3 count as they are. Equal to the
    `int(response)` of `qwen2_5_evaluation` in `eval.py` of V-STaR (commit 1894682).

    >>> read_rating(" 3\n"), read_rating("3."), read_rating("Rating: 2")
    (3, None, None)
    """
    try:
        rating = int(judgement)
    except ValueError:
        return None
    return None if rating == -1 else rating


def frame_ious(
    ground_truth: Sequence[tuple[object, Box]],
    predicted: Mapping[str, object],
    *,
    times: Literal["text", "number"] = "text",
) -> NDArray[np.float64]:
    """Return the exclusive IoU of each annotated frame; float64 of shape (frames,).

    The official scorer looks up a frame's time *as text*: a box at "3.0" is not found for time 3.
    Of several boxes the best counts; a value that is not a box scores 0. The IoUs equal those that
    `calculate_spatial_metrics` averages, bit for bit.

    Args:
        ground_truth: A time and a box for each annotated frame.
        predicted: A box [left, top, right, bottom], or several, by the text of its time.
        times: "text" as the scorer does, "number" for `vstar/strict`.

    Raises:
        DataError: a true box is not finite.

    >>> ground_truth = [(3, Box(0, 0, 4, 4)), (4, Box(0, 0, 4, 4)), (5, Box(0, 0, 4, 4))]
    >>> said = {"3": [0, 0, 4, 2], "4.0": [0, 0, 4, 4], "5": [[0, 0, 1, 1], [0, 0, 4, 3]]}
    >>> frame_ious(ground_truth, said).tolist()
    [0.5, 0.0, 0.75]
    >>> frame_ious(ground_truth, said, times="number").tolist()
    [0.5, 1.0, 0.75]
    """
    key = str if times == "text" else _number
    boxes_by_time = {key(time): boxes for time, boxes in predicted.items()}
    ious = [_best_iou(box, boxes_by_time.get(key(time))) for time, box in ground_truth]
    return np.array(ious, dtype=np.float64)


def _number(time: Any) -> object:
    """Return a time as a number; a text that is not one, unchanged."""
    try:
        return float(time)
    except ValueError:
        return time


def _best_iou(ground_truth: Box, predicted: object) -> float:
    """Return the largest IoU with a box, or with one of a list of boxes; 0 for anything else."""
    if not isinstance(predicted, (list, tuple)) or not predicted:
        return 0.0
    if len(predicted) == 4 and _is_number(predicted[0]):
        predicted = [predicted]
    boxes = [box for box in predicted if isinstance(box, (list, tuple)) and len(box) == 4]
    if not all(_is_number(side) for box in boxes for side in box):
        return 0.0
    finite = [box for box in boxes if all(map(_is_finite, box))]
    return float(box_iou([ground_truth], finite).max()) if finite else 0.0


def arithmetic_mean(what: Numbers, when: Numbers, where: Numbers) -> Numbers:
    """Return AM of a chain: the mean of accuracy, m_tIoU and m_vIoU, as fractions.

    >>> round(arithmetic_mean(0.6078, 0.1667, 0.0647), 4)
    0.2797
    """
    return mean_in_order(what, when, where)


def logarithmic_geometric_mean(what: Numbers, when: Numbers, where: Numbers) -> Numbers:
    """Return LGM of a chain: `-(ln(1 - what) + ln(1 - when) + ln(1 - where)) / 3`.

    The official code fails for a fraction of 1; here it is clamped to the largest number below 1,
    which changes no smaller fraction: a perfect chain has 36.7.

    >>> logarithmic_geometric_mean(0.6078, 0.1667, 0.0647)
    0.3950776227851663
    >>> logarithmic_geometric_mean(1.0, 1.0, 1.0)
    36.7368005696771
    """
    mean: Numbers = -(_log_of_rest(what) + _log_of_rest(when) + _log_of_rest(where)) / 3
    return mean


def _log_of_rest(fraction: object) -> Any:
    """Return `ln(1 - fraction)` by the C library; the last bit of numpy's own may differ."""
    rest = 1 - np.minimum(np.asarray(fraction, dtype=np.float64), BELOW_ONE)
    logs = [math.log(value) for value in rest.ravel()]
    return np.reshape(logs, rest.shape) if rest.ndim else logs[0]


def scores(
    rating: int | None, temporal: Sequence[float], spatial: Sequence[NDArray[np.float64]]
) -> dict[str, Mean]:
    """Return the statistics of one sample, for `METRICS`.

    Args:
        rating: The judge's rating of "what"; None where it gave none.
        temporal: Temporal IoU in chain 1 and chain 2.
        spatial: IoU of each annotated frame in chain 1 and chain 2; without a frame the score is 0.

    Raises:
        DataError: not two chains.
    """
    if len(temporal) != 2 or len(spatial) != 2:
        raise DataError("chains", expected="two", found=f"{len(temporal)} and {len(spatial)}")
    right = rating is not None and rating >= MIN_RATING
    statistics: dict[str, float] = {"Acc": right, "rating": rating or 0}
    for chain, when, ious in zip("12", temporal, spatial, strict=True):
        where = float(np.mean(ious)) if len(ious) else 0.0
        statistics[f"m_tIoU{chain}"], statistics[f"m_vIoU{chain}"] = when, where
        for threshold in TEMPORAL_THRESHOLDS:
            statistics[f"R1@{threshold}_{chain}"] = when >= threshold
        for threshold in SPATIAL_THRESHOLDS:
            hits = np.count_nonzero(ious >= threshold)
            statistics[f"AP@{threshold}_{chain}"] = hits / len(ious) if len(ious) else 0.0
        timed, placed = when >= MIN_TEMPORAL, where >= MIN_SPATIAL
        statistics[f"what&when{chain}"] = right and timed
        statistics[f"what&where{chain}"] = right and placed
        statistics[f"when&where{chain}"] = timed and placed
        statistics[f"what&when&where{chain}"] = right and timed and placed
    return {name: Mean(float(value)) for name, value in statistics.items()}


def unanswered_scores() -> dict[str, Mean]:
    """Return the statistics of a sample without an answer to "what", as officially counted.

    The official code counts it as wrong in `Acc` and in the joint scores, and leaves it out of the
    others. `vstar/strict` counts it in all, by `scores(None, (0, 0), (…))`.
    """
    return {name: Mean(0.0) for name in _NAMES if name == "Acc" or "&" in name}


_NAMES = tuple(scores(None, (0.0, 0.0), (np.zeros(0), np.zeros(0))))
METRICS = (
    *(Metric(name) for name in _NAMES),
    *(
        Metric(
            f"{name}{chain}", inputs=("Acc", f"m_tIoU{chain}", f"m_vIoU{chain}"), derived=function
        )
        for name, function in (("AM", arithmetic_mean), ("LGM", logarithmic_geometric_mean))
        for chain in "12"
    ),
    *(
        Metric(f"m{name}", inputs=(f"{name}1", f"{name}2"), derived=mean_in_order)
        for name in ("AM", "LGM")
    ),
)
"""`Acc`, the chains' scores, their averages AM and LGM, and mAM and mLGM over the chains."""
