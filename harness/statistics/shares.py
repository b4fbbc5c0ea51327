"""Exact intervals of shares: of answers that are right or wrong, and of numbers at 0 or 1.

`bootstrap.intervals` uses them: the bootstrap's interval of a share is too narrow near 0 and 1, and
has no length at 0 and 1, because a resample of right answers has right answers only. The exact
interval of Clopper and Pearson (1934, "The Use of Confidence or Fiducial Limits Illustrated in the
Case of the Binomial") holds the true share at least as often as its level says. For samples in
groups it is computed with their effective number, as for surveys (Korn and Graubard 1998,
"Confidence Intervals for Proportions with Small Expected Number of Positive Counts Estimated from
Survey Data").
"""

from collections.abc import Sequence

import numpy as np

from harness.scores import Mean, UnitScore
from harness.statistics.analytic import estimate
from harness.statistics.clusters import FloatArray
from harness.statistics.quantiles import half_width


def exact(share: float, *, size: float, groups: int, level: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval for an effective number of answers.

    Args:
        share: From 0 to 1.
        size: The effective number of answers, which need not be whole. As it is estimated from
            `groups`, it is reduced by the squared ratio of the normal to the t quantile.
        groups: Number of groups that the answers come from.
        level: Least probability that the interval holds the true share.

    >>> [round(end, 3) for end in exact(1.0, size=24, groups=10**9, level=0.95)]
    [0.858, 1.0]
    """
    from scipy.special import betaincinv  # when it is needed: see `quantiles`

    size *= (half_width(level) / half_width(level, degrees=groups - 1)) ** 2
    n_right, tail = share * size, (1 - level) / 2
    low = float(betaincinv(n_right, size - n_right + 1, tail)) if share > 0 else 0.0
    high = float(betaincinv(n_right + 1, size - n_right, 1 - tail)) if share < 1 else 1.0
    return low, high


def weights_of_shares(units: Sequence[UnitScore], name: str) -> FloatArray | None:
    """Return the weights of a metric's answers if all are right (1) or wrong (0); else None."""
    scores = [score for unit in units if (score := unit.scores.get(name)) is not None]
    if all(
        isinstance(score, Mean) and score.value in (0, 1) and score.weight >= 0 for score in scores
    ):
        return np.array([score.weight for score in scores if isinstance(score, Mean)])
    return None


def of_answers(
    weights: FloatArray, above: FloatArray, below: FloatArray, *, level: float
) -> tuple[float, float] | None:
    """Return the interval of a share of right answers; None if fewer than two groups count.

    The effective number of answers is the number of independent answers that would have the same
    standard error as the clustered ones, and at most the number of answers. If all or none are
    right that error is 0, and all answers of a group count as one.

    Args:
        weights: The weight of each answer.
        above, below: Sums of the weights of right answers, and of all answers, for each group.
        level: Least probability that the interval holds the true share.
    """
    clustered = estimate(above, below, level=level)
    if clustered is None:
        return None
    share, limit = min(max(clustered.value, 0.0), 1.0), effective(weights)
    if share in (0, 1):
        size = effective(below)
    else:
        size = min(limit, share * (1 - share) / clustered.error**2) if clustered.error else limit
    return exact(share, size=size, groups=clustered.n_groups, level=level)


def effective(weights: FloatArray) -> float:
    """Return the effective sample size of weighted answers (Kish 1965, "Survey Sampling").

    >>> effective(np.array([1.0, 1.0, 2.0])).__round__(2)
    2.67
    """
    return float(weights.sum() ** 2 / np.sum(weights**2))
