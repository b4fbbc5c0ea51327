"""Names of tables in links to a site, such as `reason_seg.val.seg-lisa.v1.all.1a2b3c4d`."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.leaderboards.ranked_table import Table
from harness.leaderboards.row import Row

WHOLE = "all"
"""Replaces the subset in the name of a table of all samples."""


def key(table: Table | Row) -> str:
    """Return the name of a table: the properties that its rows share, joined by dots.

    It does not depend on other tables, so that links stay valid. Links of earlier versions had
    fewer of these properties in the same order; the front end still finds their table.
    """
    return ".".join(
        _words(
            (
                *(table.task, table.split, table.protocol, f"v{table.task_version}"),
                *(table.subset or WHOLE, table.judge, table.data[:8]),
            )
        )
    )


def keys(tables: Sequence[Table | Row]) -> list[str]:
    """Return the names of tables, with `.2`, `.3`, … after a name that earlier tables have."""
    n_by_name: Counter[str] = Counter()
    names = []
    for name in map(key, tables):
        n_by_name[name] += 1
        names.append(name if n_by_name[name] == 1 else f"{name}.{n_by_name[name]}")
    return names


def _words(phrases: Iterable[str | None]) -> list[str]:
    """Return the phrases that are not empty, with `-` for spaces and punctuation."""
    return [re.sub(r"[^\w-]+", "-", phrase).strip("-") for phrase in phrases if phrase]
