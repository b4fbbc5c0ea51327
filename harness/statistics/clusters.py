"""Sums of statistics by group, and metrics computed from them under any weights of the groups.

Samples of one image or video are not independent, so resampling weighs groups, not samples. It
needs only sums by group (`GroupSums`): a quotient's numerator and denominator are linear in the
weights, so that thousands of resamples are one matrix product (`Summands`).

A results file must be the same on all machines, but a matrix product adds in an order that differs
between libraries, machines and shapes, and so do the last bits of its result. So each number is
split into a high and a low part. Each part is a multiple of a power of two, so coarse that every
sum is a whole multiple below 2^53 and therefore exact in any order. This is the idea of the
error-free vector transformation of Rump, Ogita and Oishi (2008), "Accurate floating-point
summation", with one power of two for a whole column.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.scores import Corpus, Metric, UnitScore, quotient

FloatArray: TypeAlias = NDArray[np.float64]

MAX_BITS = 52  # one less than a float64 holds, so that a difference of two sums is exact as well


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Numerators and denominators of the quotient metrics, summed within each group."""

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
    """Sort units by group and name, so that their order cannot change the last bit of a sum."""
    return sorted(units, key=lambda unit: (unit.group, unit.unit))


def group_sums(metrics: Sequence[Metric], units: Sequence[UnitScore]) -> GroupSums:
    """Add up every quotient metric's statistics within each group."""
    columns = tuple(m.name for m in metrics if m.derived is None and m.corpus is None)
    column_of = {name: index for index, name in enumerate(columns)}
    ordered = in_order(units)
    groups = tuple(dict.fromkeys(unit.group for unit in ordered))
    row = {group: index for index, group in enumerate(groups)}
    above, below = np.zeros((2, len(groups), len(columns)))
    for unit in ordered:
        for name, statistic in unit.scores.items():
            if name in column_of and not isinstance(statistic, Corpus):
                numerator, denominator = quotient(statistic)
                above[row[unit.group], column_of[name]] += numerator
                below[row[unit.group], column_of[name]] += denominator
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
    """Rows × (high parts of all columns, then low parts of the columns in `has_low_part`)."""
    has_low_part: NDArray[np.bool_]
    """True for each column with low parts other than 0."""

    @classmethod
    def of_table(cls, table: FloatArray, *, limit: int) -> "Summands":
        """Split a table.

        Args:
            table: Rows × columns, finite.
            limit: Largest sum of absolute weights of a row of `weighted_sums`.
        """
        high = coarse(table, limit=limit)
        low = coarse(table - high, limit=limit)
        has_low_part = np.asarray(low.any(axis=0))
        return cls(np.concatenate([high, low[:, has_low_part]], axis=1), has_low_part)

    def weighted_sums(self, weights: FloatArray) -> FloatArray:
        """Return the columns' sums under each row of whole-numbered weights.

        Args:
            weights: Weightings × rows of the table; whole numbers.

        Returns:
            Weightings × columns: the exact sums of the two parts, added with one rounding. The
            error of the split is below `4 * limit**2 / 2**104` of a column's largest number.
        """
        return self.add_low_parts(weights @ self.parts)

    def add_low_parts(self, sums: FloatArray) -> FloatArray:
        """Add the low parts' sums to those of the high parts; changes `sums`."""
        columns = len(self.has_low_part)
        sums[:, :columns][:, self.has_low_part] += sums[:, columns:]
        return sums[:, :columns]


def coarse(table: FloatArray, *, limit: int) -> FloatArray:
    """Round each column to a power of two at which sums of `limit` of its numbers are exact."""
    largest = np.abs(table).max(axis=0, initial=0.0)
    exponent = np.frexp(largest)[1] + int(limit).bit_length() - MAX_BITS
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
    """Return the values of quotient and derived metrics, one for each row of sums.

    Args:
        metrics: All metrics of the protocol, each after those that it is derived from.
        columns: Names of the quotient metrics, in the order of the sums' columns.
        above, below: Numerators and denominators, rows × columns.
        corpora: Values of corpus metrics, one for each row, if they were computed.

    Returns:
        Values by metric, NaN in rows where nothing counts. Corpus metrics without given values,
        and metrics derived from them, are left out.
    """
    values: dict[str, FloatArray] = dict(corpora or {})
    column_of = {name: index for index, name in enumerate(columns)}
    with np.errstate(all="ignore"):
        for metric in metrics:
            if metric.derived is not None:
                if all(name in values for name in metric.inputs):
                    value: object = metric.derived(*(values[name] for name in metric.inputs))
                    values[metric.name] = np.broadcast_to(
                        np.asarray(value, dtype=np.float64), (len(above),)
                    )
            elif metric.name in column_of:
                column = column_of[metric.name]
                divisor = np.where(below[:, column] == 0, np.nan, below[:, column])
                values[metric.name] = above[:, column] / (divisor + metric.epsilon)
    return values


def counted_groups(
    metrics: Sequence[Metric], sums: GroupSums, *, corpora: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the number of groups in which each metric counts.

    For a derived metric it is the smallest of its parts' numbers; if the metric `is_partial`, of
    those parts that count at all. `corpora` has the numbers of corpus metrics; metrics that it
    lacks are left out.
    """
    counted = dict(corpora or {})
    for column, name in enumerate(sums.columns):
        counted[name] = int(np.count_nonzero(sums.below[:, column]))
    for metric in metrics:
        if metric.derived is not None and all(name in counted for name in metric.inputs):
            sizes = [counted[name] for name in metric.inputs]
            if metric.is_partial:
                sizes = [count for count in sizes if count] or [0]
            counted[metric.name] = min(sizes)
    return counted


def dependencies_of(metrics: Sequence[Metric], name: str) -> tuple[Metric, ...]:
    """Return the metrics that metric `name` is derived from, at any depth, and then this metric.

    Raises:
        UsageError: there is no such metric.
    """
    by_name = {metric.name: metric for metric in metrics}
    if name not in by_name:
        raise UsageError(f"metric {name!r}", expected=" or ".join(by_name), found="another name")
    parts = (
        part for input_name in by_name[name].inputs for part in dependencies_of(metrics, input_name)
    )
    return (*dict.fromkeys(parts), by_name[name])


def of_corpora(metrics: Sequence[Metric]) -> tuple[str, ...]:
    """Return the names of the corpus metrics and of the metrics derived from them."""
    names: list[str] = []
    for metric in metrics:
        if metric.corpus is not None or any(name in names for name in metric.inputs):
            names.append(metric.name)
    return tuple(names)
