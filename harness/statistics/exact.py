"""Sums with one value, whatever the order, the blocks and the library that adds them.

A matrix product adds in an order of its own choice, which differs between libraries, machines and
shapes, and with it the last bits; a results file must not. So each number is split into a high
and a low part, both multiples of a power of two that is so coarse that every sum of them is a
whole multiple below 2^53 and therefore exact. This is the idea of the error-free vector
transformation of Rump, Ogita and Oishi (2008), "Accurate floating-point summation", with one
power of two for a whole column.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

DIGITS = 52  # one less than a float64 holds, so that a difference of two sums is exact as well


@dataclass(frozen=True, slots=True)
class Summands:
    """A table whose columns are summed under many weightings of its rows.

    >>> table = np.array([[0.1], [0.2], [0.3]])
    >>> weights = np.array([[1.0, 1, 1], [0, 0, 3]])
    >>> Summands.of_table(table, limit=3).weighted_sums(weights).ravel().tolist()
    [0.6, 0.8999999999999999]
    """

    parts: FloatArray
    """Rows × (columns + those columns that have a low part)."""
    rough: NDArray[np.bool_]
    """Mask of the columns that have a low part."""

    @classmethod
    def of_table(cls, table: FloatArray, *, limit: int) -> "Summands":
        """Split a table.

        Args:
            table: Rows × columns, finite.
            limit: The largest sum of the sizes of one weighting's weights.
        """
        high = coarse(table, limit=limit)
        low = coarse(table - high, limit=limit)
        rough = np.asarray(low.any(axis=0))
        return cls(np.concatenate([high, low[:, rough]], axis=1), rough)

    def weighted_sums(self, weights: FloatArray) -> FloatArray:
        """The columns' sums under each row of whole-numbered weights.

        Args:
            weights: Weightings × rows of the table; whole numbers.

        Returns:
            Weightings × columns: the exact sums of the two parts, added with one rounding. What
            the parts leave out of a number is below `4 * limit**2 / 2**104` of its column's
            largest.
        """
        return self.add_low_parts(weights @ self.parts)

    def add_low_parts(self, sums: FloatArray) -> FloatArray:
        """Add the low parts' sums to those of the high parts; changes `sums`."""
        columns = len(self.rough)
        sums[:, :columns][:, self.rough] += sums[:, columns:]
        return sums[:, :columns]


def coarse(table: FloatArray, *, limit: int) -> FloatArray:
    """Round each column to a power of two at which sums of `limit` of its numbers are exact."""
    largest = np.abs(table).max(axis=0, initial=0.0)
    exponent = np.frexp(largest)[1] + int(limit).bit_length() - DIGITS
    unit = np.ldexp(1.0, np.maximum(exponent, -1074))  # no number is finer than 2^-1074
    rounded: FloatArray = np.rint(table / unit) * unit
    return rounded
