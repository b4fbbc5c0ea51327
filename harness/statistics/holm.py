"""Many tests at once: Holm's correction, which holds whatever the dependence between them."""

from collections.abc import Mapping
from typing import TypeVar

from harness.errors import DataError

Name = TypeVar("Name")


def holm(p_values: Mapping[Name, float | None]) -> dict[Name, float | None]:
    """Adjusted p values: with probability 1 - α no true hypothesis has one of at most α.

    The i-th smallest of m is multiplied by m - i + 1, and none may be below one before it (Holm
    1979, "A Simple Sequentially Rejective Multiple Test Procedure"). No independence is assumed;
    it is never weaker than Bonferroni's correction.

    Args:
        p_values: By whatever names the tests; None was not tested and is not counted among m.

    Raises:
        DataError: a p value is not between 0 and 1.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": None})
    {'a': 0.03, 'b': 0.06, 'c': 0.06, 'd': None}
    """
    adjusted: dict[Name, float | None] = dict.fromkeys(p_values)
    tested = sorted((p, place) for place, p in enumerate(p_values.values()) if p is not None)
    names = list(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        if not 0 <= p <= 1:
            raise DataError(f"p value of {names[place]}", expected="0 to 1", found=str(p))
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[names[place]] = largest
    return adjusted
