"""Lay out a board as headings, paragraphs and tables of text, for Markdown and plain HTML.

`markdown`, the first page of a site and the test server's page print these `blocks`. Numbers of
papers are in tables of their own below the measured ones: folded, never bold, with ○ in place of a
rank.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.leaderboards import formatting
from harness.leaderboards.board import Board
from harness.leaderboards.grid import Grid, left_off_text
from harness.leaderboards.published_results import PublishedRow
from harness.leaderboards.ranked_table import Entry, Table
from harness.leaderboards.row import Row

PRINTED_MARK = "○"  # in place of a rank
PRINTED_SUMMARY = "Reported in papers, not measured here: no rank, no interval, no paired test"
BOLD_RULE = (
    " Rows of rank 1 are bold in the first table. A table for a paper (--format) has bold only for "
    "a row that is shown to be better than every other."
)
REFUSED_NOTE = "Their records were changed or are damaged, so they count nowhere."


class Strong(str):
    """The number of a row of rank 1, which is bold."""

    mark = "**"


class Printed(str):
    """A number that a paper prints, in italics."""

    mark = "*"


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to a relative URL."""

    text: str
    to: str


Part: TypeAlias = str | Link
Cell: TypeAlias = Part | tuple[Part, ...]
"""A text, or parts that follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The heading of a section."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Sentences; a note is set off from the other text."""

    text: str
    is_note: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A table whose first `left` columns are text and whose others are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left: int
    summary: str = ""
    """Line under which the table is folded; empty: it is not folded."""
    is_published: bool = False
    """True for numbers of papers."""


Block: TypeAlias = Heading | Paragraph | Cells


def blocks(board: Board, *, full: bool = True) -> Iterator[Block]:
    """Yield the blocks of a board; breakdowns and records only if `full`."""
    if board.refused:
        yield Heading(text="Refused runs")
        yield Paragraph(text=REFUSED_NOTE, is_note=True)
        yield Cells(
            head=("Run", "Model", "Task", "Reason"),
            rows=[(run.run, run.model, run.task, run.reason) for run in board.refused],
            left=4,
        )
    if len(board.tables) > 1:
        yield from _overview(board)
    if board.grid is not None:
        yield from _grid(board.grid)
    if board.left_off:
        yield Paragraph(text=left_off_text(board.left_off), is_note=True)
    for table in board.tables:
        yield from _table(table, full)
    yield Paragraph(
        text=formatting.ranking_rule(board.level) + (BOLD_RULE if len(board.tables) > 1 else "")
    )


def _overview(board: Board) -> Iterator[Cells]:
    """Yield a table of each model's headline in each table, and one of the papers' numbers."""
    head = [
        f"{table.title}, {table.protocol}: {formatting.heading(table.headline, table.better)}"
        for table in board.tables
    ]
    measured = [{entry.row.name: entry for entry in table.entries} for table in board.tables]
    names = dict.fromkeys(name for entries in measured for name in entries)
    rows = [
        [_marked(name, measured), *(_headline(entries.get(name)) for entries in measured)]
        for name in names
    ]
    yield Cells(head=["Model", *head], rows=rows, left=1)
    printed = [{row.name: row for row in table.published} for table in board.tables]
    if names := dict.fromkeys(name for rows_of in printed for name in rows_of):
        rows = [
            [
                f"{PRINTED_MARK} {name}",
                *(
                    _printed(rows_by_name.get(name), table.headline)
                    for rows_by_name, table in zip(printed, board.tables, strict=True)
                ),
            ]
            for name in names
        ]
        yield Cells(
            head=["Row", *head], rows=rows, left=1, summary=PRINTED_SUMMARY, is_published=True
        )


def _marked(name: str, measured: Sequence[dict[str, Entry]]) -> str:
    """Return a model's name with the marks that any of its rows has."""
    return formatting.marked_names([entries[name].row for entries in measured if name in entries])


def _headline(entry: Entry | None) -> Cell:
    text = formatting.number(None if entry is None else entry.row.value)
    return Strong(text) if entry is not None and entry.rank == 1 else text


def _printed(row: PublishedRow | None, metric: str) -> Cell:
    values = {result.metric: result.value for result in row.results} if row else {}
    text = formatting.number(values.get(metric))
    return Printed(text) if metric in values else text


def _grid(grid: Grid) -> Iterator[Block]:
    """Yield a paper's table with cells `printed → measured`, and a verdict for each comparison."""
    yield Heading(text=grid.heading)
    if any(cell.printed for _, cells in grid.rows for cell in cells):
        yield Paragraph(text="Before the arrow: as the paper prints it; after it: measured here.")
    rows = []
    for name, cells in grid.rows:
        ours = [formatting.beside(cell.value, cell.printed, cell.unit) for cell in cells]
        rows.append([name, *map(_beside, (cell.printed for cell in cells), ours)])
    head = [
        "Row",
        *(cell.column + (", %" if cell.unit == "percent" else "") for cell in grid.rows[0][1]),
    ]
    yield Cells(head=head, rows=rows, left=1)
    for name, cells in grid.rows:
        for cell in cells:
            if cell.reproduction is not None:
                text = formatting.comparison_text(cell.reproduction)
                yield Paragraph(text=f"{name}, {cell.column}: {text}")


def _beside(printed: str | None, ours: str) -> Cell:
    """Return a cell `printed → ours`, or one of both numbers if the other is missing."""
    if printed is None:
        return ours or formatting.NOTHING
    return (Printed(printed), f" → {ours}") if ours else Printed(printed)


def _table(table: Table, full: bool) -> Iterator[Block]:
    """Yield the blocks of one table of a board; `full`: also records and breakdowns."""
    yield Heading(text=table.title)
    yield Paragraph(text=formatting.sentence(table.facts))
    if about := table.entries[0].row.about.get(table.headline):
        yield Paragraph(text=f"Headline: {table.headline}, {about}")
    yield _ranking(table)
    yield from _protocols(table)
    if table.published:
        yield _published(table)
    if full:
        yield _records(table)
    for note in table.notes:
        yield Paragraph(text=note, is_note=True)
    if full:
        for category in dict.fromkeys(
            name for entry in table.entries for name in entry.row.breakdowns
        ):
            yield _breakdown(table, category)


def _ranking(table: Table) -> Cells:
    better = table.entries[0].row.better
    names = [formatting.heading(name, better[name]) for name in table.metrics]
    head = ("Rank", "Model", names[0], "95 % interval", "To best", *names[1:])
    return Cells(
        head=(*head, "Answered", "Failures"),
        rows=[_ranked(table, entry) for entry in table.entries],
        left=2,
    )


def _ranked(table: Table, entry: Entry) -> list[Cell]:
    row = entry.row
    return [
        formatting.NOTHING if entry.rank is None else str(entry.rank),
        (formatting.marked_name(row), *_training(row)),
        formatting.number(row.value),
        formatting.span(row.interval),
        formatting.change(entry.to_best),
        *(formatting.number(row.metrics.get(name)) for name in table.metrics[1:]),
        formatting.percent(row.answered_share),
        formatting.failures(row) or "0",
    ]


def _training(row: Row) -> tuple[Part, ...]:
    """Return the training of a row's checkpoint in brackets, linked; empty if there is none."""
    training = row.training
    if training is None or training.folder is None:
        return ()
    name = formatting.training_name(training)
    return " (training ", Link(name, training.link) if training.link else name, ")"


def _published(table: Table) -> Cells:
    """Return the table of published numbers, which are not computed by harness."""
    rows = []
    for row in table.published:
        first = row.results[0]
        doubt = "" if row.is_comparable else "protocol not known to match"
        remarks = (doubt, first.subset, first.note, *(result.defect for result in row.results))
        rows.append(
            [
                PRINTED_MARK,
                row.name,
                *(_printed(row, name) for name in table.metrics),
                f"{first.source}, Table {first.table}",
                f"{first.protocol}, {first.protocol_is}" if first.protocol else "unknown",
                ", ".join(result.printed for result in row.results),
                "; ".join(dict.fromkeys(filter(None, remarks))),
            ]
        )
    head = ("", "Row", *table.metrics, "Paper", "Protocol", "As printed", "Remarks")
    return Cells(head=head, rows=rows, left=2, summary=PRINTED_SUMMARY, is_published=True)


def _protocols(table: Table) -> Iterator[Block]:
    """Yield a table of the rows' predictions by every protocol, if any run has been scored so."""
    names = dict.fromkeys(
        bracketed.protocol for entry in table.entries for bracketed in entry.protocols
    )
    if not names:
        return
    rows = []
    for entry in table.entries:
        by_protocol = {bracketed.protocol: bracketed for bracketed in entry.protocols}
        results = (by_protocol.get(name) for name in names)
        cell_texts = (
            f"{bracketed.headline} {formatting.number(bracketed.value)}"
            if bracketed and bracketed.headline
            else formatting.NOTHING
            for bracketed in results
        )
        rows.append([entry.row.name, *cell_texts])
    head = [f"{name} (this table)" if name == table.protocol else name for name in names]
    yield Paragraph(text="The same predictions by every protocol:")
    yield Cells(head=["Model", *head], rows=rows, left=1)
    for bracketed in next(entry.protocols for entry in table.entries if entry.protocols):
        papers = f" Papers: {'; '.join(bracketed.papers)}." if bracketed.papers else ""
        yield Paragraph(text=f"{bracketed.protocol}: {bracketed.reason or bracketed.about}{papers}")


def _records(table: Table) -> Cells:
    """Return the table of each row's sources: run, recomputed from its scores, commit, hashes."""
    rows = [
        (
            row.name,
            row.run,
            "✓" if row.rescored else formatting.NOTHING,
            (row.commit or formatting.NOTHING)[:12] + (" (changed)" if row.dirty else ""),
            row.data[:12],
            formatting.weights(row),
        )
        for row in (entry.row for entry in table.entries)
    ]
    head = ("Model", "Run", "Recomputed from scores", "Commit", "Data", "Weights")
    return Cells(head=head, rows=rows, left=6, summary="Records")


def _breakdown(table: Table, category: str) -> Cells:
    """Return the table of the headline by the values of a category, a column for each model."""
    breakdowns = [entry.row.breakdowns.get(category, {}) for entry in table.entries]
    rows = []
    for value in dict.fromkeys(value for cells in breakdowns for value in cells):
        cells = [breakdown.get(value) for breakdown in breakdowns]
        count = next(cell["n"] for cell in cells if cell)
        numbers = (
            formatting.number(cell["metrics"].get(table.headline) if cell else None)
            + formatting.cut_of(entry.row, category, value)
            for entry, cell in zip(table.entries, cells, strict=True)
        )
        rows.append([value, f"{count:,}", *numbers])
    models = (entry.row.name for entry in table.entries)
    return Cells(
        head=(category, "Samples", *models),
        rows=rows,
        left=1,
        summary=f"{table.headline} by {' '.join(category.split())}",
    )
