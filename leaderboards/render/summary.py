"""A board as one table, models × tasks, as papers print it: numbers, intervals, bold, footnotes.

`summary` returns a `Summary` of texts; `files` and `latex` write it (`harness board --format`).
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from typing import Literal, TypeAlias

from harness.errors import HarnessError, UsageError
from harness.leaderboards import formatting
from harness.leaderboards.board import Board
from harness.leaderboards.published_results import PublishedResult
from harness.leaderboards.ranked_table import Entry, Table
from harness.leaderboards.row import Row
from harness.leaderboards.runs import metrics_for
from harness.record import Run
from harness.scores import Better
from harness.spec import Spec, parse, split_list
from harness.statistics.paired import compare

Spread: TypeAlias = Literal["pm", "interval", "none"]
HEADLINE, ALL = "headline", "all"  # values of `Style.metrics`
SLACK = 0.0005  # half of the last digit of percent with one decimal
PERCENT_DIGITS, FRACTION_DIGITS = 1, 3  # default digits after the point


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Format of the numbers in a summary."""

    metrics: str = HEADLINE
    """`headline`, `all`, or names with commas."""
    spread: Spread = "interval"
    """`interval`: both ends; `pm`: ± the larger distance to an end, or both ends if that leaves
    the range of the scores; `none`."""
    percent: bool = True
    """True: print numbers from 0 to 1 as per cent if higher is better."""
    digits: int | None = None
    """Digits after the point; None: 1 for per cent, 3 for other numbers."""
    tasks: str = ""
    """Tasks in the order of the columns, such as `mevis,reason_seg(split=val)`; empty: all."""
    rows: Sequence[str] = ()
    """Names of the rows in their order, each as `NAME` or `NAME=LABEL`; empty: all."""
    published: bool = False
    """Add the rows that papers print by the same protocol."""
    label: str = ""
    """Label of a LaTeX table; empty: made from the title."""


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
    """Empty without a number."""
    low: str = ""
    high: str = ""
    plus_minus: str = ""
    is_best: bool = False
    """True if it is significantly better than the number of every other row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The table, independent of the file format."""

    title: str
    label: str
    spread: Spread
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """A row's name with its marks, and one cell a column."""
    footnotes: tuple[tuple[str, str], ...]
    """(letter, facts) of each task; then ("", text) of each note."""
    short_footnotes: tuple[tuple[str, str], ...]
    """The same for a paper: protocol, samples, notation, and what the marks of rows say."""


def summary(board: Board, style: Style, *, data_root: Path | None = None) -> Summary:
    """Reduce a board to one table; each of its tables gives one column a metric.

    Args:
        board: The board.
        style: Choice and format of the numbers.
        data_root: Folder of the benchmarks, which some metrics need for the paired tests.

    Raises:
        UsageError: no table has a metric of `style.metrics` or is of one of `style.tasks`, no row
            has a name of `style.rows`, or `digits` is below 0.
    """
    if style.digits is not None and not 0 <= style.digits <= 10:
        raise UsageError("--digits", expected="0 to 10", found=str(style.digits))
    known = dict.fromkeys(name for table in board.tables for name in table.metrics)
    requested = [] if style.metrics in (HEADLINE, ALL) else style.metrics.split(",")
    if unknown := [name for name in map(str.strip, requested) if known and name not in known]:
        raise UsageError("--metrics", expected=", ".join(known), found=", ".join(unknown))
    measured = {entry.row.name for table in board.tables for entry in table.entries}
    among = {_fitting(requested, measured) for requested in style.rows} or measured
    columns: list[Column] = []
    cells: list[Mapping[str, Cell]] = []
    marks: dict[str, Table] = {}
    for table in _ordered(board.tables, style.tasks):
        names, mark = _names(table, style.metrics), _letter(len(marks))
        if names:
            marks[mark] = replace(table, n_groups=_groups(table))
        for name in names:
            column = _column(table, name, mark, style)
            columns.append(column)
            cells.append(dict(_cells(table, column, among, data_root)))
    if not columns:
        raise UsageError("--metrics", expected=", ".join(known) or "a run", found=style.metrics)
    lines = list(_lines(marks, columns, cells, style))
    return Summary(
        title=board.title,
        label=style.label,
        spread=style.spread,
        columns=tuple(columns),
        rows=tuple((line.text, line.cells) for line in lines),
        footnotes=tuple(_footnotes(board, marks, lines, style)),
        short_footnotes=tuple(_short_footnotes(board, marks, lines, style)),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of the summary."""

    name: str
    text: str
    """The name with its marks, or the user's label with `label_marks`."""
    label_marks: str
    """Marks that stand behind a label of the user's."""
    cells: tuple[Cell, ...]
    is_published: bool = False
    """True for a row that a paper prints."""


def _lines(
    marks: Mapping[str, Table],
    columns: Sequence[Column],
    cells: Sequence[Mapping[str, Cell]],
    style: Style,
) -> Iterator[_Line]:
    """Yield the rows: measured ones, then those of papers; or `style.rows`.

    Raises:
        UsageError: `style.rows` has a name that no row has.
    """
    measured: dict[str, list[Row]] = {}
    for table in marks.values():
        for entry in table.entries:
            measured.setdefault(entry.row.name, []).append(entry.row)
    lines = [
        _Line(
            name,
            f"{name}{formatting.marks(rows)}",
            formatting.marks(rows, with_badges=False),
            tuple(by_row.get(name, Cell()) for by_row in cells),
        )
        for name, rows in measured.items()
    ]
    if style.published:
        lines += _published(marks, columns)
    if not style.rows:
        yield from lines
        return
    known = dict.fromkeys(line.name for line in lines)
    for requested in style.rows:
        name = _fitting(requested, known)
        if name is None:
            raise UsageError(
                f"--rows {requested}",
                expected=f"NAME or NAME=LABEL, NAME one of {', '.join(known)}",
                found=requested,
            )
        label = requested[len(name) + 1 :]
        for line in lines:
            if line.name != name:
                continue
            # A label of a measured row is not one of a paper's row with the same name.
            is_labelled = label and not (line.is_published and name in measured)
            yield replace(line, text=f"{label}{line.label_marks}") if is_labelled else line


def _fitting(requested: str, names: Iterable[str]) -> str | None:
    """Return the longest name that `NAME` or `NAME=LABEL` can mean; None if there is none."""
    fitting = (name for name in names if f"{requested}=".startswith(f"{name}="))
    return max(fitting, key=len, default=None)


def _published(marks: Mapping[str, Table], columns: Sequence[Column]) -> Iterator[_Line]:
    """Yield each row that a paper prints by the same protocol, with the paper and its table."""
    results: dict[tuple[str, str], dict[tuple[str, str], PublishedResult]] = {}
    for mark, table in marks.items():
        for row in table.published:
            if row.is_comparable:
                numbers = results.setdefault((row.results[0].source, row.results[0].name), {})
                numbers |= {(mark, result.metric): result for result in row.results}
    for (title, name), numbers in results.items():
        printed = [numbers.get((column.mark, column.metric)) for column in columns]
        if tables := dict.fromkeys(result.table for result in printed if result):
            cells = tuple(map(_printed, columns, printed))
            source = f" [{title}, Table {', '.join(tables)}]"
            yield _Line(name, f"{name}{source}", source, cells, is_published=True)


def _printed(column: Column, result: PublishedResult | None) -> Cell:
    """Return the cell of a paper's number: as it is printed, if the column has the same unit."""
    if result is None:
        return Cell()
    is_as_printed = column.is_percent == (result.unit == "percent")
    return Cell(value=result.printed if is_as_printed else column.write(result.value))


def _groups(table: Table) -> int | None:
    """Return the number of images or videos of a table's runs; None if they cannot be read."""
    with suppress(HarnessError):
        return len({unit.group for unit in Run.open(table.entries[0].folder).units()})
    return None


def _ordered(tables: Sequence[Table], tasks: str) -> Sequence[Table]:
    """Return the tables of the named tasks in the order of the names; all for no name.

    Raises:
        UsageError: no table is of a named task and split.
    """
    ordered: dict[int, Table] = {}
    for text in filter(None, map(str.strip, split_list(tasks))):
        spec = parse(text)
        of_spec = {
            index: table
            for index, table in enumerate(tables)
            if spec in (Spec(table.task), Spec(table.task, {"split": table.split}))
        }
        if not of_spec:
            known = dict.fromkeys(f"{table.task}(split={table.split})" for table in tables)
            raise UsageError("--tasks", expected=", ".join(known), found=str(spec))
        ordered |= of_spec  # a table that was named before keeps its place
    return tuple(ordered.values()) or tables


def _names(table: Table, requested: str) -> Sequence[str]:
    """Return the requested metrics (`Style.metrics`) that a row of the table has."""
    if requested == HEADLINE:
        return [table.headline]
    rows = [entry.row.metrics for entry in table.entries]
    available = [name for name in table.metrics if any(row.get(name) is not None for row in rows)]
    if requested == ALL:
        return available
    return [name for name in map(str.strip, requested.split(",")) if name in available]


def _letter(index: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …"""
    leading, last = divmod(index, len(ascii_lowercase))
    return (_letter(leading - 1) if leading else "") + ascii_lowercase[last]


def _column(table: Table, name: str, mark: str, style: Style) -> Column:
    """Return the column of a metric; it is in per cent if all numbers and ends are from 0 to 1."""
    better = table.entries[0].row.better[name]
    numbers = [entry.row.metrics.get(name) for entry in table.entries]
    ends = [end for entry in table.entries for end in entry.row.intervals.get(name) or ()]
    printed = [number for number in (*numbers, *ends) if number is not None]
    is_bounded = all(-1e-9 <= number <= 1 + 1e-9 for number in printed)
    is_percent = style.percent and better == "higher" and is_bounded
    default_digits = PERCENT_DIGITS if is_percent else FRACTION_DIGITS
    return Column(
        task=table.title,
        protocol=table.protocol,
        mark=mark,
        metric=name,
        better=better,
        is_percent=is_percent,
        digits=default_digits if style.digits is None else style.digits,
    )


def _cells(
    table: Table, column: Column, among: Container[str | None], data_root: Path | None
) -> Iterable[tuple[str, Cell]]:
    """Yield (row's name, cell) for the rows of a table that have a number in a column.

    The best is one of the rows named in `among`.
    """
    printed = [entry for entry in table.entries if entry.row.name in among]
    best = shown_best(table, printed, column.metric, data_root)
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


def shown_best(
    table: Table, entries: Sequence[Entry], metric: str, data_root: Path | None
) -> Entry | None:
    """Return the row that is significantly better by a metric than the others given; else None.

    The test is that of ranks: paired by unit, at the board's level. None also if the metric cannot
    be computed again, or rows cannot be paired.
    """
    better = table.entries[0].row.better[metric]
    sign = 1 if better == "higher" else -1
    scored = [entry for entry in entries if entry.row.metrics.get(metric) is not None]
    if len(scored) < 2:
        return None
    first, *rest = sorted(scored, key=lambda entry: -sign * (entry.row.metrics[metric] or 0.0))
    if metric == table.headline and first is table.entries[0]:  # ranks are by the best row
        return first if all(entry.rank != 1 for entry in rest) else None
    try:
        runs = {entry.folder: Run.open(entry.folder) for entry in scored}
        units = {folder: tuple(run.units()) for folder, run in runs.items()}
        metrics = metrics_for(
            runs[first.folder], units[first.folder], name=metric, data_root=data_root
        )
        compare_with_first = partial(compare, metrics, units[first.folder], name=metric)
        are_worse = all(compare_with_first(units[entry.folder]).is_worse for entry in rest)
    except HarnessError:
        return None
    return first if are_worse else None


def _footnotes(
    board: Board, marks: Mapping[str, Table], lines: Sequence[_Line], style: Style
) -> Iterator[tuple[str, str]]:
    """Yield the footnotes of a summary."""
    yield from ((mark, formatting.sentence(table.facts)) for mark, table in marks.items())
    yield from (("", text) for text in _notation(board, lines, style))
    yield from (("", text) for text in _missing(marks, lines))
    for refused in board.refused:
        yield "", f"Left out: {refused.model or refused.run} on {refused.task}: {refused.reason}"
    notes = dict.fromkeys(note for table in marks.values() for note in table.notes)
    yield from (("", note) for note in notes)


def _short_footnotes(
    board: Board, marks: Mapping[str, Table], lines: Sequence[_Line], style: Style
) -> Iterator[tuple[str, str]]:
    """Yield the footnotes that a paper needs; all facts of tasks that would look equal without."""
    sentences = {mark: formatting.sentence(table.conditions) for mark, table in marks.items()}
    looks = {mark: (table.title, sentences[mark]) for mark, table in marks.items()}
    for mark, table in marks.items():
        is_unique = list(looks.values()).count(looks[mark]) == 1
        yield mark, sentences[mark] if is_unique else formatting.sentence(table.facts)
    yield from (("", text) for text in _notation(board, lines, style))
    for mark, meaning in formatting.MARKS.items():
        if any(mark in line.label_marks for line in lines):
            yield "", f"{mark}: {meaning}."
    yield from (("", text) for text in _missing(marks, lines))


def _missing(marks: Mapping[str, Table], lines: Sequence[_Line]) -> Iterator[str]:
    """Yield a sentence on each number that counts samples without an answer."""
    texts = {line.name: line.text for line in lines if not line.is_published}
    for table in marks.values():
        for entry in table.entries:
            row = entry.row
            if row.n_failed and row.name in texts:
                answered = f"{row.n_scored} of {row.n_total} samples are answered"
                yield f"{texts[row.name]}, {table.title}: {answered}, the others count as failed."


def _notation(board: Board, lines: Sequence[_Line], style: Style) -> Iterator[str]:
    """Yield a sentence on each notation that a cell or a row uses."""
    all_cells = [cell for line in lines for cell in line.cells]
    level = f"{board.level * 100:g} %"
    if style.spread == "pm" and any(cell.plus_minus for cell in all_cells):
        yield f"±: the larger distance to an end of the {level} interval."
    has_brackets = any(
        cell.low and (style.spread == "interval" or not cell.plus_minus) for cell in all_cells
    )
    if style.spread != "none" and has_brackets:
        yield f"In brackets: the {level} interval."
    has_published = any(line.is_published for line in lines)
    others = "other measured row" if has_published else "other row"
    if any(cell.is_best for cell in all_cells):
        yield (
            f"Bold: shown to be better than every {others} (paired test over images or videos, "
            f"p ≤ {1 - board.level:.2g}, not corrected for the number of comparisons)."
        )
    if has_published:
        yield "With a paper and its table: as printed there by this protocol, not measured here."


Render: TypeAlias = Callable[[Summary], str]


def grouped(columns: Sequence[Column]) -> list[tuple[Column, int]]:
    """Return (first column, number of columns) of each task."""
    groups: list[tuple[Column, int]] = []
    for column in columns:
        if groups and groups[-1][0].mark == column.mark:
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((column, 1))
    return groups
