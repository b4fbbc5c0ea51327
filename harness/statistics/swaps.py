"""The swap test: could the two runs' results have been exchanged within each group?

Under the hypothesis that two runs are exchangeable within each group, the runs' results for any
groups may be swapped and the difference computed anew; p is the share of swaps whose difference
is at least as large in size as the one seen. For a mean with equal weights this is the cluster
sign-flip test (Fisher 1935; Good 2005, "Permutation, Parametric and Bootstrap Tests of
Hypotheses"). It is exact for any number of groups, unlike an interval.
"""

from collections.abc import Callable, Sequence

import numpy as np

from harness.scores import Metric
from harness.statistics.clusters import FloatArray, GroupSums, numbers
from harness.statistics.exact import Summands
from harness.statistics.resampling import all_swaps, swaps

SAME = 1e-12  # differences closer than this are equal but for rounding


def swap_test(
    metrics: Sequence[Metric],
    a: GroupSums,
    b: GroupSums,
    *,
    name: str,
    count: int,
    seed: int,
) -> float:
    """Two-sided p value of the exchangeability of two runs within each group.

    All 2^k swaps of the k groups in which the runs differ are listed where these are at most
    `count`; otherwise `count` random ones are drawn and p = (1 + hits) / (1 + count). A swap
    after which nothing counts is taken for an extreme one, which can only raise p.

    Args:
        metrics: Metric `name` and what it is derived from.
        a: Sums of the first run.
        b: Sums of the second run, on the same groups.
        name: The metric to test.
        count: The most swaps that are computed.
        seed: Seeds the draws.
    """
    k = int(np.count_nonzero((a.table != b.table).any(axis=1)))
    exact = k < 63 and 2**k <= count
    difference = swapped(metrics, a, b, name=name)
    seen = abs(difference(np.zeros((1, k)))[0])
    hits = 0
    for block in [all_swaps(k)] if exact else swaps(k, count=count, seed=seed):
        hits += int(np.count_nonzero(~(np.abs(difference(block)) < seen - SAME)))
    return hits / 2**k if exact else (1 + hits) / (1 + count)


def swapped(
    metrics: Sequence[Metric], a: GroupSums, b: GroupSums, *, name: str
) -> Callable[[FloatArray], FloatArray]:
    """A function from swaps (rows of 0 and 1 for the groups that differ) to differences b - a."""
    differ = (a.table != b.table).any(axis=1)
    groups = len(a.groups)
    # Both runs in one column, so that a number and its counterpart have one unit: what a swap
    # takes from one run and gives to the other is then exact too.
    parts = Summands.of(np.concatenate([a.table, b.table]), most=2 * groups)
    first, second = parts.parts[:groups], parts.parts[groups:]
    gain = (second - first)[differ]
    whole_a, whole_b = first.sum(axis=0), second.sum(axis=0)

    def value(sums: FloatArray) -> FloatArray:
        above, below = np.split(parts.joined(sums), 2, axis=1)
        return numbers(metrics, a.columns, above=above, below=below)[name]

    def difference(which: FloatArray) -> FloatArray:
        moved = which @ gain
        return value(whole_b - moved) - value(whole_a + moved)

    return difference
