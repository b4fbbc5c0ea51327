"""Formatting of numbers and p values, for sentences and boards."""

NOTHING = "–"
ALONE = "p is for this comparison alone: multiply it by the number of comparisons made"
"""The rule for several comparisons beside each p; only the gate corrects (Holm)."""


def number(value: float | None) -> str:
    """Return three decimals below 100, one above.

    >>> number(0.61234), number(1234.5), number(None)
    ('0.612', '1234.5', '–')
    """
    if value is None:
        return NOTHING
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def p_value(p: float | None) -> str:
    """Return a p value, not more precise than a resampling test can be; empty for None.

    >>> p_value(0.0004), p_value(0.0421), p_value(None)
    ('p < 0.001', 'p = 0.042', '')
    """
    return "" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
