"""Series of runs of one model over commits, and the steps in them.

A run is compared with the first run of the current level, by the paired test that ranks rows
(`statistics.paired`). Where the difference is shown, a new level begins: a step. The test's level
is divided by the number of comparisons in the series, so that a series without a change shows a
step in at most 5 % of cases, however long it is.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.leaderboards.ranked_table import LEVEL, Entry, Table, comparer
from harness.leaderboards.ranking import Compare
from harness.record import RESULTS, Run
from harness.statistics.paired import Comparison


def steps(count: int, compare: Compare) -> Iterator[tuple[int, int, Comparison]]:
    """Find the changes in a series that are shown.

    `compare` compares the second run with the first, by their places in the order of time.

    Yields:
        Places of the first run of the level before and of the first after the change, and their
        comparison.
    """
    since = 0
    for at in range(1, count):
        comparison = compare(since, at)
        p = None if comparison is None else comparison.p_value
        if comparison is not None and p is not None and p <= (1 - LEVEL) / (count - 1):
            yield since, at, comparison
            since = at


def history(table: Table) -> list[dict[str, Any]]:
    """Return the series of a table as plain data for the front end: see docs/design/site.md."""
    by_spec: dict[str, list[int]] = {}
    for place, entry in enumerate(table.entries):
        by_spec.setdefault(entry.row.model_spec, []).append(place)
    return [
        _series(
            table, sorted(places, key=lambda place: (ended(table.entries[place].folder), place))
        )
        for places in by_spec.values()
        if len({table.entries[place].row.commit for place in places}) > 1
    ]


def ended(folder: Path) -> float:
    """Return the time at which a run ended, in seconds since 1970.

    Runs of earlier versions, and copies, have the time at which their numbers were written.
    """
    with suppress(StoreError, OSError, TypeError, KeyError, ValueError, AttributeError, IndexError):
        return float(Run(folder).timing["attempts"][-1]["ended"])
    return (folder / RESULTS).stat().st_mtime


def _series(table: Table, places: Sequence[int]) -> dict[str, Any]:
    entries = [table.entries[place] for place in places]
    units = [tuple(Run(entry.folder).units()) for entry in entries]
    compare = comparer(table.scoring, units, name=table.headline, notes=[])
    return {
        "spec": entries[0].row.model_spec,
        "model": entries[0].row.model,
        "points": [_point(entry, place) for entry, place in zip(entries, places, strict=True)],
        "steps": [
            {
                "at": at,
                "since": since,
                "difference": comparison.difference,
                "interval": comparison.interval,
                "p_value": comparison.p_value,
                "worse": comparison.is_worse,
            }
            for since, at, comparison in steps(len(entries), compare)
        ],
    }


def _point(entry: Entry, place: int) -> dict[str, Any]:
    row = entry.row
    return {
        "row": place,
        "commit": row.commit,
        "dirty": row.dirty,
        "ended": round(ended(entry.folder)),
        "value": row.value,
        "interval": row.interval,
    }
