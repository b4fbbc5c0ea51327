"""The swap test, which compares two runs by swapping their results within groups.

Its hypothesis is that the two runs' results are exchangeable within each group. Then the results of
any groups may be swapped; the p value is the share of swaps after which the runs' difference is at
least as large in size as the observed one. For a mean with equal weights this is the cluster
sign-flip test (Fisher 1935; Good 2005, "Permutation, Parametric and Bootstrap Tests of
Hypotheses"). It is exact for any number of groups. `paired.compare` calls it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.scores import Metric
from harness.statistics.clusters import FloatArray, GroupSums, Summands, numbers
from harness.statistics.quantiles import half_width
from harness.statistics.resampling import all_swaps, swaps

ROUNDING_ERROR = 1e-12  # differences closer than this are equal


@dataclass(frozen=True, slots=True)
class Swaps:
    """The swap test of one metric's difference."""

    seen: float
    """The observed difference, without any swap."""
    differences: FloatArray
    """Difference after each swap; one of them swaps nothing."""

    @property
    def p_value(self) -> float:
        """The share of swaps whose difference is at least as large in size as the one seen.

        A swap after which nothing counts (NaN) counts as larger, which can only raise p.
        """
        is_smaller = np.abs(self.differences) < abs(self.seen) - ROUNDING_ERROR
        return (len(is_smaller) - int(np.count_nonzero(is_smaller))) / len(is_smaller)

    def critical(self, level: float) -> float:
        """Return the size that the difference must exceed for p to be at most `1 - level`."""
        sizes = np.abs(self.differences)
        sizes = np.sort(np.where(np.isfinite(sizes), sizes, np.inf))[::-1]
        # Number of swaps that may be larger; 1e-9, as 0.05 * 20 must not be rounded down to 0.
        n_beyond = int((1 - level) * len(sizes) + 1e-9)
        size = float(sizes[n_beyond])
        return size if np.isfinite(size) else float(max(sizes[np.isfinite(sizes)]))

    def interval(self, level: float, *, error: float, groups: int) -> tuple[float, float]:
        """Return the interval of the same test: it holds 0 exactly if p is above `1 - level`.

        For means of equal weights it is the interval of the studentised test: the sum of squares S
        of the groups' differences is the same after every swap, so a critical difference c has the
        t statistic c / √(S - c²) up to a factor. The variance of the difference seen is S - seen²
        up to the same factor, so the interval reaches `c * √((S - seen²) / (S - c²))` to either
        side of it. For other metrics S follows from their standard error; the sign of an end does
        not depend on S. If so few groups differ that no difference can be shown, the interval is
        at most as wide as that of a t test, and holds 0. If all groups differ by the same amount,
        so that their variance is not known, it reaches c to either side.

        Args:
            level: Level of the interval.
            error: Standard error of the difference.
            groups: Number of groups.
        """
        size = self.critical(level)
        variance = groups * error**2
        remaining = variance + self.seen**2 - size**2
        limit = max(size, half_width(level, degrees=groups - 1) * error)
        if min(remaining, variance) <= ROUNDING_ERROR**2:
            return self.seen - size, self.seen + size
        reach = min(size * math.sqrt(variance / remaining), limit)
        return self.seen - reach, self.seen + reach


def swap_test(
    metrics: Sequence[Metric], a: GroupSums, b: GroupSums, *, name: str, count: int, seed: int
) -> Swaps:
    """Return the swap test of metric `name` for two runs on the same groups.

    If the 2^k swaps of the k groups in which the runs differ are at most `count`, all are computed.
    Otherwise `count` random ones are computed, and the one that swaps nothing, so that
    p = (1 + hits) / (1 + count).
    """
    k = int(np.count_nonzero((a.table != b.table).any(axis=1)))
    difference = swap_differences(metrics, a, b, name=name)
    if k < 63 and 2**k <= count:
        differences = [difference(all_swaps(k))]
    else:
        swap_bits = swaps(k, count=count, seed=seed)
        differences = [difference(np.zeros((1, k))), *(difference(block) for block in swap_bits)]
    return Swaps(float(differences[0][0]), np.concatenate(differences))


def swap_differences(
    metrics: Sequence[Metric], a: GroupSums, b: GroupSums, *, name: str
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from swaps to the difference b - a after each of them.

    Its argument has a row of 0 and 1 (swapped) for each swap, and a column for each group in which
    the runs differ.
    """
    differ = (a.table != b.table).any(axis=1)
    groups = len(a.groups)
    # Both runs are split in one table, so that their numbers are multiples of the same power of
    # two: the amount that a swap takes from one run and adds to the other is then exact.
    parts = Summands.of_table(np.concatenate([a.table, b.table]), limit=2 * groups)
    first, second = parts.parts[:groups], parts.parts[groups:]
    gain = (second - first)[differ]
    whole_a, whole_b = first.sum(axis=0), second.sum(axis=0)

    def value(sums: FloatArray) -> FloatArray:
        above, below = np.split(parts.add_low_parts(sums), 2, axis=1)
        return numbers(metrics, a.columns, above=above, below=below)[name]

    def difference(which: FloatArray) -> FloatArray:
        moved = which @ gain
        return value(whole_b - moved) - value(whole_a + moved)

    return difference
