"""Ranks that are shared until a difference is shown.

Rows are walked from the best number down. Rank 1 is shared by all rows that are not shown to be
worse than the best, so that it can be read off their differences to the best. Of the others, a row
shares the rank of the first row of the rank above it until it is shown to be worse than that one;
then it starts the next rank, numbered by its place. "Shown" means: the paired test of the
difference says so (`Comparison.is_worse`), by its p value and by its interval, which agree. Where
rows cannot be paired, their own intervals must not overlap; where there are none, nothing is shown.
Each comparison stands at its own level; nothing is corrected for their number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.leaderboards.row import Row
from harness.statistics.paired import Comparison

Basis: TypeAlias = Literal["paired", "intervals", "untested"]
Compare: TypeAlias = Callable[[int, int], Comparison | None]
"""Compares row b with row a by their indices; None if they cannot be paired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    """Rank of one row."""

    index: int
    rank: int | None
    """Rank from 1; None for a row without a number."""
    basis: Basis | None
    """Test that decided whether it shares rank 1 or the rank above it; None for the best."""
    to_best: Comparison | None
    """Comparison with the best row; None for the best, and where they cannot be paired."""


def rank(rows: Sequence[Row], compare: Compare) -> list[RankedRow]:
    """The places of rows of one table, best first; rows without a number come last."""
    order = sorted(range(len(rows)), key=lambda index: (-rows[index].quality, rows[index].run))
    places: list[RankedRow] = []
    leader = order[0] if order else 0
    current = 1
    for position, index in enumerate(order, start=1):
        to_best: Comparison | None = None
        basis: Basis | None = None
        shares_first = True
        if position > 1:
            to_best = compare(order[0], index)
            worse, basis = shown_worse(rows[order[0]], rows[index], to_best)
            shares_first = not worse
            if worse and leader != order[0]:
                worse, basis = shown_worse(rows[leader], rows[index], compare(leader, index))
            if worse:
                leader, current = index, position
        places.append(
            RankedRow(
                index=index,
                rank=None if rows[index].value is None else 1 if shares_first else current,
                basis=basis,
                to_best=to_best,
            )
        )
    return places


def shown_worse(leader: Row, row: Row, comparison: Comparison | None) -> tuple[bool, Basis]:
    """Return True if `row` is shown to be worse than `leader`, and the test that decided."""
    if comparison is not None and comparison.interval is not None:
        return comparison.is_worse, "paired"
    if leader.interval is not None and row.interval is not None:
        if leader.better[leader.headline] == "higher":
            return row.interval[1] < leader.interval[0], "intervals"
        return row.interval[0] > leader.interval[1], "intervals"
    return False, "untested"
