"""Links from a board's files to the trainings behind its rows."""

import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from harness.leaderboards.board import Board
from harness.leaderboards.ranked_table import Entry
from harness.run.checkpoint_provenance import INSIDE, MANIFEST
from harness.trainer import CHECKPOINT

PAGES = ("rollouts.html", MANIFEST, f"{CHECKPOINT}/{INSIDE}", INSIDE)
"""Files that a training is linked by; the first that it has counts: the page of its rollouts, from
`harness explain`, or the folder's own records."""


def with_relative_links(board: Board, out: Path) -> Board:
    """The board with links that hold in files of folder `out`."""
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
    """A relative URL from folder `out` to the page of a training; None if it must not have one.

    Who publishes a board publishes its folder, or that with its neighbours. So links go to files in
    `out`, in a folder beside it, or below such; symbolic links are resolved first. A link farther
    away would be broken, and reveal the names of the machine's folders.
    """
    here = out.resolve()
    tree = here.parent if here.parent != Path(here.anchor) else here
    for name in PAGES:
        path = (training / name).resolve()
        if path.is_file():
            inside = path.is_relative_to(tree)
            return quote(os.fsencode(os.path.relpath(path, here))) if inside else None
    return None
