"""Holm's correction of the p values of several tests, such as a gate's on several tasks."""

from collections.abc import Mapping
from typing import TypeVar

from harness.errors import DataError

Name = TypeVar("Name")


def holm(p_values: Mapping[Name, float | None]) -> dict[Name, float | None]:
    """Return adjusted p values: a true hypothesis has one of at most α with probability at most α.

    The probability is that of any error among all tests, whatever their dependence. The i-th
    smallest of m p values is multiplied by m - i + 1, and raised to the adjusted one before it if
    that is larger (Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure"). The
    method never rejects fewer hypotheses than Bonferroni's correction.

    Args:
        p_values: P values by the name of the test; None: not tested, and not counted in m.

    Raises:
        DataError: a p value is not between 0 and 1.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": None})
    {'a': 0.03, 'b': 0.06, 'c': 0.06, 'd': None}
    """
    adjusted: dict[Name, float | None] = dict.fromkeys(p_values)
    tested = sorted((p, index) for index, p in enumerate(p_values.values()) if p is not None)
    names = list(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(tested):
        if not 0 <= p <= 1:
            raise DataError(f"p value of {names[index]}", expected="0 to 1", found=str(p))
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[names[index]] = largest
    return adjusted
