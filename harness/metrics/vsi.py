"""VSI-Bench: scores of a response by its question's type, and averages over the types.

Protocols: `vsi/official` (the paper's code), `vsi/lmms2026` (lmms-eval since 2026, which finds a
number anywhere in the response), `vsi/strict` (`strict_choice` and `only_number`).
"""

from harness.metrics.averages import mean_in_order
from harness.metrics.numeric import mean_relative_accuracy
from harness.scores import Metric

DIRECTIONS = (
    "object_rel_direction_easy",
    "object_rel_direction_medium",
    "object_rel_direction_hard",
)
CHOICE_TYPES = (*DIRECTIONS, "object_rel_distance", "route_planning", "obj_appearance_order")
NUMBER_TYPES = (
    "object_counting",
    "object_abs_distance",
    "object_size_estimation",
    "room_size_estimation",
)
# Sorted, with direction last: the order in which the official code adds.
AVERAGED = (*sorted({*CHOICE_TYPES, *NUMBER_TYPES} - {*DIRECTIONS}), "object_rel_direction")

METRICS = (
    *(Metric(question_type, about="accuracy") for question_type in CHOICE_TYPES),
    *(Metric(question_type, about="mean relative accuracy") for question_type in NUMBER_TYPES),
    Metric(
        "object_rel_direction", inputs=DIRECTIONS, derived=mean_in_order, about="mean of its three"
    ),
    Metric("overall", inputs=AVERAGED, derived=mean_in_order, about="mean of the eight types"),
)
"""Each sample has a `Mean` under the name of its question type; the averages are derived.

Equal to `vsibench_aggregate_results` (thinking-in-space, commit 51e089c) if every type has a
sample. The official code averages over the types that are present; here `overall` has no value
unless all are.
"""


def first_word(response: str) -> str:
    r"""Return the response up to its first space, without full stops and blanks at its end.

    Equal to `fuzzy_matching` (see `choice_score`). Only a space ends the word, not a line feed.

    >>> [first_word(response) for response in ("B. a chair", "3 chairs", "(A)", "C\n", " A")]
    ['B', '3', '(A)', 'C', '']
    """
    return response.split(" ")[0].rstrip(".").strip()


def choice_score(response: str, ground_truth: str) -> float:
    """Return 1 if the first word is the true letter, of either case, otherwise 0.

    "(A)" and "A," are wrong. Equal to `exact_match` after `fuzzy_matching` in
    `lmms_eval/tasks/vsibench/utils.py` (thinking-in-space, commit 51e089c).

    >>> [choice_score(response, "A") for response in ("a. chair", "A", "(A)", "A,", "")]
    [1.0, 1.0, 0.0, 0.0, 0.0]
    """
    return float(first_word(response).lower() == ground_truth.lower())


def leading_number(response: str) -> float | None:
    """Return the first word as a number, or None; "inf" and "1e3" are numbers, as in Python.

    >>> [leading_number(response) for response in ("3 chairs", "There are 3", "3m", "4.50.")]
    [3.0, None, None, 4.5]
    """
    try:
        return float(first_word(response))
    except ValueError:
        return None


def number_score(response: str, ground_truth: float) -> float:
    """Return the MRA of the first word; 0 where it is not a number.

    Equal to `vsibench_process_results` for numeric questions in
    `lmms_eval/tasks/vsibench/utils.py` (thinking-in-space, commit 51e089c). The protocol
    `vsi/lmms2026` scores `mean_relative_accuracy(first_number(response), ground_truth)` instead.

    >>> [number_score(response, 3.0) for response in ("3 chairs", "2", "There are 3")]
    [1.0, 0.4, 0.0]
    """
    return mean_relative_accuracy(leading_number(response), ground_truth)
