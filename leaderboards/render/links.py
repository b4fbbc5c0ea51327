"""Add links from a board's files to the trainings of its rows' checkpoints."""

import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from harness.leaderboards.board import Board
from harness.leaderboards.ranked_table import Entry
from harness.run.checkpoint_provenance import INSIDE, MANIFEST
from harness.trainer import CHECKPOINT

PAGES = ("rollouts.html", MANIFEST, f"{CHECKPOINT}/{INSIDE}", INSIDE)
"""Files of a training that a link may point to, the first that exists: the page of its rollouts
(made by `harness explain`), or the folder's own records."""


def with_relative_links(board: Board, out: Path) -> Board:
    """Return the board with links that are relative to folder `out`."""
    tables = [
        replace(table, entries=tuple(_link_entry(entry, out) for entry in table.entries))
        for table in board.tables
    ]
    return replace(board, tables=tuple(tables))


def _link_entry(entry: Entry, out: Path) -> Entry:
    training = entry.row.training
    if training is None or training.place is None:
        return entry
    row = replace(entry.row, training=replace(training, link=link(training.place, out)))
    return replace(entry, row=row)


def link(training: Path, out: Path) -> str | None:
    """Return a quoted relative URL from folder `out` to the page of a training; None if not inside.

    A board is published as its folder, or as that with its neighbours. So the page must lie below
    `out` or its parent; symbolic links are resolved first. A link farther away would be broken, and
    reveal the names of the machine's folders.
    """
    base = out.resolve()
    published = base.parent if base.parent != Path(base.anchor) else base
    for name in PAGES:
        path = (training / name).resolve()
        if path.is_file():
            is_inside = path.is_relative_to(published)
            return quote(os.fsencode(os.path.relpath(path, base))) if is_inside else None
    return None
