"""Build a board: the rows of many runs, in one table for each set of comparable runs.

`build` reads finished run folders and returns a `Board`, which `render` and `site` write out as
Markdown, JSON and pages. `row` reduces each run, `ranked_table` ranks each table, and `grid` adds
the table of a paper if the board has a `Definition`.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import HarnessError, StoreError
from harness.leaderboards.collection import without_collection
from harness.leaderboards.column_metrics import check_metrics
from harness.leaderboards.definitions import Definition
from harness.leaderboards.formatting import older_scorer_note
from harness.leaderboards.grid import Grid, LeftOff, grid
from harness.leaderboards.history.known import KnownValues
from harness.leaderboards.naming import names, stored_method
from harness.leaderboards.published_results import is_benchmark, note_on_left_out, published_rows
from harness.leaderboards.ranked_table import LEVEL, Key, Table, key, metric_names, table
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import odd_record, open_runs, refusals
from harness.provenance import is_rehearsal
from harness.record import MANIFEST, SCORES, Run
from harness.store.atomic import read_json

REHEARSAL_TITLE = "REHEARSAL (stand-ins with random weights; no number means anything)"
OTHER_DATA_NOTE = (
    "Another table has the same title: its runs read other annotations or other samples than "
    "those of {}, so the two are not ranked together."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A run whose record is damaged or contradicts itself: a board names it, no table ranks it."""

    run: str
    """Name of the run folder."""
    model: str
    """Name by its manifest; empty, as the task is, where that cannot be read."""
    task: str
    reason: str
    """The error's text, with the folder's name in place of its path."""

    @classmethod
    def of(cls, folder: Path, error: HarnessError) -> "Refused":
        """Describe a refused run; the path of its folder is left out, for boards are published."""
        recorded = {"model": "", "task": ""}
        with suppress(StoreError, TypeError, KeyError):
            manifest = read_json(folder / MANIFEST)
            recorded = {name: str(manifest[name]["name"]) for name in recorded}
        run_name = folder.resolve().name
        return cls(run=run_name, **recorded, reason=str(error).replace(str(folder), run_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Ranked tables, in the order of their titles."""

    title: str
    level: float
    """Confidence level of every interval of a difference, such as 0.95."""
    tables: tuple[Table, ...]
    grid: Grid | None = None
    """The paper's table with measured numbers; None for a board without a definition."""
    refused: tuple[Refused, ...] = ()
    left_off: tuple[LeftOff, ...] = ()
    """Runs that fit no cell of the paper's table."""

    @property
    def notes_on_older_scorers(self) -> list[str]:
        """A note on each table with numbers of an older scorer."""
        rows = ([entry.row for entry in board_table.entries] for board_table in self.tables)
        return list(filter(None, map(older_scorer_note, rows)))


@without_collection()
def build(
    folders: Path | Iterable[Path],
    *,
    title: str = "Leaderboard",
    data_root: Path | None = None,
    published: bool = True,
    definition: Definition | None = None,
    names_refused: bool = False,
    index: KnownValues | None = None,
) -> Board:
    """Build a board from run folders, or from folders that hold some.

    Runs that are not finished are left out; `record.unfinished_below` lists them.

    Args:
        folders: Where finished runs lie.
        title: The board's heading.
        data_root: Where the benchmarks lie now, if not where the runs read them.
        published: Add the rows that papers print of a benchmark to its tables.
        definition: The board to build: runs that fit none of its cells are left off.
        names_refused: Put runs with an invalid record into `Board.refused` and build the board of
            the others; otherwise the error of the first such run is raised.
        index: Cache of values computed from runs, reused for runs that have not changed.

    Raises:
        StoreError: there is no finished run, or a record is invalid and `names_refused` is False.
    """
    grouped: dict[Key, list[tuple[Run, Row]]] = {}
    refused: dict[Path, StoreError] | None = {} if names_refused else None
    left_off: list[LeftOff] = []
    read: list[tuple[Run, Row]] = []
    of_benchmark: dict[object, bool] = {}
    for run in open_runs(folders, skips_unfinished=True, refused=refused, index=index):
        # A run whose ground truth the organisers keep is finished without scores.
        if (run.folder / SCORES).is_file():
            with refusals(run.folder, refused):
                run_row = row(run)
                # Runs with equal `data` read the same samples: the benchmark is checked once.
                arguments = run.manifest["task"].get("arguments")
                data = run.manifest["data"]["root"], repr(arguments), run_row.n_total, key(run_row)
                if data not in of_benchmark:
                    of_benchmark[data] = published and is_benchmark(run, run_row)
                if of_benchmark[data]:
                    run_row = replace(run_row, of_benchmark=True)
                read.append((run, run_row))
    read = _without_collisions(read, refused)
    if definition is not None:
        check_metrics(definition, [run_row for _, run_row in read])
        title = definition.heading
        reasons = [LeftOff.of(definition, run_row) for _, run_row in read]
        left_off = [reason for reason in reasons if reason is not None]
        read = [pair for pair, reason in zip(read, reasons, strict=True) if reason is None]
    unique_names = names([run_row for _, run_row in read], [key(run_row) for _, run_row in read])
    for (run, run_row), name in zip(read, unique_names, strict=True):
        if name != run_row.name:
            run_row = replace(run_row, name=name)
        grouped.setdefault(key(run_row), []).append((run, run_row))
    tables = [
        board_table
        for _, members in sorted(grouped.items(), key=lambda item: item[0])
        if (board_table := _table_of_valid(members, data_root, refused, index)) is not None
    ]
    if published:
        tables = list(map(_with_note_on_papers, tables))
    entries = [entry for board_table in tables for entry in board_table.entries]
    return Board(
        title=f"{REHEARSAL_TITLE}: {title}" if is_rehearsal() else title,
        level=LEVEL,
        tables=tuple(_with_notes_on_other_data(tables)),
        grid=None
        if definition is None
        else grid(
            definition, [entry.row for entry in entries], [entry.unit_values for entry in entries]
        ),
        refused=tuple(Refused.of(folder, error) for folder, error in (refused or {}).items()),
        left_off=tuple(left_off),
    )


def _with_note_on_papers(board_table: Table) -> Table:
    """Add a note to a table that lacks the published rows of its split: why they are left out."""
    entry = board_table.entries[0]
    first = entry.row
    left_out = () if board_table.published else published_rows(first, metric_names(first))
    if not left_out:
        return board_table
    note = note_on_left_out(entry.run, first, len(left_out))
    return replace(board_table, notes=(*board_table.notes, note))


def _without_collisions(
    read: Sequence[tuple[Run, Row]], refused: dict[Path, StoreError] | None
) -> list[tuple[Run, Row]]:
    """Return the runs without those of stored predictions that share a name in one table.

    Stored predictions are identified by their name alone, so that of two runs with one name nobody
    can tell which one counts: both are refused.

    Raises:
        StoreError: two runs share a name, and `refused` is None.
    """
    same_name: dict[tuple[Key, str, str | None], list[Path]] = {}
    for run, row_ in read:
        same_name.setdefault((key(row_), row_.model, stored_method(row_)), []).append(run.folder)
    accepted: list[tuple[Run, Row]] = []
    for run, row_ in read:
        method = stored_method(row_)
        folders = same_name[key(row_), row_.model, method]
        with refusals(run.folder, refused):
            if method is not None and len(folders) > 1:
                raise StoreError(
                    f"run {run.folder}",
                    expected=f"one run of the predictions {row_.model!r} in a table",
                    found=" and ".join(_told_apart(folders)),
                    fix="Score one of them under another --name, or take one of them away.",
                )
            accepted.append((run, row_))
    return accepted


def _told_apart(folders: Sequence[Path]) -> list[str]:
    """Return the paths of folders below their common parent, which is not published."""
    paths = [folder.absolute() for folder in folders]
    parent = os.path.commonpath(paths)
    return [os.path.relpath(path, parent) for path in paths]


def _with_notes_on_other_data(tables: Sequence[Table]) -> list[Table]:
    """Add a note to tables that a reader sees as equal, because only their data differ."""
    n_by_key = Counter(map(_visible_key, tables))
    return [
        replace(
            board_table, notes=(*board_table.notes, OTHER_DATA_NOTE.format(board_table.data[:12]))
        )
        if n_by_key[_visible_key(board_table)] > 1
        else board_table
        for board_table in tables
    ]


def _visible_key(board_table: Table) -> tuple[str, int, str, str | None]:
    """Return what a reader of the board sees of a table's key: all but the data's fingerprint."""
    return board_table.title, board_table.task_version, board_table.protocol, board_table.judge


def _table_of_valid(
    members: Sequence[tuple[Run, Row]],
    data_root: Path | None,
    refused: dict[Path, StoreError] | None,
    index: KnownValues | None,
) -> Table | None:
    """Rank the runs of one table; a run that makes the ranking fail goes into `refused`.

    After a failure each run is ranked alone, which shows the runs that fail by themselves. If none
    does, one is refused, and the others are tried again. None: all are refused.

    Raises:
        Exception: whatever an odd record leads to, if `refused` is None.
    """
    while members:
        try:
            return table(members, data_root=data_root, refused=refused, index=index)
        except Exception as error:
            if refused is None:
                raise
            for run, run_row in members:
                with refusals(run.folder, refused):
                    table([(run, run_row)], data_root=data_root)
            remaining = [member for member in members if member[0].folder not in refused]
            if len(remaining) == len(members):  # no run fails alone
                folder = remaining.pop()[0].folder
                refused[folder] = odd_record(folder, error)
            members = remaining
    return None
