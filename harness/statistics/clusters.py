"""Sums of merged statistics a group, and the metrics' numbers under any weighting of the groups.

Samples of one image or video are not independent, so groups, not samples, are what resampling
weighs. Sums a group are all it needs: a quotient's numerator and denominator are linear in the
weights, which makes thousands of resamples one matrix product.

That product adds in an order of its own choice, which differs between libraries, machines and
shapes, and with it the last bits; a results file must not. So each number is split into a high
and a low part, both multiples of a power of two that is so coarse that every sum of them is a
whole multiple below 2^53 and therefore exact. This is the idea of the error-free vector
transformation of Rump, Ogita and Oishi (2008), "Accurate floating-point summation", with one
power of two for a whole column.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.scores import Corpus, Metric, UnitScore, quotient

FloatArray: TypeAlias = NDArray[np.float64]

DIGITS = 52  # one less than a float64 holds, so that a difference of two sums is exact as well


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


@dataclass(frozen=True, slots=True)
class Summands:
    """A table whose columns are summed under many weightings of its rows.

    >>> table = np.array([[0.1], [0.2], [0.3]])
    >>> weights = np.array([[1.0, 1, 1], [0, 0, 3]])
    >>> Summands.of_table(table, limit=3).weighted_sums(weights).ravel().tolist()
    [0.6, 0.8999999999999999]
    """

    parts: FloatArray
    """Rows × (columns + those columns that have a low part)."""
    rough: NDArray[np.bool_]
    """Mask of the columns that have a low part."""

    @classmethod
    def of_table(cls, table: FloatArray, *, limit: int) -> "Summands":
        """Split a table.

        Args:
            table: Rows × columns, finite.
            limit: The largest sum of the sizes of one weighting's weights.
        """
        high = coarse(table, limit=limit)
        low = coarse(table - high, limit=limit)
        rough = np.asarray(low.any(axis=0))
        return cls(np.concatenate([high, low[:, rough]], axis=1), rough)

    def weighted_sums(self, weights: FloatArray) -> FloatArray:
        """The columns' sums under each row of whole-numbered weights.

        Args:
            weights: Weightings × rows of the table; whole numbers.

        Returns:
            Weightings × columns: the exact sums of the two parts, added with one rounding. What
            the parts leave out of a number is below `4 * limit**2 / 2**104` of its column's
            largest.
        """
        return self.add_low_parts(weights @ self.parts)

    def add_low_parts(self, sums: FloatArray) -> FloatArray:
        """Add the low parts' sums to those of the high parts; changes `sums`."""
        columns = len(self.rough)
        sums[:, :columns][:, self.rough] += sums[:, columns:]
        return sums[:, :columns]


def coarse(table: FloatArray, *, limit: int) -> FloatArray:
    """Round each column to a power of two at which sums of `limit` of its numbers are exact."""
    largest = np.abs(table).max(axis=0, initial=0.0)
    exponent = np.frexp(largest)[1] + int(limit).bit_length() - DIGITS
    unit = np.ldexp(1.0, np.maximum(exponent, -1074))  # no number is finer than 2^-1074
    rounded: FloatArray = np.rint(table / unit) * unit
    return rounded


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
    values: dict[str, FloatArray] = dict(corpora or {})
    place = {name: index for index, name in enumerate(columns)}
    with np.errstate(all="ignore"):
        for metric in metrics:
            if metric.derived is not None:
                if all(name in values for name in metric.inputs):
                    value: object = metric.derived(*(values[name] for name in metric.inputs))
                    values[metric.name] = np.broadcast_to(
                        np.asarray(value, dtype=np.float64), (len(above),)
                    )
            elif metric.name in place:
                column = place[metric.name]
                divisor = np.where(below[:, column] == 0, np.nan, below[:, column])
                values[metric.name] = above[:, column] / (divisor + metric.epsilon)
    return values


def counted_groups(
    metrics: Sequence[Metric], sums: GroupSums, *, corpora: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the number of groups in which each metric counts; of a derived one, its rarest part
    (of those that count at all, where it can do without the others).

    `corpora` gives the same of corpus metrics; those that it lacks are left out.
    """
    counted = dict(corpora or {})
    for column, name in enumerate(sums.columns):
        counted[name] = int(np.count_nonzero(sums.below[:, column]))
    for metric in metrics:
        if metric.derived is not None and all(name in counted for name in metric.inputs):
            counts = [counted[name] for name in metric.inputs]
            if metric.is_partial:
                counts = [count for count in counts if count] or [0]
            counted[metric.name] = min(counts)
    return counted


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
    names: list[str] = []
    for metric in metrics:
        if metric.corpus is not None or any(name in names for name in metric.inputs):
            names.append(metric.name)
    return tuple(names)
