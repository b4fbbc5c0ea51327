"""Rank the rows of one table; rows share a rank until a difference between them is significant.

Rows are walked from the best number down. All rows that are not significantly worse than the best
share rank 1. A later row shares the current rank unless it is significantly worse than the first
row of that rank (the leader); then it leads a new rank, numbered by its position. The paired test
decides (`Comparison.is_worse`). Rows that cannot be paired differ if their own intervals do not
overlap; without intervals no difference is shown. p is not corrected for the number of comparisons.
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
    """Index of the row in the sequence that was ranked."""
    rank: int | None
    """Rank from 1; None for a row without a number."""
    basis: Basis | None
    """Test that decided whether it shares rank 1 or its leader's rank; None for the best."""
    to_best: Comparison | None
    """Comparison with the best row; None for the best row, and if the two cannot be paired."""


def rank(rows: Sequence[Row], compare: Compare) -> list[RankedRow]:
    """Return the rows of one table with their ranks, best first; rows without a number come last.

    Args:
        rows: The rows, in any order.
        compare: Paired test of two rows, by their indices.
    """
    order = sorted(range(len(rows)), key=lambda index: (-rows[index].quality, rows[index].run))
    ranked: list[RankedRow] = []
    best = leader = order[0] if order else 0
    leader_rank = 1
    for position, index in enumerate(order, start=1):
        to_best: Comparison | None = None
        basis: Basis | None = None
        row_rank: int | None = 1
        if position > 1:
            to_best = compare(best, index)
            worse, basis = shown_worse(rows[best], rows[index], to_best)
            worse_than_best = worse
            if worse and leader != best:
                worse, basis = shown_worse(rows[leader], rows[index], compare(leader, index))
            if worse:
                leader, leader_rank = index, position
            if worse_than_best:
                row_rank = leader_rank
        if rows[index].value is None:
            row_rank = None
        ranked.append(RankedRow(index=index, rank=row_rank, basis=basis, to_best=to_best))
    return ranked


def shown_worse(leader: Row, row: Row, comparison: Comparison | None) -> tuple[bool, Basis]:
    """Return True if `row` is shown to be worse than `leader`, and the test that decided."""
    if comparison is not None and comparison.interval is not None:
        return comparison.is_worse, "paired"
    if leader.interval is not None and row.interval is not None:
        if leader.better[leader.headline] == "higher":
            return row.interval[1] < leader.interval[0], "intervals"
        return row.interval[0] > leader.interval[1], "intervals"
    return False, "untested"
