"""Comparisons of the rows of a table with each other, for the page that shows two of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.leaderboards.ranked_table import Table, comparer
from harness.record import Run
from harness.statistics.paired import Comparison

MAX_ROWS = 25
"""Rows that are compared with each other, the best first: 300 pairs."""
MAX_SAMPLES = 500_000
"""Samples of all pairs of a table together, about a minute's work; of larger tables fewer rows are
compared."""


def pairs(table: Table) -> dict[str, dict[str, Any]]:
    """Return what each pair of rows differs by; the key `2-5` is of row 2 (A) and row 5 (B)."""
    rows = range(compared_rows(table))
    units = [tuple(Run(table.entries[place].folder).units()) for place in rows]
    compare = comparer(table.scoring, units, name=table.headline, notes=[])
    comparisons = ((a, b, compare(a, b)) for b in rows for a in range(b))
    return {
        name: shown
        for a, b, comparison in comparisons
        if comparison is not None
        for name, shown in _both(a, b, comparison)
    }


def compared_rows(table: Table) -> int:
    """Return the number of rows that are compared, two or more."""
    samples = max((entry.row.n_total for entry in table.entries), default=0)
    count = min(len(table.entries), MAX_ROWS)
    while count > 2 and count * (count - 1) // 2 * samples > MAX_SAMPLES:
        count -= 1
    return count


def _both(a: int, b: int, comparison: Comparison) -> Iterator[tuple[str, dict[str, Any]]]:
    yield f"{a}-{b}", _plain(comparison)
    yield f"{b}-{a}", _plain(_turned(comparison))


def _plain(comparison: Comparison) -> dict[str, Any]:
    return {
        "verdict": comparison.verdict(),
        "difference": comparison.difference,
        "interval": comparison.interval,
        "p_value": comparison.p_value,
    }


def _turned(comparison: Comparison) -> Comparison:
    """Return the comparison of the same runs, each in the other's place."""
    difference, interval = comparison.difference, comparison.interval
    return replace(
        comparison,
        a=comparison.b,
        b=comparison.a,
        difference=None if difference is None else -difference,
        interval=None if interval is None else (-interval[1], -interval[0]),
    )
