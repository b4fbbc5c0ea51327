"""The headline metric on one unit alone."""

import sys
from collections.abc import Iterable, Mapping, Sequence

from harness.scores import Corpus, Metric, UnitScore, quotient


def unit_value(metrics: Sequence[Metric], unit: UnitScore) -> float | None:
    """Return the last metric's number over one unit; None if it does not count, or is a corpus.

    It is the last of `metrics`, after those that it is derived from.
    """
    numbers: dict[str, float] = {}
    for metric in metrics:
        statistic = unit.scores.get(metric.name)
        if metric.derived is not None:
            value = metric.of_parts([numbers.get(name) for name in metric.inputs])
            if value is not None:
                numbers[metric.name] = value
        elif statistic is not None and not isinstance(statistic, Corpus):
            above, below = quotient(statistic)
            if below:
                numbers[metric.name] = above / (below + metric.epsilon)
    return numbers.get(metrics[-1].name)


def unit_values(
    metrics: Sequence[Metric], units: Iterable[UnitScore]
) -> Mapping[str, float | None]:
    """Return the last metric's number over each unit, by the unit's name; empty without metrics.

    Runs of one table have the same units, so that their names are kept once.
    """
    if not metrics:
        return {}
    return {sys.intern(unit.unit): unit_value(metrics, unit) for unit in units}


def unit_failures(units: Iterable[UnitScore]) -> Mapping[str, int]:
    """Return the number of samples without an answer of each unit, by the unit's name."""
    return {sys.intern(unit.unit): unit.failed for unit in units}
