"""How many requests fit into memory at once: found out by trying, and kept from call to call."""

from dataclasses import dataclass

CLEAN = 8  # calls that fit, after which more is tried again: what comes may be shorter


@dataclass
class Room:
    """Half as many after a batch that did not fit; twice as many after some calls that did.

    >>> room = Room(most=8, rows=8)
    >>> room.halve(8)
    >>> for _ in range(CLEAN): room.grow()
    >>> room.rows
    8
    """

    most: int
    rows: int
    fitted: int = 0

    def halve(self, size: int) -> None:
        """A batch of `size`, above 1, did not fit."""
        self.rows, self.fitted = size // 2, 0

    def grow(self) -> None:
        """All of a call fitted."""
        self.fitted += 1
        if self.fitted >= CLEAN:
            self.rows, self.fitted = min(self.most, 2 * self.rows), 0
