"""Decide which losses of score or of answers fail a gate, and compute its rate of false alarms.

A loss is the baseline's number minus the candidate's, signed so that a positive loss is worse.
`gate` and `gate_report` call these functions with paired `Comparison`s.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from harness.scores import Metric, Ratio, UnitScore
from harness.statistics.paired import Comparison, compare
from harness.statistics.power import minimum_detectable
from harness.statistics.quantiles import two_sided_p

SLACK = 1e-9  # a loss of exactly the limit passes in spite of rounding errors

ANSWERED = Metric("answered", about="share of samples that have an answer")


def compare_answers(
    a: Sequence[UnitScore], b: Sequence[UnitScore], *, resamples: int, level: float, seed: int
) -> Comparison | None:
    """Compare the shares of samples that two runs answered; None if they are equal in all units."""
    if {unit.unit: unit.failed for unit in a} == {unit.unit: unit.failed for unit in b}:
        return None
    return compare(
        (ANSWERED,),
        _answers(a),
        _answers(b),
        name=ANSWERED.name,
        resamples=resamples,
        level=level,
        seed=seed,
    )


def _answers(units: Sequence[UnitScore]) -> list[UnitScore]:
    """Return the units, with the number of answered samples as their only score."""
    return [
        replace(
            unit,
            scores={ANSWERED.name: Ratio(len(unit.samples) - unit.failed, len(unit.samples))},
        )
        for unit in units
    ]


def is_significant(comparison: Comparison, adjusted_p: float | None) -> bool:
    """Return True if a loss is significant by its p value, corrected for all tasks."""
    loss = comparison.loss
    if loss is None or loss <= 0:
        return False
    if adjusted_p is None:  # the loss is equal in all groups, so that there is no test
        return comparison.is_worse
    return adjusted_p <= 1 - comparison.level + SLACK


def limit(comparison: Comparison | None, max_drop: float, *, tasks: int = 1) -> float:
    """Return the largest loss that passes if it is not significant.

    It is `max_drop` or, if that is larger, the detectable loss; without an interval, `max_drop`.

    Args:
        comparison: Comparison of one task.
        max_drop: The gate's limit.
        tasks: Number of comparisons of this kind that the gate makes. `1 - level` is divided by
            it, so that more tasks do not make more false alarms.
    """
    if comparison is None or comparison.interval is None:
        return max_drop
    return max(max_drop, _error(comparison) * _sizes(comparison, tasks))


def false_alarms(limited: Sequence[tuple[Comparison, float]]) -> float:
    """Return the probability that a gate fails on losses of one kind if no model changed.

    Swapping the two runs' results at random gives gates on equally good models. For each task
    (comparison, `max_drop`) the share of swaps that fail is counted; tasks are assumed independent.
    """
    return 1 - prod(1 - _failing_share(*pair, tasks=len(limited)) for pair in limited)


def _failing_share(comparison: Comparison, max_drop: float, *, tasks: int) -> float:
    """Return the share of a task's swaps whose loss fails; without swaps, by Student's t."""
    # By Holm's correction a loss is significant if the smallest p times the number of tasks is at
    # most 1 - level.
    level = _each_level(comparison, tasks)
    sizes = _sizes(comparison, tasks)
    if comparison.swaps is None:
        return max((1 - level) / 2, two_sided_p(sizes, degrees=comparison.n_groups - 1) / 2)
    differences = comparison.swaps.differences  # (swaps,)
    losses = -differences if comparison.better == "higher" else differences
    error = _error(comparison)
    # A swap changes signs, so that the sum of squares of the groups' differences stays the same.
    squared_errors = error**2 + (comparison.swaps.seen**2 - differences**2) / comparison.n_groups
    detectable = sizes * np.sqrt(np.maximum(squared_errors, 0.0))
    is_large = losses > np.maximum(max_drop, detectable) + SLACK
    is_significant = losses > comparison.swaps.critical(level) + SLACK
    return int(np.count_nonzero(is_large | is_significant)) / len(differences)


def _each_level(comparison: Comparison, tasks: int) -> float:
    """Return the level of each of `tasks` tests that together keep the comparison's level."""
    return 1 - (1 - comparison.level) / tasks


def _sizes(comparison: Comparison, tasks: int) -> float:
    """Return the detectable loss in standard errors, at the level of each of `tasks` tests."""
    level, degrees = _each_level(comparison, tasks), comparison.n_groups - 1
    return minimum_detectable(1.0, level=level, degrees=degrees)


def _error(comparison: Comparison) -> float:
    """Return the standard error of the difference; 0 if `by_formula` is None."""
    return (comparison.by_formula or 0.0) / _sizes(comparison, 1)
