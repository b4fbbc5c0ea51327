"""Quantiles and tails of the normal and of Student's t distribution, and the check of a level.

`scipy.special`, whose import is slow, is imported only when a t distribution is needed: most
commands need none.
"""

from statistics import NormalDist

from harness.errors import UsageError

_NORMAL = NormalDist()


def check_level(level: float, *, what: str = "level") -> None:
    """Raise UsageError unless `level` lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise UsageError(what, expected="a number between 0 and 1", found=str(level))


def quantile(share: float, *, degrees: float | None = None) -> float:
    """Return the value below which a `share` of the distribution lies.

    The distribution is t with `degrees` degrees of freedom; None: the normal one.

    >>> round(quantile(0.975), 4), round(quantile(0.975, degrees=9), 4)
    (1.96, 2.2622)
    """
    if degrees is None:
        return _NORMAL.inv_cdf(share)
    from scipy.special import stdtrit

    return float(stdtrit(degrees, share))


def half_width(level: float, *, degrees: float | None = None) -> float:
    """Return the number of standard errors from the centre of a two-sided interval to its ends.

    >>> round(half_width(0.95, degrees=1), 3)
    12.706
    """
    return quantile((1 + level) / 2, degrees=degrees)


def two_sided_p(statistic: float, *, degrees: float) -> float:
    """Return the probability that |t| is at least `statistic` in size, with `degrees` of freedom.

    >>> round(two_sided_p(-2.2622, degrees=9), 4)
    0.05
    """
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(statistic)))
