"""Names of tables in links."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.leaderboards.ranked_table import Table
from harness.leaderboards.row import Row

WHOLE = "all"
"""Stands for the whole split, where other tables have their subset."""


def key(table: Table | Row) -> str:
    """Return the name of a table in links: all that its rows have in common, and nothing else.

    So a link stays as it is whatever other tables come and go. Links of earlier versions had fewer
    of these words, in the same order; the front end finds their table by them.
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
    """Return the names of tables in links, with a number after a name that others have too."""
    counts: Counter[str] = Counter()
    names = []
    for name in map(key, tables):
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name}.{counts[name]}")
    return names


def _words(parts: Iterable[str | None]) -> list[str]:
    return [re.sub(r"[^\w-]+", "-", part).strip("-") for part in parts if part]
