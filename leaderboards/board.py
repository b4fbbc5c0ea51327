"""A board: the rows of many runs, in one table for each set of comparable runs (`ranked_table`)."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import HarnessError, StoreError, counted
from harness.leaderboards.definitions import Definition
from harness.leaderboards.grid import Grid, LeftOff, grid
from harness.leaderboards.naming import names, stored_method
from harness.leaderboards.published_results import fault_of_data, is_benchmark, published_rows
from harness.leaderboards.ranked_table import LEVEL, Key, Table, key, metric_names, table
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import odd_record, open_runs, refusals
from harness.provenance import is_rehearsal
from harness.record import MANIFEST, SCORES, Run
from harness.store.atomic import read_json

REHEARSED = "REHEARSAL (stand-ins with random weights; no number means anything)"
OTHER_DATA = (
    "Another table has the same title: its runs read other annotations or other samples than "
    "those of {}, so the two are not ranked together."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A run that is named on a board and counted nowhere, for its record cannot be believed."""

    run: str
    """Name of the run folder."""
    model: str
    """Name by its manifest; empty, as the task is, where that cannot be read."""
    task: str
    reason: str

    @classmethod
    def of(cls, folder: Path, error: HarnessError) -> "Refused":
        """Describe a refused run, without the way to its folder."""
        words = {"model": "", "task": ""}
        with suppress(StoreError, TypeError, KeyError):
            manifest = read_json(folder / MANIFEST)
            words = {key: str(manifest[key]["name"]) for key in words}
        name = folder.resolve().name
        return cls(run=name, **words, reason=str(error).replace(str(folder), name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Tables, in the order of their titles."""

    title: str
    level: float
    """Level of every interval of a difference."""
    tables: tuple[Table, ...]
    grid: Grid | None = None
    """The table of a paper that the board is of."""
    refused: tuple[Refused, ...] = ()
    left_off: tuple[LeftOff, ...] = ()
    """Runs that are in no cell of the paper's table."""


def build(
    folders: Path | Iterable[Path],
    *,
    title: str = "Leaderboard",
    data_root: Path | None = None,
    published: bool = True,
    definition: Definition | None = None,
    names_refused: bool = False,
) -> Board:
    """Build a board from run folders, or from folders that hold some.

    Runs that are not finished are left out; `record.unfinished_below` lists them.

    Args:
        folders: Where finished runs lie.
        title: The board's heading.
        data_root: Where the benchmarks lie now, if not where the runs read them.
        published: Whether tables of a benchmark hold the rows that papers print of it.
        definition: The board to build: runs that are in none of its cells are left off.
        names_refused: Put runs whose records are not as they should be into `Board.refused`, and
            build the board of the others; else the first of them is raised.

    Raises:
        StoreError: there is no finished run, or a record is not as it should be.
    """
    grouped: dict[Key, list[tuple[Run, Row]]] = {}
    refused: dict[Path, StoreError] | None = {} if names_refused else None
    left_off: list[LeftOff] = []
    read: list[tuple[Run, Row]] = []
    for run in open_runs(folders, skips_unfinished=True, refused=refused):
        # A run whose ground truth the organisers keep is finished without scores.
        if (run.folder / SCORES).is_file():
            with refusals(run.folder, refused):
                run_row = row(run)
                of_benchmark = published and is_benchmark(run, run_row)
                read.append((run, replace(run_row, of_benchmark=of_benchmark)))
    read = _without_collisions(read, refused)
    if definition is not None:
        title = definition.heading
        reasons = [LeftOff.of(definition, run_row) for _, run_row in read]
        left_off = [reason for reason in reasons if reason is not None]
        read = [pair for pair, reason in zip(read, reasons, strict=True) if reason is None]
    named = names([run_row for _, run_row in read], [key(run_row) for _, run_row in read])
    for (run, run_row), name in zip(read, named, strict=True):
        grouped.setdefault(key(run_row), []).append((run, replace(run_row, name=name)))
    tables = [
        board_table
        for _, members in sorted(grouped.items(), key=lambda item: item[0])
        if (board_table := _believed(members, data_root, refused)) is not None
    ]
    if published:
        tables = list(map(_with_note_on_papers, tables))
    entries = [entry for board_table in tables for entry in board_table.entries]
    return Board(
        title=f"{REHEARSED}: {title}" if is_rehearsal() else title,
        level=LEVEL,
        tables=tuple(_name_twins(tables)),
        grid=None
        if definition is None
        else grid(
            definition, [entry.row for entry in entries], [entry.unit_values for entry in entries]
        ),
        refused=tuple(Refused.of(folder, error) for folder, error in (refused or {}).items()),
        left_off=tuple(left_off),
    )


def _with_note_on_papers(table: Table) -> Table:
    """Return a table that says why published rows of its split are left out, if some are."""
    entry = table.entries[0]
    first = entry.row
    left_out = () if table.published else published_rows(first, metric_names(first))
    if not left_out:
        return table
    reason = fault_of_data(Run(entry.folder), first) or f"{first.subset} is a part of the split"
    note = f"{counted(len(left_out), 'row')} of papers left out: {reason}."
    return replace(table, notes=(*table.notes, note))


def _without_collisions(
    read: Sequence[tuple[Run, Row]], refused: dict[Path, StoreError] | None
) -> list[tuple[Run, Row]]:
    """Refuse runs of predictions that have one name in one table.

    Predictions are one method if their names are equal, so that nobody knows which run counts.
    """
    same: dict[tuple[Key, str, str | None], list[Path]] = {}
    for run, row_ in read:
        same.setdefault((key(row_), row_.model, stored_method(row_)), []).append(run.folder)
    kept: list[tuple[Run, Row]] = []
    for run, row_ in read:
        method = stored_method(row_)
        folders = same[key(row_), row_.model, method]
        with refusals(run.folder, refused):
            if method is not None and len(folders) > 1:
                raise StoreError(
                    f"run {run.folder}",
                    expected=f"one run of the predictions {row_.model!r} in a table",
                    found=" and ".join(_told_apart(folders)),
                    fix="Score one of them under another --name, or take one of them away.",
                )
            kept.append((run, row_))
    return kept


def _told_apart(folders: Sequence[Path]) -> list[str]:
    """Return the parts of folders' paths that differ, as nothing above them is published."""
    whole = [folder.absolute() for folder in folders]
    shared = os.path.commonpath(whole)
    return [os.path.relpath(folder, shared) for folder in whole]


def _name_twins(tables: Sequence[Table]) -> list[Table]:
    """Add a note to tables that differ in nothing but their data."""
    counts = Counter(map(_shown_as, tables))
    return [
        replace(board_table, notes=(*board_table.notes, OTHER_DATA.format(board_table.data[:12])))
        if counts[_shown_as(board_table)] > 1
        else board_table
        for board_table in tables
    ]


def _shown_as(board_table: Table) -> tuple[str, int, str, str | None]:
    return board_table.title, board_table.task_version, board_table.protocol, board_table.judge


def _believed(
    members: Sequence[tuple[Run, Row]],
    data_root: Path | None,
    refused: dict[Path, StoreError] | None,
) -> Table | None:
    """Return the table of the runs that do not fail it, alone or together; the others are refused.

    Raises:
        Exception: whatever an odd record leads to, if there is no such list (`open_runs`).
    """
    while members:
        try:
            return table(members, data_root=data_root, refused=refused)
        except Exception as error:
            if refused is None:
                raise
            for run, run_row in members:
                with refusals(run.folder, refused):
                    table([(run, run_row)], data_root=data_root)
            left = [member for member in members if member[0].folder not in refused]
            if len(left) == len(members):  # each alone is well
                folder = left.pop()[0].folder
                refused[folder] = odd_record(folder, error)
            members = left
    return None
