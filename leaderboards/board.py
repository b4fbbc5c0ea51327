"""A board: the rows of many runs, in one table for each set of comparable runs.

Rows share a table only if task, version, split, protocol, judge, subset and the data's fingerprint
are equal, because a number by another protocol or on other samples is another quantity.
"""

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import DataError, HarnessError, StoreError, counted
from harness.leaderboards import formatting, sensitivity
from harness.leaderboards.definitions import Definition
from harness.leaderboards.differences import bracket
from harness.leaderboards.differences.bracket import Bracketed
from harness.leaderboards.grid import Grid, LeftOff, grid
from harness.leaderboards.naming import names, stored_method
from harness.leaderboards.published_results import PublishedRow, is_benchmark, published_rows
from harness.leaderboards.ranking import Basis, Compare, rank
from harness.leaderboards.reproduction import of_paper
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import (
    check_numbers,
    metrics_for,
    odd_record,
    open_runs,
    refusals,
)
from harness.leaderboards.unit_values import unit_failures, unit_values
from harness.provenance import is_rehearsal
from harness.record import MANIFEST, SCORES, Run
from harness.run.sweep import sweep_of
from harness.scores import Better, Metric, UnitScore
from harness.statistics.bootstrap import intervals
from harness.statistics.clusters import of_corpora
from harness.statistics.paired import Comparison, compare
from harness.store.atomic import read_json

LEVEL = 0.95
REHEARSED = "REHEARSAL (stand-ins with random weights; no number means anything)"
OTHER_DATA = (
    "Another table has the same title: its runs read other annotations or other samples than "
    "those of {}, so the two are not ranked together."
)
RULES = ("task", "task_version", "split", "protocol", "judge", "subset", "data")
"""Properties of a row that must be equal for two rows to be compared."""
Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row in its table."""

    row: Row
    rank: int | None
    """Shared until a difference is shown (`ranking`); None for a row without a number."""
    basis: Basis | None
    to_best: Comparison | None
    """Comparison with the best row; None for the best, and where they cannot be paired."""
    folder: Path
    """The run's folder. Never published."""
    unit_values: Mapping[str, float | None]
    """The headline on each unit alone, by the unit's name; empty if it cannot be computed."""
    unit_failures: Mapping[str, int]
    """Number of samples of each unit without an answer that the protocol reads, by its name."""
    protocols: tuple[Bracketed, ...] = ()
    """The same predictions by other protocols, if they were scored so (`bracket`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The runs that may be compared with each other, best first."""

    task: str
    task_version: int
    split: str
    protocol: str
    judge: str | None
    """Judge of the free answers, and its rubric."""
    subset: str | None
    data: str
    """Fingerprint of the annotations and samples, equal in all rows."""
    headline: str
    ceiling: float | None
    """Score of perfect answers on the headline."""
    entries: tuple[Entry, ...]
    published: tuple[PublishedRow, ...] = ()
    """Rows of papers, which have no rank and are compared with nothing."""
    scoring: tuple[Metric, ...] = ()
    """The headline last, after the metrics that it is derived from; empty if it is not known."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, such as the reason why rows could not be paired."""

    @classmethod
    def of(cls, entries: Sequence[Entry], ceiling: float | None, **given: Any) -> "Table":
        """A table with the rules and data that its rows have in common."""
        first = entries[0].row
        shared = {name: getattr(first, name) for name in (*RULES, "headline")}
        return cls(**shared, ceiling=ceiling, entries=tuple(entries), **given)

    @property
    def title(self) -> str:
        """Task, split and subset."""
        return f"{self.task} {self.split}" + (f" ({self.subset})" if self.subset else "")

    @property
    def better(self) -> Better:
        """The headline's direction."""
        return self.entries[0].row.better[self.headline]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics, the headline first."""
        return metric_names(self.entries[0].row)

    @property
    def facts(self) -> list[str]:
        """Describe the runs in short phrases: protocol, judge, versions, samples, data."""
        samples = sorted({entry.row.n_total for entry in self.entries})
        text = [
            f"protocol {self.protocol}",
            *([f"graded by {self.judge}"] if self.judge else []),
            f"task version {self.task_version}",
            counted(samples[0], "sample")
            if len(samples) == 1
            else f"{' or '.join(f'{count:,}' for count in samples)} samples",
            f"subset {self.subset}" if self.subset else "all of the split",
            f"data {self.data[:12]}",
        ]
        if self.ceiling is not None:
            text.append(f"perfect answers score {formatting.number(self.ceiling)}")
        return text


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


def metric_names(run_row: Row) -> tuple[str, ...]:
    """Names of a row's metrics, the headline first."""
    return (run_row.headline, *(name for name in run_row.metrics if name != run_row.headline))


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


def key(row: Row) -> Key:
    """Return the properties that must be equal for two rows to be compared."""
    return tuple(getattr(row, name) or "" for name in RULES)


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


def table(
    members: Sequence[tuple[Run, Row]],
    *,
    data_root: Path | None = None,
    refused: dict[Path, StoreError] | None = None,
) -> Table | None:
    """Rank the runs of one table; None if all of them are refused (`open_runs`)."""
    notes: list[str] = []
    metrics = _metrics(members, data_root, notes)
    runs: list[Run] = []
    rows: list[Row] = []
    units: list[tuple[UnitScore, ...]] = []
    protocols: list[tuple[Bracketed, ...]] = []
    for run, run_row in members:
        with refusals(run.folder, refused):
            scores = tuple(run.units())
            if metrics:
                check_numbers(run, scores, metrics)
                run_row = replace(with_interval(run_row, run, scores, metrics), rescored=True)
            protocols.append(_protocols(run, run_row))
            runs.append(run)
            rows.append(run_row)
            units.append(scores)
    if not rows:
        return None
    first = rows[0]
    rows = [
        replace(run_row, published=of_paper(run_row)) if run_row.of_benchmark else run_row
        for run_row in rows
    ]
    of_papers = first.of_benchmark and first.subset is None
    unanswered = frozenset(i for i, run_row in enumerate(rows) if run_row.value is None)
    paired = comparer(metrics, units, name=first.headline, notes=notes, without=unanswered)
    places = rank(rows, paired)
    sweeps = [sweep_of(run.folder) for run in runs]
    notes.extend(sensitivity.setting_notes(rows, sweeps, paired))
    notes.extend(formatting.trained_on(run_row) for run_row in rows if run_row.trained_on_some)
    notes.extend(formatting.deviation_note(run_row) for run_row in rows if run_row.deviations)
    notes.extend(formatting.adaptation_note(run_row) for run_row in rows if run_row.adaptation)
    notes.extend(filter(None, map(formatting.ledger_note, rows)))
    notes.extend(formatting.paper_note(run_row) for run_row in rows if run_row.published)
    entries = [
        Entry(
            row=rows[place.index],
            rank=place.rank,
            basis=place.basis,
            to_best=place.to_best,
            folder=runs[place.index].folder,
            unit_values=unit_values(metrics, units[place.index]),
            unit_failures=unit_failures(units[place.index]),
            protocols=protocols[place.index],
        )
        for place in places
    ]
    return Table.of(
        entries,
        first.ceiling,
        published=published_rows(first, metric_names(first)) if of_papers else (),
        scoring=metrics,
        notes=tuple(dict.fromkeys(notes)),
    )


def _protocols(run: Run, run_row: Row) -> tuple[Bracketed, ...]:
    """Return a run's numbers by protocol; none if its own is not the row's any more."""
    protocols = bracket.read(run.folder)
    if protocols and protocols[0].metrics.get(run_row.headline) == run_row.value:
        return protocols
    return ()


def _metrics(
    members: Sequence[tuple[Run, Row]], data_root: Path | None, notes: list[str]
) -> tuple[Metric, ...]:
    """Metrics of the headline, by the first run that they can be found for; else a note."""
    name, errors = members[0][1].headline, []
    for run, _ in sorted(members, key=lambda member: member[1].value is None):
        try:
            return metrics_for(run, tuple(run.units()), name=name, data_root=data_root)
        except HarnessError as error:
            errors.append(error)
    notes.append(f"{name} cannot be computed from the scores again: {errors[0]}")
    return ()


def with_interval(
    run_row: Row, run: Run, units: Sequence[UnitScore], metrics: Sequence[Metric]
) -> Row:
    """The row with its headline's interval computed from the scores.

    That of a corpus stays the recorded one: it would take as many calls of the metric's function
    as there are blocks of groups.
    """
    if of_corpora(metrics) or run_row.value is None:
        return run_row
    computed = intervals(metrics, units, seed=run.manifest["seed"])
    return replace(
        run_row, intervals={**run_row.intervals, run_row.headline: computed[run_row.headline]}
    )


def comparer(
    metrics: Sequence[Metric],
    units: Sequence[Sequence[UnitScore]],
    *,
    name: str,
    notes: list[str],
    without: Container[int] = (),
) -> Compare:
    """Return a function that compares runs by index; pairs without a result are None, with `notes`.

    Those `without` a number are not compared.
    """
    if not metrics:
        return lambda a, b: None

    def compare_rows(a: int, b: int) -> Comparison | None:
        if a in without or b in without:
            return None
        try:
            return compare(metrics, units[a], units[b], name=name, level=LEVEL)
        except DataError as error:
            notes.append(f"Some rows cannot be paired. {error}")
            return None

    cached: Callable[[int, int], Comparison | None] = cache(compare_rows)
    return cached
