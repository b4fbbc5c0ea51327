"""Names of tables in links."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.leaderboards.board import Table
from harness.leaderboards.row import Row


def keys(tables: Sequence[Table | Row]) -> list[str]:
    """Return the names of tables in links, which say more where fewer words would fit two.

    A link thus stays as it is when other tables come and go, unless they are its twins.
    """
    steps = (
        lambda table: (table.task, table.split, table.protocol),
        lambda table: (f"v{table.task_version}", table.subset, table.judge),
        lambda table: (table.data[:8],),
    )
    found = [""] * len(tables)
    for step in steps:
        counts = Counter(found)
        for place, table in enumerate(tables):
            if not found[place] or counts[found[place]] > 1:
                found[place] = ".".join([*filter(None, [found[place]]), *_words(step(table))])
    counts = Counter(found)
    return [key if counts[key] == 1 else f"{key}.{place}" for place, key in enumerate(found)]


def _words(parts: Iterable[str | None]) -> list[str]:
    return [re.sub(r"[^\w-]+", "-", part).strip("-") for part in parts if part]
