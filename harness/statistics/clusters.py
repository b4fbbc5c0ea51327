"""Sums of merged statistics a group, and the metrics' numbers under any weighting of the groups.

Samples of one image or video are not independent, so groups, not samples, are what resampling
weighs. Sums a group are all it needs: a quotient's numerator and denominator are linear in the
weights, which makes thousands of resamples one matrix product.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.scores import Corpus, Metric, UnitScore, quotient

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Numerators and denominators of the quotient metrics, one row a group."""

    groups: tuple[str, ...]
    """Names of the rows, sorted."""
    columns: tuple[str, ...]
    """Names of the quotient metrics."""
    above: FloatArray
    """Numerators, groups × metrics."""
    below: FloatArray
    """Denominators, groups × metrics; 0 where a metric does not count in a group."""

    @property
    def table(self) -> FloatArray:
        """Numerators and then denominators, groups × (2 × metrics)."""
        return np.concatenate([self.above, self.below], axis=1)


def in_order(units: Iterable[UnitScore]) -> list[UnitScore]:
    """Units sorted by group and name, so that their order cannot change the last bit of a sum."""
    return sorted(units, key=lambda unit: (unit.group, unit.unit))


def group_sums(metrics: Sequence[Metric], units: Sequence[UnitScore]) -> GroupSums:
    """Add up every quotient metric's statistics within each group."""
    columns = tuple(m.name for m in metrics if m.derived is None and m.corpus is None)
    place = {name: index for index, name in enumerate(columns)}
    ordered = in_order(units)
    groups = tuple(dict.fromkeys(unit.group for unit in ordered))
    row = {group: index for index, group in enumerate(groups)}
    above, below = np.zeros((2, len(groups), len(columns)))
    for unit in ordered:
        for name, statistic in unit.scores.items():
            if name in place and not isinstance(statistic, Corpus):
                numerator, denominator = quotient(statistic)
                above[row[unit.group], place[name]] += numerator
                below[row[unit.group], place[name]] += denominator
    return GroupSums(groups, columns, above, below)


def numbers(
    metrics: Sequence[Metric],
    columns: Sequence[str],
    *,
    above: FloatArray,
    below: FloatArray,
    corpora: Mapping[str, FloatArray] | None = None,
) -> dict[str, FloatArray]:
    """Turn sums into every quotient and derived metric's values, one a row.

    Args:
        metrics: All metrics of the protocol, each after those that it is derived from.
        columns: Which quotient metric each column is.
        above, below: Numerators and denominators, rows × columns.
        corpora: Corpus metrics' values, one a row, where they were computed.

    Returns:
        Values by metric, NaN in rows where nothing counts. Corpus metrics that were not given,
        and what is derived from them, are left out.
    """
    found: dict[str, FloatArray] = dict(corpora or {})
    place = {name: index for index, name in enumerate(columns)}
    with np.errstate(all="ignore"):
        for metric in metrics:
            if metric.derived is not None:
                if all(name in found for name in metric.inputs):
                    value: object = metric.derived(*(found[name] for name in metric.inputs))
                    found[metric.name] = np.broadcast_to(
                        np.asarray(value, dtype=np.float64), (len(above),)
                    )
            elif metric.name in place:
                column = place[metric.name]
                divisor = np.where(below[:, column] == 0, np.nan, below[:, column])
                found[metric.name] = above[:, column] / (divisor + metric.epsilon)
    return found


def counted_groups(
    metrics: Sequence[Metric], sums: GroupSums, *, corpora: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the number of groups in which each metric counts; of a derived one, its rarest part.

    `corpora` gives the same of corpus metrics; those that it lacks are left out.
    """
    found = dict(corpora or {})
    for column, name in enumerate(sums.columns):
        found[name] = int(np.count_nonzero(sums.below[:, column]))
    for metric in metrics:
        if metric.derived is not None and all(name in found for name in metric.inputs):
            found[metric.name] = min(found[name] for name in metric.inputs)
    return found


def dependencies_of(metrics: Sequence[Metric], name: str) -> tuple[Metric, ...]:
    """Return metric `name` after the metrics that it is derived from, in an order of computation.

    Raises:
        UsageError: there is no such metric.
    """
    known = {metric.name: metric for metric in metrics}
    if name not in known:
        raise UsageError(f"metric {name!r}", expected=" or ".join(known), found="another name")
    parts = (part for above in known[name].inputs for part in dependencies_of(metrics, above))
    return (*dict.fromkeys(parts), known[name])


def of_corpora(metrics: Sequence[Metric]) -> tuple[str, ...]:
    """List the corpus metrics and the metrics derived from them, by name."""
    found: list[str] = []
    for metric in metrics:
        if metric.corpus is not None or any(name in found for name in metric.inputs):
            found.append(metric.name)
    return tuple(found)
