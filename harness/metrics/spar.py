"""SPAR-Bench: metrics, and scores of a response by the official scorer's rules and by strict ones.

Functions for the protocol `spar/official` repeat the defects of the official scorer: they equal
`lmms_eval/tasks/sparbench/utils.py` (fudan-zvg/spar, commit 1679885) bit for bit. The `strict_…`
functions for `spar/strict` do not.
"""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.errors import DataError
from harness.metrics.averages import mean_in_order, pairwise_mean
from harness.metrics.choices import strict_choice
from harness.metrics.numeric import mean_relative_accuracy, only_number
from harness.scores import Metric

SINGLE_VIEW_NUMBERS = (
    "depth_prediction_oc",
    "depth_prediction_oo",
    "distance_prediction_oc",
    "distance_prediction_oo",
)
MULTI_VIEW_NUMBERS = tuple(f"{task}_mv" for task in SINGLE_VIEW_NUMBERS)
VIEW_CHANGE = "view_change_infer"
LEVELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Low": (*SINGLE_VIEW_NUMBERS, *MULTI_VIEW_NUMBERS),
        "Middle": (VIEW_CHANGE, "position_matching", "camera_motion_infer"),
        "High": (
            "obj_spatial_relation_oo",
            "obj_spatial_relation_oc_mv",
            "obj_spatial_relation_oo_mv",
            "spatial_imagination_oc",
            "spatial_imagination_oo",
            "spatial_imagination_oc_mv",
            "spatial_imagination_oo_mv",
            "distance_infer_center_oo",
            "distance_infer_center_oo_mv",
        ),
    }
)
TASKS = tuple(sorted(task for tasks in LEVELS.values() for task in tasks))
PRINTED_MIDDLE = tuple(sorted({*LEVELS["Middle"]} - {VIEW_CHANGE}))
"""Tasks of Middle as the official code prints it: without the view change."""
METRICS = (
    *(Metric(task) for task in TASKS),
    *(
        Metric(level, inputs=tuple(sorted(tasks)), derived=pairwise_mean, about="mean of its tasks")
        for level, tasks in LEVELS.items()
    ),
    Metric("Middle, as printed", inputs=PRINTED_MIDDLE, derived=pairwise_mean),
    Metric("overall", inputs=TASKS, derived=mean_in_order, about="mean of the twenty tasks"),
)
"""Each sample has a `Mean` under the name of its task; the metrics of levels are derived.

Middle has three tasks, as the averages in the published tables show. The Middle that the official
code *prints* lacks the view change, whose name it does not recognise.
"""

# Axes of a change of view, each with its opposite: a movement is the first minus the second.
VIEW_AXES = (
    ("move_right", "move_left"),
    ("move_up", "move_down"),
    ("move_forward", "move_backward"),
    ("rotate_right", "rotate_left"),
    ("rotate_up", "rotate_down"),
)
_NUMBER = re.compile(r"(?<!\^)\d+\.\d+|(?<!\^)\d+")  # 1.5 or 2, but not the 2 of m^2


def choice_score(response: str, ground_truth: str) -> float:
    """Return 1 if a response begins with the letter, or is empty; otherwise 0.

    A defect of the official scorer: it asks whether the response is a part of the answer, which the
    empty text always is. Blanks are not stripped, so that " A" is wrong. For `spar/official`.

    >>> [choice_score(response, "B") for response in ("b", "B. left", "", " B", "A")]
    [1.0, 1.0, 1.0, 0.0, 0.0]
    """
    predicted, true = response.lower(), ground_truth.lower()
    return float(predicted in true or predicted[0] == true)


def strict_choice_score(response: str, ground_truth: str) -> float:
    """Return 1 if the response states the true letter, otherwise 0. For `spar/strict`.

    >>> [strict_choice_score(response, "B") for response in ("b", "B. left", "", " B", "A")]
    [1.0, 1.0, 0.0, 1.0, 0.0]
    """
    return float(strict_choice(response) == ground_truth.upper())


def read_official(response: str, *, task: str) -> object:
    """Return what the official scorer reads in a response; None if it reads nothing.

    That is the number that `number_score` compares, as text; for a change of view the numbers by
    name; or a capital letter.

    >>> [read_official(response, task="depth_prediction_oc") for response in ("of 2 m", "two")]
    ['2', None]
    >>> read_official("of 2 it is 1.5", task="depth_prediction_oc_mv")
    '1.5'
    >>> [read_official(response, task="position_matching") for response in ("b) it", "", "none")]
    ['B', None, None]
    """
    if task in LEVELS["Low"]:
        numbers: list[str] = _NUMBER.findall(response)
        return numbers[-1 if task in MULTI_VIEW_NUMBERS else 0] if numbers else None
    if task == VIEW_CHANGE:
        return _pairs_or_none(response)
    return response[:1].upper() if response[:1].upper() in tuple("ABCD") else None


def read_strict(response: str, *, task: str, question: str = "") -> object:
    """Return the only number, the movements on `VIEW_AXES` or the letter of a response, or None."""
    if task in LEVELS["Low"]:
        return only_number(response, question)
    if task == VIEW_CHANGE:
        return _stripped_axes(response)
    return strict_choice(response)


def _pairs_or_none(response: str) -> dict[str, float] | None:
    try:
        return _pairs(response)
    except ValueError:
        return None


def number_score(response: str, ground_truth: float, *, task: str) -> float:
    """Return the MRA of the response's first number, or of its last in tasks of several views.

    Signs are ignored, and so are digits after "^". A response without a number scores 0 (in tasks
    of several views it is read as -1). For `spar/official`.

    Raises:
        DataError: the answers of the task are not numbers.

    >>> task = "depth_prediction_oc"
    >>> responses = "1.5 m", "-1.5", "of 2 it is 1.5", ""
    >>> [number_score(response, 1.5, task=task) for response in responses]
    [1.0, 1.0, 0.4, 0.0]
    >>> number_score("of 2 it is 1.5", 1.5, task="depth_prediction_oc_mv")
    1.0
    """
    if task not in LEVELS["Low"]:
        raise DataError("task of SPAR-Bench", expected="one with a number", found=repr(task))
    try:
        # The official code converts every number, and fails if one has thousands of digits.
        numbers = [float(n) if "." in n else int(n) for n in _NUMBER.findall(response)]
        if task in MULTI_VIEW_NUMBERS:
            return mean_relative_accuracy(float(numbers[-1]) if numbers else -1.0, ground_truth)
        return mean_relative_accuracy(float(numbers[0]) if numbers else None, ground_truth)
    except (ValueError, OverflowError):
        return 0.0


def strict_number_score(response: str, ground_truth: float, question: str = "") -> float:
    """Return the MRA of the only number that the response states, with its sign.

    The number is in the unit that the question asks for. For `spar/strict`.

    >>> [strict_number_score(response, 1.5) for response in ("1.5 m", "-1.5", "of 2 it is 1.5", "")]
    [1.0, 0.0, 0.0, 0.0]
    """
    return mean_relative_accuracy(only_number(response, question), ground_truth)


def view_change_score(response: str, ground_truth: str) -> float:
    """Return the mean over five axes of MRA *relative to the prediction*.

    The official code passes the arguments in the wrong order. Both texts are
    `move_right:0.5,rotate_left:30,…`; a name with blanks around it is ignored. A response in
    another form scores 0. For `spar/official`.

    >>> view_change_score("move_right:2", "move_right:3"), view_change_score("", "move_right:3")
    (0.82, 0.0)
    """
    try:
        predicted, true = _axes(_pairs(response)), _axes(_pairs(ground_truth))
    except ValueError:
        return 0.0
    return float(
        np.mean([_relative_to_predicted(*axis) for axis in zip(predicted, true, strict=True)])
    )


def strict_view_change_score(response: str, ground_truth: str) -> float:
    """Return the mean over five axes of MRA relative to the ground truth. For `spar/strict`.

    Blanks around names do not matter; numbers have to be finite.

    Raises:
        DataError: the ground truth is not of its form.

    >>> round(strict_view_change_score("move_right: 2", "move_right:3"), 12)
    0.88
    """
    true = _stripped_axes(ground_truth)
    if true is None:
        raise DataError(
            "true change of view", expected="name:number, …", found=repr(ground_truth)[:60]
        )
    predicted = _stripped_axes(response)
    if predicted is None:
        return 0.0
    scores = [mean_relative_accuracy(*axis) for axis in zip(predicted, true, strict=True)]
    return float(np.mean(scores))


def _relative_to_predicted(predicted: float, true: float) -> float:
    return mean_relative_accuracy(true, predicted) if math.isfinite(predicted) else 0.0


def _stripped_axes(text: str) -> list[float] | None:
    """Return the movement on each of `VIEW_AXES`, blanks ignored; None for another form of text."""
    try:
        pairs = {name.strip(): number for name, number in _pairs(text).items()}
    except ValueError:
        return None
    return _axes(pairs) if all(map(math.isfinite, pairs.values())) else None


def _pairs(text: str) -> dict[str, float]:
    """Return the numbers of `name:number,…` by name; ValueError for any other text."""
    pairs = (item.split(":") for item in text.split(","))
    return {name: float(number) for name, number in pairs}


def _axes(moves: Mapping[str, float]) -> list[float]:
    """Return the signed movement on each of `VIEW_AXES`; 0 without one."""
    return [moves.get(plus, 0.0) - moves.get(minus, 0.0) for plus, minus in VIEW_AXES]
