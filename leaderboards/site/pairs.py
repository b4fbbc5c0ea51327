"""Paired comparisons of all rows of a table, for the page of a site that shows two of them."""

from dataclasses import replace
from typing import Any

from harness.leaderboards.differences.changed import answer_changes
from harness.leaderboards.ranked_table import Table, comparer
from harness.statistics.paired import Comparison

MAX_ROWS = 25
"""Largest number of rows that are compared, the best ones: 300 pairs."""
MAX_SAMPLES = 500_000
"""Largest number of samples of all pairs together, about a minute's work; of larger tables fewer
rows are compared."""


def pairs(table: Table) -> dict[str, dict[str, Any]]:
    """Return the comparison of each pair of rows, both ways; key `2-5`: row 2 is A, row 5 is B."""
    rows = range(compared_rows(table))
    units = [tuple(table.entries[index].run.units()) for index in rows]
    runs = [table.entries[index].run for index in rows]
    compare = comparer(table.scoring, units.__getitem__, name=table.headline, notes=[])
    differences: dict[str, dict[str, Any]] = {}
    for b in rows:
        for a in range(b):
            comparison = compare(a, b)
            if comparison is not None:
                for first, second, result in ((a, b, comparison), (b, a, _reversed(comparison))):
                    changes = answer_changes(runs[first], runs[second])
                    differences[f"{first}-{second}"] = {**_plain(result), "changed": changes}
    return differences


def compared_rows(table: Table) -> int:
    """Return the number of rows that are compared, two or more."""
    samples = max((entry.row.n_total for entry in table.entries), default=0)
    count = min(len(table.entries), MAX_ROWS)
    while count > 2 and count * (count - 1) // 2 * samples > MAX_SAMPLES:
        count -= 1
    return count


def _plain(comparison: Comparison) -> dict[str, Any]:
    return {
        "verdict": comparison.verdict(),
        "difference": comparison.difference,
        "interval": comparison.interval,
        "p_value": comparison.p_value,
    }


def _reversed(comparison: Comparison) -> Comparison:
    """Return the comparison of the same runs with A and B exchanged."""
    difference, interval = comparison.difference, comparison.interval
    return replace(
        comparison,
        a=comparison.b,
        b=comparison.a,
        difference=None if difference is None else -difference,
        interval=None if interval is None else (-interval[1], -interval[0]),
    )
