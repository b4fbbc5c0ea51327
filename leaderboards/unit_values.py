"""Compute a metric on each unit alone, from the scores of a run's units.

Boards, `harness diff` and sites use it to find the samples in which runs differ.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence

from harness.scores import Corpus, Metric, UnitScore, quotient


def unit_value(metrics: Sequence[Metric], unit: UnitScore) -> float | None:
    """Return the last metric's value on one unit; None if the unit does not count.

    Metrics that it is derived from come before it. A metric of the whole corpus has no unit value.
    """
    numbers: dict[str, float] = {}
    for metric in metrics:
        statistic = unit.scores.get(metric.name)
        if metric.derived is not None:
            value = metric.of_parts([numbers.get(name) for name in metric.inputs])
            if value is not None:
                numbers[metric.name] = value
        elif statistic is not None and not isinstance(statistic, Corpus):
            numerator, denominator = quotient(statistic)
            if denominator:
                numbers[metric.name] = numerator / (denominator + metric.epsilon)
    return numbers.get(metrics[-1].name)


def unit_values(
    metrics: Sequence[Metric], units: Iterable[UnitScore]
) -> Mapping[str, float | None]:
    """Return the last metric's value on each unit, by the unit's name; empty without metrics.

    Names are interned, because all runs of a table have the same units.
    """
    if not metrics:
        return {}
    return {sys.intern(unit.unit): unit_value(metrics, unit) for unit in units}


def unit_failures(units: Iterable[UnitScore]) -> Mapping[str, int]:
    """Return the number of samples without an answer of each unit, by the unit's name."""
    return {sys.intern(unit.unit): unit.failed for unit in units}
