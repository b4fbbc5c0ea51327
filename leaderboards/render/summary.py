"""A board as one table, models × tasks, as papers print it: numbers, intervals, bold, footnotes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from typing import Literal, TypeAlias

from harness.errors import HarnessError, UsageError
from harness.leaderboards import formatting
from harness.leaderboards.board import Board
from harness.leaderboards.ranked_table import Entry, Table
from harness.leaderboards.row import Row
from harness.leaderboards.runs import metrics_for
from harness.record import Run
from harness.scores import Better
from harness.statistics.paired import compare

Spread: TypeAlias = Literal["pm", "interval", "none"]
HEADLINE, ALL = "headline", "all"
SLACK = 0.0005  # half of the last digit that percent are printed with
PERCENT, FRACTION = 1, 3  # digits behind the point, unless they are chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Format of the numbers in a summary."""

    metrics: str = HEADLINE
    """`headline`, `all`, or names with commas."""
    spread: Spread = "interval"
    """`interval`: both ends; `pm`: ± the larger distance to an end, or both ends where that would
    leave the range of the scores; `none`."""
    percent: bool = True
    """True: numbers from 0 to 1 of which more is better are percent."""
    digits: int | None = None
    """Behind the point; None: 1 of percent, 3 of other numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One metric of one task."""

    task: str
    """Task, split and subset."""
    protocol: str
    mark: str
    """Letter of its footnote."""
    metric: str
    better: Better
    is_percent: bool
    digits: int

    def write(self, value: float) -> str:
        """Return a number of the column as it is printed."""
        return f"{100 * value if self.is_percent else value:.{self.digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number, as texts."""

    value: str = ""
    """Empty where there is none."""
    low: str = ""
    high: str = ""
    plus_minus: str = ""
    is_best: bool = False
    """True if it is shown to be better than that of every other row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The table, without its form."""

    title: str
    spread: Spread
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """A row's name with its marks, and one cell a column."""
    footnotes: tuple[tuple[str, str], ...]
    """Letters of columns and what they are; then notes, whose mark is in the text."""


def summary(board: Board, style: Style, *, data_root: Path | None = None) -> Summary:
    """Reduce a board to one table; each of its tables gives one column a metric.

    Args:
        board: The measured rows; numbers of papers are left out.
        style: What is shown, and how.
        data_root: Where benchmarks lie, for metrics that need their task to be compared.

    Raises:
        UsageError: no table has a metric of `style.metrics`, or `digits` is below 0.
    """
    if style.digits is not None and not 0 <= style.digits <= 10:
        raise UsageError("--digits", expected="0 to 10", found=str(style.digits))
    columns: list[Column] = []
    cells: list[Mapping[str, Cell]] = []
    marks: dict[str, Table] = {}
    for table in board.tables:
        names, mark = _names(table, style.metrics), _letter(len(marks))
        if names:
            marks[mark] = table
        for name in names:
            column = _column(table, name, mark, style)
            columns.append(column)
            cells.append(dict(_cells(table, column, data_root)))
    if not columns:
        known = dict.fromkeys(name for table in board.tables for name in table.metrics)
        raise UsageError("--metrics", expected=", ".join(known) or "a run", found=style.metrics)
    rows: dict[str, list[Row]] = {}
    for table in marks.values():
        for entry in table.entries:
            rows.setdefault(entry.row.name, []).append(entry.row)
    return Summary(
        title=board.title,
        spread=style.spread,
        columns=tuple(columns),
        rows=tuple(
            (
                formatting.marked_names(every),
                tuple(column_cells.get(name, Cell()) for column_cells in cells),
            )
            for name, every in rows.items()
        ),
        footnotes=tuple(_footnotes(board, marks, cells, style)),
    )


def _names(table: Table, asked: str) -> Sequence[str]:
    """Return the metrics of a table that are asked for and that some row has."""
    if asked == HEADLINE:
        return [table.headline]
    wanted = None if asked == ALL else [name.strip() for name in asked.split(",")]
    rows = [entry.row.metrics for entry in table.entries]
    available = [name for name in table.metrics if any(row.get(name) is not None for row in rows)]
    return available if wanted is None else [name for name in wanted if name in available]


def _letter(place: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …"""
    rest, last = divmod(place, len(ascii_lowercase))
    return (_letter(rest - 1) if rest else "") + ascii_lowercase[last]


def _column(table: Table, name: str, mark: str, style: Style) -> Column:
    better = table.entries[0].row.better[name]
    numbers = [entry.row.metrics.get(name) for entry in table.entries]
    ends = [end for entry in table.entries for end in entry.row.intervals.get(name) or ()]
    shown = [number for number in (*numbers, *ends) if number is not None]
    bounded = all(-1e-9 <= number <= 1 + 1e-9 for number in shown)
    is_percent = style.percent and better == "higher" and bounded
    usual = PERCENT if is_percent else FRACTION
    return Column(
        task=table.title,
        protocol=table.protocol,
        mark=mark,
        metric=name,
        better=better,
        is_percent=is_percent,
        digits=usual if style.digits is None else style.digits,
    )


def _cells(table: Table, column: Column, data_root: Path | None) -> Iterable[tuple[str, Cell]]:
    best = shown_best(table, column.metric, data_root)
    for entry in table.entries:
        row = entry.row
        value, pair = row.metrics.get(column.metric), row.intervals.get(column.metric)
        if value is None:
            continue
        cell = Cell(value=column.write(value), is_best=entry is best)
        if pair is not None:
            reach = max(value - pair[0], pair[1] - value)
            low, high, spread = (column.write(number) for number in (*pair, reach))
            if column.is_percent and not -SLACK <= value - reach <= value + reach <= 1 + SLACK:
                spread = ""
            cell = replace(cell, low=low, high=high, plus_minus=spread)
        yield row.name, cell


def shown_best(table: Table, metric: str, data_root: Path | None = None) -> Entry | None:
    """Return the row that is shown to be better by a metric than every other row; else None.

    Shown means as for ranks: the paired test of the two rows' units, at the board's level.
    """
    better = table.entries[0].row.better[metric]
    sign = 1 if better == "higher" else -1
    known = [entry for entry in table.entries if entry.row.metrics.get(metric) is not None]
    if len(known) < 2:
        return None
    first, *others = sorted(known, key=lambda entry: -sign * (entry.row.metrics[metric] or 0.0))
    if metric == table.headline:
        return first if all(entry.rank != 1 for entry in others) else None
    try:
        runs = {entry.folder: Run.open(entry.folder) for entry in known}
        units = {folder: tuple(run.units()) for folder, run in runs.items()}
        metrics = metrics_for(
            runs[first.folder], units[first.folder], name=metric, data_root=data_root
        )
        against = partial(compare, metrics, units[first.folder], name=metric)
        worse = all(against(units[entry.folder]).is_worse for entry in others)
    except HarnessError:  # the metric cannot be computed again, or rows cannot be paired
        return None
    return first if worse else None


def _footnotes(
    board: Board, marks: Mapping[str, Table], cells: Sequence[Mapping[str, Cell]], style: Style
) -> Iterable[tuple[str, str]]:
    yield from ((mark, formatting.sentence(table.facts)) for mark, table in marks.items())
    every = [cell for column_cells in cells for cell in column_cells.values()]
    level = f"{board.level * 100:g} %"
    if style.spread == "pm" and any(cell.plus_minus for cell in every):
        yield "", f"±: the larger distance to an end of the {level} interval."
    with_ends = (cell.low and (style.spread == "interval" or not cell.plus_minus) for cell in every)
    if style.spread != "none" and any(with_ends):
        yield "", f"In brackets: the {level} interval."
    if any(cell.is_best for cell in every):
        yield (
            "",
            "Bold: shown to be better than every other row (paired test over images or videos, "
            f"p ≤ {1 - board.level:.2g}, not corrected for the number of comparisons).",
        )
    notes = dict.fromkeys(note for table in marks.values() for note in table.notes)
    yield from (("", note) for note in notes)


Render: TypeAlias = Callable[[Summary], str]


def grouped(columns: Sequence[Column]) -> list[tuple[Column, int]]:
    """Return the first column of each task, and the number of its columns."""
    groups: list[tuple[Column, int]] = []
    for column in columns:
        if groups and groups[-1][0].mark == column.mark:
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((column, 1))
    return groups
