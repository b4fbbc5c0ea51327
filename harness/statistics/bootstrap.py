"""The percentile bootstrap over groups: how far a metric would move with other pictures.

Groups (pictures or videos) are drawn with replacement as often as there are groups, and every
metric is computed anew from the sums of those drawn: the cluster bootstrap of Field and Welsh
(2007), "Bootstrapping clustered data". Its percentile interval is somewhat too narrow when there
are few groups (below about 30).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.errors import UsageError
from harness.scores import Metric, UnitScore
from harness.statistics.clusters import (
    FloatArray,
    GroupSums,
    counted_groups,
    group_sums,
    numbers,
)

CELLS = 2**21  # weights held at once: 16 MiB of float64


def intervals(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, tuple[float, float] | None]:
    """Percentile intervals by metric, from the cluster bootstrap over `UnitScore.group`.

    Quotients divide resampled sums (with `Metric.epsilon`); derived metrics are applied to the
    resamples of their parts jointly. None stands for corpus metrics and what is derived from
    them, and for metrics that count in fewer than two groups.

    Args:
        metrics: The protocol's metrics, each after those that it is derived from.
        units: The units of one run, in any order.
        resamples: How often the groups are drawn.
        level: The share of resamples between the two ends.
        seed: Seeds Philox; equal seeds give equal intervals.

    Raises:
        UsageError: `level` is not between 0 and 1, or `resamples` is below 1.
    """
    check_level(level)
    drawn = resampled(metrics, units, resamples=resamples, seed=seed)
    return {
        metric.name: percentiles(drawn[metric.name], level) if metric.name in drawn else None
        for metric in metrics
    }


def resampled(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, FloatArray]:
    """Every metric's value in each resample, for metrics that count in at least two groups.

    Runs on the same groups with the same seed see the same draws, so differences of their values
    are paired.
    """
    sums = group_sums(metrics, units)
    counted = counted_groups(metrics, sums)
    values = weighted(metrics, sums, resamples=resamples, seed=seed)
    return {name: value for name, value in values.items() if counted[name] >= 2}


def weighted(
    metrics: Sequence[Metric], sums: GroupSums, *, resamples: int, seed: int
) -> dict[str, FloatArray]:
    """Every metric's value in each resample of the groups of `sums`; NaN where nothing counts."""
    if resamples < 1:
        raise UsageError("resamples", expected="at least 1", found=str(resamples))
    if not sums.groups:
        return {}
    blocks = [
        (weights @ sums.above, weights @ sums.below)
        for weights in draws(len(sums.groups), resamples=resamples, seed=seed)
    ]
    return numbers(
        metrics,
        sums.columns,
        above=np.concatenate([above for above, _ in blocks]),
        below=np.concatenate([below for _, below in blocks]),
    )


def draws(groups: int, *, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Multinomial counts of `groups` draws with replacement, in blocks of resamples × groups."""
    generator = np.random.Generator(np.random.Philox(seed))
    for rows in blocks(resamples, max(1, CELLS // groups)):
        drawn = generator.integers(groups, size=(rows, groups))
        cells = (drawn + np.arange(rows)[:, None] * groups).ravel()
        counts = np.bincount(cells, minlength=rows * groups)
        yield counts.reshape(rows, groups).astype(np.float64)


def blocks(total: int, most: int) -> Iterator[int]:
    """Sizes of at most `most` that add up to `total`."""
    for start in range(0, total, most):
        yield min(most, total - start)


def percentiles(values: FloatArray, level: float) -> tuple[float, float] | None:
    """The middle `level` of the resamples in which something counts; None if there are none."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def check_level(level: float) -> None:
    """Raise UsageError unless `level` lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise UsageError("level", expected="a number between 0 and 1", found=str(level))
