"""Losses, of score and of answers, that fail a gate, and its rate of false alarms."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from harness.scores import Metric, Ratio, UnitScore
from harness.statistics.paired import Comparison, compare
from harness.statistics.power import minimum_detectable
from harness.statistics.quantiles import two_sided_p

SLACK = 1e-9  # a loss of exactly the limit passes, whatever rounding does

ANSWERED = Metric("answered", about="share of samples that have an answer")


def compare_answers(
    a: Sequence[UnitScore], b: Sequence[UnitScore], *, resamples: int, level: float, seed: int
) -> Comparison | None:
    """Compare the shares of samples that two runs answered; None where no unit's differs."""
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
    """Return True if a comparison shows a loss, with a p value that is corrected for all tasks."""
    loss = comparison.loss
    if loss is None or loss <= 0:
        return False
    if adjusted_p is None:  # a loss that is the same whatever is left out
        return comparison.is_worse
    return adjusted_p <= 1 - comparison.level + SLACK


def limit(comparison: Comparison | None, max_drop: float, *, tasks: int = 1) -> float:
    """Return the largest loss that passes without significance.

    That is `max_drop`, or the detectable loss by the formula where that is larger; without an
    interval it is not known, and `max_drop` holds.

    Args:
        comparison: Of one task.
        max_drop: The gate's limit.
        tasks: Number of comparisons of this kind that the gate makes. The detectable loss is at `1
            - level` divided by it, so that more tasks do not make more false alarms.
    """
    if comparison is None or comparison.interval is None:
        return max_drop
    return max(max_drop, _error(comparison) * _sizes(comparison, tasks))


def false_alarms(limited: Sequence[tuple[Comparison, float]]) -> float:
    """Return the probability that a gate fails on losses of one kind if no model changed; 0 to 1.

    Every swap of the two runs' results is a gate on models that are equally good. The share of
    swaps with a loss that fails is counted for each task, a comparison with its `max_drop`; the
    tasks are taken for independent.
    """
    return 1 - prod(1 - _share(*pair, tasks=len(limited)) for pair in limited)


def _share(comparison: Comparison, max_drop: float, *, tasks: int) -> float:
    # Holm's correction finds some loss significant exactly where the smallest p times the number
    # of tasks is at most 1 - level.
    level = _each_level(comparison, tasks)
    sizes = _sizes(comparison, tasks)
    if comparison.swaps is None:
        return max((1 - level) / 2, two_sided_p(sizes, degrees=comparison.n_groups - 1) / 2)
    drawn = comparison.swaps.differences
    losses = -drawn if comparison.better == "higher" else drawn
    error = _error(comparison)
    # The sum of squares of the groups' differences is the same after every swap.
    squares = error**2 + (comparison.swaps.seen**2 - drawn**2) / comparison.n_groups
    detectable = sizes * np.sqrt(np.maximum(squares, 0.0))
    large = losses > np.maximum(max_drop, detectable) + SLACK
    shown = losses > comparison.swaps.critical(level) + SLACK
    return int(np.count_nonzero(large | shown)) / len(drawn)


def _each_level(comparison: Comparison, tasks: int) -> float:
    """The level of each of so many tests that together keep the comparison's level."""
    return 1 - (1 - comparison.level) / tasks


def _sizes(comparison: Comparison, tasks: int) -> float:
    """The detectable loss at the level of each of so many tests, in standard errors."""
    level, degrees = _each_level(comparison, tasks), comparison.n_groups - 1
    return minimum_detectable(1.0, level=level, degrees=degrees)


def _error(comparison: Comparison) -> float:
    """Return the standard error behind `by_formula`; 0 where the difference does not vary."""
    return (comparison.by_formula or 0.0) / _sizes(comparison, 1)
