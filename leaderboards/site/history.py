"""Series of runs of one model over commits, and the significant changes (steps) in them.

Each run is compared with the first run since the last step, by the paired test that ranks rows
(`statistics.paired`). A significant difference is a step. `1 - LEVEL` is divided by the number of
comparisons, so that a series without a change shows a step in at most 5 % of cases.
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
    """Find the steps in a series.

    Args:
        count: Number of runs.
        compare: Paired test of two runs, by their places in the order of time.

    Yields:
        The place of the reference (the first run since the step before), the place of the first run
        after the step, and their comparison.
    """
    reference = 0
    for index in range(1, count):
        comparison = compare(reference, index)
        p = None if comparison is None else comparison.p_value
        if comparison is not None and p is not None and p <= (1 - LEVEL) / (count - 1):
            yield reference, index, comparison
            reference = index


def history(table: Table) -> list[dict[str, Any]]:
    """Return the series of a table as plain data for the front end (docs/design/site.md).

    A series has the runs of one SPEC, if they are of several commits.
    """
    by_spec: dict[str, list[int]] = {}
    for index, entry in enumerate(table.entries):
        by_spec.setdefault(entry.row.model_spec, []).append(index)
    all_series = []
    for indices in by_spec.values():
        if len({table.entries[index].row.commit for index in indices}) > 1:
            indices.sort(key=lambda index: (ended(table.entries[index].folder), index))
            all_series.append(_series(table, indices))
    return all_series


def ended(folder: Path) -> float:
    """Return the time at which a run ended, in seconds since 1970.

    If it is not recorded (earlier versions, copies), it is the time of `results.json`.
    """
    with suppress(StoreError, OSError, TypeError, KeyError, ValueError, AttributeError, IndexError):
        return float(Run(folder).timing["attempts"][-1]["ended"])
    return (folder / RESULTS).stat().st_mtime


def _series(table: Table, indices: Sequence[int]) -> dict[str, Any]:
    """Return the history of one model: its runs in order, and tests of each change of score."""
    entries = [table.entries[index] for index in indices]
    units = [tuple(entry.run.units()) for entry in entries]
    compare = comparer(table.scoring, units.__getitem__, name=table.headline, notes=[])
    return {
        "spec": entries[0].row.model_spec,
        "model": entries[0].row.model,
        "points": [_point(entry, index) for entry, index in zip(entries, indices, strict=True)],
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


def _point(entry: Entry, index: int) -> dict[str, Any]:
    row = entry.row
    return {
        "row": index,
        "commit": row.commit,
        "dirty": row.dirty,
        "ended": round(ended(entry.folder)),
        "value": row.value,
        "interval": row.interval,
    }
