"""How many requests fit into memory at once: found out by trying, and kept from call to call."""

from dataclasses import dataclass

CLEAN = 8  # calls that fit, after which more is tried again: what comes may be shorter


@dataclass
class Room:
    """Fewer after a batch that did not fit; twice as many after some calls that did.

    >>> room = Room(most=8, rows=8)
    >>> room.keep(4)
    >>> for _ in range(CLEAN): room.grow()
    >>> room.rows
    8
    """

    most: int
    rows: int
    fitted: int = 0

    def keep(self, rows: int) -> None:
        """Twice as many did not fit."""
        self.rows, self.fitted = rows, 0

    def grow(self) -> None:
        """All of a call of at least `rows` fitted."""
        self.fitted += 1
        if self.fitted >= CLEAN:
            self.rows, self.fitted = min(self.most, 2 * self.rows), 0
