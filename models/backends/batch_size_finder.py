"""Number of requests that fit into memory at once: found by trying, and kept from call to call."""

from dataclasses import dataclass

CLEAN = 8  # calls that fit, after which more is tried again: what comes may be shorter


@dataclass
class BatchSizeFinder:
    """Number of rows: fewer after a batch that did not fit, twice as many after calls that did.

    >>> room = BatchSizeFinder(max_size=8, rows=8)
    >>> room.keep(4)
    >>> for _ in range(CLEAN): room.grow()
    >>> room.rows
    8
    """

    max_size: int
    rows: int
    fitted: int = 0

    def keep(self, rows: int) -> None:
        """Set the number of rows after twice as many did not fit."""
        self.rows, self.fitted = rows, 0

    def grow(self) -> None:
        """Count a call of at least `rows` requests that fitted; after `CLEAN` calls, allow more."""
        self.fitted += 1
        if self.fitted >= CLEAN:
            self.rows, self.fitted = min(self.max_size, 2 * self.rows), 0
