"""Differences that a comparison can detect: before a second model is run, and afterwards.

A test at `level` finds a true difference δ with probability `power` when δ is about
`(q(1 - (1 - level) / 2) + q(power))` standard errors (Bloom 1995, "Minimum Detectable Effects";
Miller 2024, arXiv 2411.00640, section 5). Before the second run the standard error of the
difference is guessed from the first: if group g moves a number by a standard deviation σ, two runs
whose groups' scores correlate with ρ differ with a variance of `2 * (1 - ρ) * σ² / G`.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

from harness.errors import UsageError
from harness.scores import Metric, UnitScore
from harness.statistics.analytic import estimate
from harness.statistics.clusters import dependencies_of, group_sums
from harness.statistics.jackknife import BLOCKS, replicates
from harness.statistics.quantiles import check_level, half_width, quantile

POWER = 0.8


def minimum_detectable(
    error: float, *, level: float = 0.95, power: float = POWER, degrees: float | None = None
) -> float:
    """The smallest true difference that is shown with probability `power`.

    Args:
        error: Standard error of the difference.
        level: Of the two-sided interval that has to exclude 0.
        power: How often it shall do so.
        degrees: Degrees of freedom for t quantiles; None for normal ones.

    Raises:
        UsageError: `level` or `power` is not between 0 and 1.

    >>> round(minimum_detectable(0.01), 4)
    0.028
    """
    check_level(level)
    check_level(power, what="power")
    return (half_width(level, degrees=degrees) + quantile(power, degrees=degrees)) * error


def planned_detectable(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    *,
    name: str,
    groups: int | None = None,
    correlation: float = 0.0,
    level: float = 0.95,
    power: float = POWER,
) -> float | None:
    """The minimum detectable difference to a second model that has not been run yet.

    Args:
        metrics: The protocol's metrics, each after those that it is derived from.
        units: The units of the first run.
        name: The metric.
        groups: How many groups (images, videos) like these both models will answer; default:
            as many as there are.
        correlation: How the two models' scores of a group are expected to correlate. 0 treats
            them as strangers, which is cautious: models agree on what is difficult, and 0.5 to
            0.9 is common between a model and its successor.
        level: Of the paired interval.
        power: How often the difference shall be shown.

    Returns:
        The difference in the metric's own unit; None where the metric counts in fewer than two
        groups.

    Raises:
        UsageError: there is no such metric, or an argument is out of range.
    """
    spread = group_deviation(metrics, units, name=name)
    count = len({unit.group for unit in units}) if groups is None else groups
    if spread is None:
        return None
    if count < 2:
        raise UsageError("groups", expected="at least 2", found=str(count))
    error = _error(spread, groups=count, correlation=correlation)
    return minimum_detectable(error, level=level, power=power, degrees=count - 1)


def groups_needed(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    *,
    name: str,
    difference: float,
    correlation: float = 0.0,
    level: float = 0.95,
    power: float = POWER,
) -> int | None:
    """Return the number of groups that show a true `difference` with probability `power`.

    Raises UsageError if `difference` is not above 0, or as `planned_detectable` does.
    """
    if not difference > 0:
        raise UsageError("difference", expected="above 0", found=str(difference))
    spread = group_deviation(metrics, units, name=name)
    if spread is None:
        return None

    def detects(count: int) -> bool:
        error = _error(spread, groups=count, correlation=correlation)
        return minimum_detectable(error, level=level, power=power, degrees=count - 1) <= difference

    limit = 2
    while not detects(limit):
        limit *= 2
    return 2 + bisect_left(range(2, limit), True, key=detects)


def _error(spread: float, *, groups: int, correlation: float) -> float:
    """The standard error of the difference of two runs that are alike in spread."""
    if not -1 <= correlation <= 1:
        raise UsageError("correlation", expected="-1 to 1", found=str(correlation))
    return spread * math.sqrt(2 * (1 - correlation) / groups)


def group_deviation(
    metrics: Sequence[Metric], units: Sequence[UnitScore], *, name: str
) -> float | None:
    """Return the standard error of a run's metric times √groups: the deviation of one group.

    By formula for quotients, by the cluster jackknife for other metrics.
    """
    used = dependencies_of(metrics, name)
    groups = len({unit.group for unit in units})
    if not units:
        return None
    if used[-1].derived is None and used[-1].corpus is None:
        sums = group_sums(used, units)
        found = estimate(sums.above[:, 0], sums.below[:, 0], epsilon=used[-1].epsilon)
        error = None if found is None else found.error
    else:
        error = replicates(used, units, blocks=BLOCKS).error(name)
    return None if error is None else error * math.sqrt(groups)
