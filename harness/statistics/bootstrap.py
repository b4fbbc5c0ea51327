"""Confidence intervals of a run's metrics, by the percentile bootstrap over groups.

A resample draws as many groups (images or videos) as there are, with replacement, and every metric
is computed from the sums of the drawn groups: the cluster bootstrap of Field and Welsh (2007),
"Bootstrapping clustered data". Its percentile interval is somewhat too narrow when there are few
groups (below about 30). Corpus metrics have no such sums: their intervals are the jackknife's.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from harness.errors import UsageError
from harness.scores import Metric, UnitScore
from harness.statistics import jackknife, shares
from harness.statistics.clusters import (
    FloatArray,
    GroupSums,
    Summands,
    counted_groups,
    group_sums,
    numbers,
    of_corpora,
)
from harness.statistics.quantiles import check_level
from harness.statistics.resampling import draws

RESAMPLES = 2000
ROUNDING_ERROR = 1e-12  # resamples that differ by less are equal


def intervals(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
    blocks: int = jackknife.DEFAULT_BLOCKS,
) -> dict[str, tuple[float, float] | None]:
    """Return an interval for each metric, clustered by `UnitScore.group`.

    Quotients and derived metrics have the percentiles of the cluster bootstrap: resampled sums are
    divided (with `Metric.epsilon`), and derived functions are applied to the resamples of their
    parts. Shares of right answers, and numbers that are 0 or 1 in every resample, have the exact
    interval (`shares`) if more is better: a metric of which less is better, such as an error, may
    be 0 or 1 in all samples without being bounded by 1. Corpus metrics, and metrics derived from
    them, have `jackknife.intervals`. Metrics that count in fewer than two groups have None.

    Equal arguments give intervals equal to the last bit, on any machine (`Summands`).

    Args:
        metrics: The protocol's metrics, each after those that it is derived from.
        units: The units of one run, in any order.
        resamples: Number of times that the groups are drawn.
        level: The share of resamples between the two ends.
        seed: Seed of the draws; equal seeds give equal intervals.
        blocks: Largest number of the jackknife's blocks: a corpus function is called `blocks` + 1
            times.

    Raises:
        UsageError: `level` is not between 0 and 1, `resamples` is below 1, or `blocks` below 2.
    """
    check_level(level)
    sums = group_sums(metrics, units)
    resampled = resample_metrics(metrics, sums, resamples=resamples, seed=seed)
    by_metric = {name: percentiles(values, level) for name, values in resampled.items()}
    by_metric |= _shares(metrics, units, sums, by_metric, level)
    if of_corpora(metrics):
        by_metric |= jackknife.intervals(metrics, units, level=level, blocks=blocks, seed=seed)
    return {metric.name: by_metric.get(metric.name) for metric in metrics}


def resample_metrics(
    metrics: Sequence[Metric], sums: GroupSums, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, FloatArray]:
    """Return each metric's value in each resample, for metrics that count in two groups or more.

    Runs on the same groups with the same seed have the same draws, so differences of their values
    are paired. Corpus metrics, and metrics derived from them, are left out.
    """
    counted = counted_groups(metrics, sums)
    (values,) = weighted_metrics(metrics, [sums], resamples=resamples, seed=seed)
    return {name: value for name, value in values.items() if counted[name] >= 2}


def _shares(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    sums: GroupSums,
    bootstrapped: Mapping[str, tuple[float, float] | None],
    level: float,
) -> dict[str, tuple[float, float] | None]:
    """Return exact intervals of metrics that are shares, or are 0, or 1, in every resample."""
    exact_intervals: dict[str, tuple[float, float] | None] = {}
    counted = counted_groups(metrics, sums)
    for metric in metrics:
        ends = bootstrapped.get(metric.name)
        if ends is None or metric.better != "higher":
            continue
        size = float(counted[metric.name])
        if metric.name in sums.columns:
            column = sums.columns.index(metric.name)
            above, below = sums.above[:, column], sums.below[:, column]
            weights = shares.weights_of_shares(units, metric.name)
            if weights is not None and not metric.epsilon:
                exact_intervals[metric.name] = shares.of_answers(weights, above, below, level=level)
                continue
            size = shares.effective(below)
        end = round(ends[0], 9)  # an epsilon in the denominator keeps a ratio from being 1
        if abs(ends[1] - ends[0]) < ROUNDING_ERROR and end in (0, 1):
            exact_intervals[metric.name] = shares.exact(
                end, size=size, groups=counted[metric.name], level=level
            )
    return exact_intervals


def weighted_metrics(
    metrics: Sequence[Metric], runs: Sequence[GroupSums], *, resamples: int, seed: int
) -> list[dict[str, FloatArray]]:
    """Return each metric's value in each resample, for several runs on the same groups.

    Returns:
        For each run the values by metric; NaN where nothing counts.

    Raises:
        UsageError: `resamples` is below 1.
    """
    if resamples < 1:
        raise UsageError("resamples", expected="at least 1", found=str(resamples))
    groups = len(runs[0].groups)
    if not groups or not runs[0].columns:
        return [{} for _ in runs]
    summands = Summands.of_table(np.concatenate([run.table for run in runs], axis=1), limit=groups)
    drawn = np.concatenate(
        [summands.weighted_sums(block) for block in draws(groups, resamples=resamples, seed=seed)]
    )
    parts = np.split(drawn, 2 * len(runs), axis=1)
    return [
        numbers(metrics, run.columns, above=above, below=below)
        for run, above, below in zip(runs, parts[::2], parts[1::2], strict=True)
    ]


def percentiles(values: FloatArray, level: float) -> tuple[float, float] | None:
    """Return the ends of the middle `level` of the finite values; None if there are none.

    >>> percentiles(np.array([0.0, 1.0, 2.0, 3.0, np.nan]), 0.5)
    (0.75, 2.25)
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
