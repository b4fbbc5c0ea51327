"""The smallest difference that a comparison of means shows with a given probability.

A test at `level` finds a true difference δ with probability `power` when δ is about
`(q(1 - (1 - level) / 2) + q(power))` standard errors (Bloom 1995, "Minimum Detectable Effects";
Miller 2024, arXiv 2411.00640, section 5).
"""

import math

from harness.statistics.quantiles import check_level, half_width, quantile

POWER = 0.8
N_ITERATIONS = 60
"""Iterations of the fixed point in `errors_to_show`; each reduces its error by a third or more."""


def minimum_detectable(
    error: float, *, level: float = 0.95, power: float = POWER, degrees: float | None = None
) -> float:
    """Return the smallest true difference that is shown with probability `power`.

    Args:
        error: Standard error of the difference.
        level: Level of the two-sided interval that has to exclude 0.
        power: Probability with which it shall do so.
        degrees: Degrees of freedom for t quantiles; None for normal ones.

    Raises:
        UsageError: `level` or `power` is not between 0 and 1.

    >>> round(minimum_detectable(0.01), 4)
    0.028
    """
    check_level(level)
    check_level(power, what="power")
    return (half_width(level, degrees=degrees) + quantile(power, degrees=degrees)) * error


def errors_to_show(*, degrees: float, level: float = 0.95, power: float = POWER) -> float:
    """Return c: a loss of c estimated standard errors is shown with probability `power`.

    `minimum_detectable` takes the standard error as known. Here it is estimated twice, with
    `degrees` degrees of freedom: from the runs that state the loss, and from another pair of runs
    that shall show it. With Z normal, U and V the two estimates over the true error, and t the
    critical value, the loss is shown if `Z + c U - t V > 0`. The left side has the mean `(c - t) m`
    and the variance `1 + (c² + t²) (1 - m²)`, with m the mean of U. The power is simulated in
    `tests/statistics/test_detection.py`.

    >>> round(errors_to_show(degrees=23), 3), round(errors_to_show(degrees=10_000), 3)
    (3.035, 2.802)
    """
    critical, beyond = half_width(level, degrees=degrees), quantile(power)
    log_mean = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    mean = math.sqrt(2 / degrees) * math.exp(log_mean)
    errors = critical + beyond
    for _ in range(N_ITERATIONS):
        spread = math.sqrt(1 + (errors**2 + critical**2) * (1 - mean**2))
        errors = critical + beyond * spread / mean
    return errors
