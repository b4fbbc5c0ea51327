"""Find by trying how many requests fit into memory at once, over the calls of a backend."""

from dataclasses import dataclass

MIN_FITTED = 8
"""After so many calls that fit, more rows are tried, because requests may be shorter now."""


@dataclass
class BatchSizeFinder:
    """The number of rows: reduced if a batch does not fit, doubled after `MIN_FITTED` calls did.

    >>> room = BatchSizeFinder(max_size=8, rows=8)
    >>> room.keep(4)
    >>> for _ in range(MIN_FITTED): room.grow()
    >>> room.rows
    8
    """

    max_size: int
    """Largest number of rows: the backend's batch size."""
    rows: int
    """Number of rows to use now."""
    fitted: int = 0
    """Successive calls that fitted."""

    def keep(self, rows: int) -> None:
        """Set the number of rows after twice as many did not fit."""
        self.rows, self.fitted = rows, 0

    def grow(self) -> None:
        """Count a call of at least `rows` requests that fitted; after `MIN_FITTED`, allow more."""
        self.fitted += 1
        if self.fitted >= MIN_FITTED:
            self.rows, self.fitted = min(self.max_size, 2 * self.rows), 0
