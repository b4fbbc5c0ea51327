"""Intervals by formula: the cluster-robust standard error of a mean and of a ratio of sums.

With `a_g` and `b_g` the sums of numerators and denominators of group g (a mean's denominators are
its weights), `R = sum(a) / sum(b)` and residuals `e_g = a_g - R * b_g`,

    error² = G / (G - 1) * sum(e_g²) / sum(b)²

This is the delta method for a ratio of two totals estimated from G clusters (Cochran 1977,
"Sampling Techniques", chapters 6 and 9A), which allows for any dependence within a group (Liang
and Zeger 1986). The factor G / (G - 1) and t quantiles with G - 1 degrees of freedom follow
Cameron and Miller (2015), "A Practitioner's Guide to Cluster-Robust Inference"; Miller (2024),
"Adding Error Bars to Evals" (arXiv 2411.00640), recommends the same clustering for benchmarks.
For equal weights and one sample a group it is the textbook's s / √n.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from harness.errors import DataError
from harness.scores import Metric, UnitScore
from harness.statistics.clusters import FloatArray, group_sums
from harness.statistics.quantiles import check_level, half_width


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its clustered standard error."""

    value: float
    error: float
    """Standard error."""
    interval: tuple[float, float]
    """`value` ± the t quantile with `n_groups - 1` degrees of freedom × `error`."""
    n_groups: int
    level: float


def clustered_mean(
    values: ArrayLike, groups: Sequence[Hashable], *, weights: ArrayLike | None = None
) -> Estimate:
    """Return the (weighted) mean of samples that are not independent within their groups.

    The mean is the sum of `values · weights` over that of `weights`; the interval's level is 95 %.

    Args:
        values: A number for each sample.
        groups: The group of each sample, such as its image's name.
        weights: How often each sample counts, from 0 on; None: once.

    Raises:
        DataError: lengths differ, a number is not finite, or fewer than two groups have a weight.

    Copies of a sample within its group do not add evidence:

    >>> alone = clustered_mean([0.0, 1.0, 1.0], ["a", "b", "c"])
    >>> copied = clustered_mean([0.0, 0.0, 1.0, 1.0, 1.0, 1.0], ["a", "a", "b", "b", "c", "c"])
    >>> bool(np.isclose(alone.error, copied.error)), round(alone.error, 4)
    (True, 0.3333)
    """
    below = np.ones(len(groups)) if weights is None else np.asarray(weights, dtype=np.float64)
    above = np.asarray(values, dtype=np.float64)
    if not above.shape == below.shape == (len(groups),):
        raise DataError(
            "samples",
            expected=f"one number for each of {len(groups)} groups' entries",
            found=f"shapes {above.shape} and {below.shape}",
        )
    if not (np.isfinite(above).all() and np.isfinite(below).all()):
        raise DataError("samples", expected="finite numbers", found="NaN or infinity")
    row = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    sums = np.zeros((len(row), 2))
    np.add.at(sums, [row[group] for group in groups], np.stack([above * below, below], axis=1))
    mean = estimate(sums[:, 0], sums[:, 1])
    if mean is None:
        raise DataError(
            "a clustered interval",
            expected="at least two groups that count",
            found=str(np.count_nonzero(sums[:, 1])),
        )
    return mean


def estimates(
    metrics: Sequence[Metric], units: Sequence[UnitScore], *, level: float = 0.95
) -> dict[str, Estimate | None]:
    """Return the estimate of every quotient metric of a run, clustered by `UnitScore.group`.

    It is None for metrics that count in fewer than two groups, and for derived and corpus metrics,
    which no formula here covers: see `bootstrap.intervals`.

    Raises:
        UsageError: `level` is not between 0 and 1.
    """
    sums = group_sums(metrics, units)
    by_metric: dict[str, Estimate | None] = {metric.name: None for metric in metrics}
    for metric in metrics:
        if metric.name in sums.columns:
            column = sums.columns.index(metric.name)
            by_metric[metric.name] = estimate(
                sums.above[:, column], sums.below[:, column], epsilon=metric.epsilon, level=level
            )
    return by_metric


def estimate(
    above: FloatArray, below: FloatArray, *, epsilon: float = 0.0, level: float = 0.95
) -> Estimate | None:
    """Return the ratio of two sums, with its clustered error.

    Args:
        above, below: Sums of numerators and of denominators, one for each group.
        epsilon: Added to the denominator; see `Metric.epsilon`.
        level: Level of the interval.

    Returns:
        None if fewer than two groups have a denominator.
    """
    check_level(level)
    n_groups = int(np.count_nonzero(below))
    if n_groups < 2:
        return None
    influences = influence(above, below, epsilon=epsilon)
    error = float(np.sqrt(n_groups / (n_groups - 1) * np.sum(influences**2)))
    value = float(above.sum() / (below.sum() + epsilon))
    reach = half_width(level, degrees=n_groups - 1) * error
    return Estimate(
        value=value,
        error=error,
        interval=(value - reach, value + reach),
        n_groups=n_groups,
        level=level,
    )


def influence(above: FloatArray, below: FloatArray, *, epsilon: float = 0.0) -> FloatArray:
    """Return the influence of each group on the ratio: `(a_g - R * b_g) / (sum(b) + epsilon)`.

    >>> influence(np.array([1.0, 3.0]), np.array([2.0, 2.0])).tolist()
    [-0.25, 0.25]
    """
    total = below.sum() + epsilon
    influences: FloatArray = (above - above.sum() / total * below) / total
    return influences
