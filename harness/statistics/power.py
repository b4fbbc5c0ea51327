"""The smallest difference that a comparison detects.

A test at `level` finds a true difference δ with probability `power` when δ is about
`(q(1 - (1 - level) / 2) + q(power))` standard errors (Bloom 1995, "Minimum Detectable Effects";
Miller 2024, arXiv 2411.00640, section 5).
"""

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
