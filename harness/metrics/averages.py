"""Means of several metrics, added in the order of official code, so that the last bit is equal.

They are functions for `Metric(derived=…)`: the parts are numbers, or arrays of one length with an
element for each resample. Float addition depends on the order, hence the two plain means.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = TypeVar("Numbers", float, NDArray[np.float64])
"""One number, or an array of resamples."""


def mean_in_order(*parts: Numbers) -> Numbers:
    """The mean of numbers or arrays, added from the first to the last.

    >>> mean_in_order(0.5, 0.25, 0.75), mean_in_order(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    (0.5, array([0.5, 1. ]))
    """
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total / len(parts)


def mean_of_present(*parts: Numbers) -> Numbers:
    """The mean, added from the first to the last, of the numbers or arrays that are not NaN; NaN
    where all are.

    >>> float(mean_of_present(0.5, float("nan"), 0.75))
    0.625
    """
    total: Any = 0.0
    count: Any = 0
    for part in parts:
        is_present = ~np.isnan(part)
        total = total + np.where(is_present, part, 0.0)
        count = count + is_present
    mean: Numbers = total / np.where(count > 0, count, np.nan)
    return mean


def pairwise_mean(*parts: Numbers) -> Numbers:
    """The mean of numbers, or of arrays of one length, added as `numpy.mean` adds a list.

    >>> float(pairwise_mean(0.5, 0.25, 0.75))
    0.5
    """
    mean: Numbers = np.mean(np.asarray(parts), axis=0)
    return mean
