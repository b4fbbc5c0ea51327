"""A board as Markdown, for pull requests and terminals."""

import html
import re
from collections.abc import Iterator, Sequence

from harness.leaderboards import formatting
from harness.leaderboards.board import Board, Entry, Table
from harness.leaderboards.grid import Cell, Grid
from harness.leaderboards.published_results import PAPERS
from harness.leaderboards.row import Row

SPECIAL = re.compile(r"([\\`*\[\]~|$]|(?<![^\W_])_|_(?![^\W_]))")

MENTION = re.compile(r"(?<!\w)@(?=\w)")  # a name at its start would be told of every report


def render(board: Board) -> str:
    """The board's tables, breakdowns and notes."""
    lines = [f"# {escape(board.title)}", ""]
    if board.grid is not None:
        lines.extend(_grid(board.grid))
    for table in board.tables:
        lines.extend(_table(table))
    lines.extend([formatting.ranking_rule(board.level), ""])
    return "\n".join(lines)


def escape(text: str) -> str:
    r"""Text that Markdown shows as it is, in one line, inside a cell too.

    >>> escape("a|b <script> *x* reason_seg _y_")
    'a\\|b &lt;script&gt; \\*x\\* reason_seg \\_y\\_'
    """
    line = "".join(char if char.isprintable() else " " for char in text)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", MENTION.sub("&#64;", line))


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """A table whose first `left` columns are text and whose others are numbers."""
    rule = [":--" if index < left else "--:" for index in range(len(head))]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def _table(table: Table) -> Iterator[str]:
    yield f"## {escape(table.title)}"
    yield ""
    yield escape(formatting.sentence(table.facts))
    yield ""
    if about := table.entries[0].row.about.get(table.headline):
        yield f"Headline: **{escape(table.headline)}**, {escape(about)}"
        yield ""
    yield from grid(_head(table), [_cells(table, entry) for entry in table.entries], left=2)
    yield ""
    yield from _protocols(table)
    yield from _published(table)
    yield from _records(table)
    for note in table.notes:
        yield f"> {escape(note)}"
        yield ""
    for category in dict.fromkeys(name for entry in table.entries for name in entry.row.breakdowns):
        yield from _breakdown(table, category)


def _grid(made: Grid) -> Iterator[str]:
    """A paper's table: the printed number in italics, ours behind it."""
    if any(cell.printed for _, cells in made.rows for cell in cells):
        yield "Numbers in *italics* are the paper's as printed, the others measured by runs."
        yield ""
    cells = made.rows[0][1]
    yield from grid(
        ["", *(escape(cell.column) for cell in cells)],
        [[escape(name), *map(_cell, cells)] for name, cells in made.rows],
        left=1,
    )
    yield ""
    for name, cells in made.rows:
        for cell in cells:
            if cell.reproduction is not None:
                text = formatting.comparison_text(cell.reproduction)
                yield f"- {escape(f'{name}, {cell.column}: {text}')}"
    yield ""


def _cell(cell: Cell) -> str:
    ours = formatting.beside(cell.value, cell.printed, cell.unit)
    paper = "" if cell.printed is None else f"*{escape(cell.printed)}*"
    return " ".join(filter(None, (paper, ours))) or formatting.NOTHING


def _protocols(table: Table) -> Iterator[str]:
    """The rows' predictions by the other protocols of the benchmark, where they were scored."""
    names = dict.fromkeys(one.protocol for entry in table.entries for one in entry.protocols)
    if not names:
        return
    yield "<details open><summary>The same predictions by every protocol</summary>"
    yield ""
    head = [
        "Model",
        *(escape(f"{name} (this table)" * (name == table.protocol) or name) for name in names),
    ]
    rows = []
    for entry in table.entries:
        found = {one.protocol: one for one in entry.protocols}
        cells = (found.get(name) for name in names)
        texts = (
            f"{one.headline} {formatting.number(one.value)}"
            if one and one.headline
            else formatting.NOTHING
            for one in cells
        )
        rows.append([escape(entry.row.name), *map(escape, texts)])
    yield from grid(head, rows, left=1)
    yield ""
    for one in next(entry.protocols for entry in table.entries if entry.protocols):
        papers = f" Papers: {'; '.join(one.papers)}." if one.papers else ""
        yield f"- {escape(f'{one.protocol}: {one.reason or one.about}{papers}')}"
    yield ""
    yield "</details>"
    yield ""


def _published(table: Table) -> Iterator[str]:
    """The rows of papers, in a table of their own: they are not measured here and not ranked."""
    if not table.published:
        return
    yield "Published, not measured here: no rank, no interval, and nothing is compared with them."
    yield ""
    head = ["Paper", "Row", *map(escape, table.metrics), "Protocol", "Remarks"]
    rows = []
    for row in table.published:
        first = row.results[0]
        printed = {one.metric: f"*{escape(one.printed)}*" for one in row.results}
        source = f"{PAPERS[first.paper]}, Table {first.table}"
        protocol = f"{first.protocol}, {first.protocol_is}" if first.protocol else "unknown"
        remarks = [first.subset, first.note, *(one.defect for one in row.results)]
        rows.append(
            [
                escape(source),
                escape(row.name),
                *(printed.get(name, formatting.NOTHING) for name in table.metrics),
                escape(protocol),
                escape("; ".join(dict.fromkeys(filter(None, remarks)))),
            ]
        )
    yield from grid(head, rows, left=2)
    yield ""


def _records(table: Table) -> Iterator[str]:
    """Where each number comes from: run, commit, hashes, and whether it was computed again."""
    yield "<details><summary>Records</summary>"
    yield ""
    head = ["Model", "Run", "Re-scored", "Commit", "Data", "Weights"]
    rows = [
        [
            escape(row.name),
            escape(row.run),
            "✓" if row.rescored else formatting.NOTHING,
            escape((row.commit or formatting.NOTHING)[:12] + " (changed)" * bool(row.dirty)),
            row.data[:12],
            escape(formatting.weights(row)),
        ]
        for row in (entry.row for entry in table.entries)
    ]
    yield from grid(head, rows, left=6)
    yield ""
    yield "</details>"
    yield ""


def _head(table: Table) -> list[str]:
    better = table.entries[0].row.better
    names = [escape(formatting.heading(name, better[name])) for name in table.metrics]
    return [
        "Rank",
        "Model",
        names[0],
        "95 % interval",
        "To best",
        *names[1:],
        "Answered",
        "Failures",
    ]


def _cells(table: Table, entry: Entry) -> list[str]:
    row = entry.row
    return [
        formatting.NOTHING if entry.rank is None else str(entry.rank),
        escape(formatting.marked_name(row)) + _training_text(row),
        formatting.number(row.value),
        formatting.span(row.interval),
        _to_best(entry),
        *(formatting.number(row.metrics.get(name)) for name in table.metrics[1:]),
        formatting.percent(row.answered_share),
        formatting.failures(row) or "0",
    ]


def _training_text(row: Row) -> str:
    """The recorded training behind a row, in brackets behind its model's name."""
    made = row.training
    if made is None or made.folder is None:
        return ""
    name = escape(formatting.training_name(made))
    return f" (training [{name}]({made.link}))" if made.link else f" (training {name})"


def _to_best(entry: Entry) -> str:
    if entry.to_best is None:
        return ""
    difference = formatting.signed_number(entry.to_best.difference)
    if entry.to_best.interval is None:
        return difference
    return f"{difference} ({formatting.signed_span(entry.to_best.interval)})"


def _breakdown(table: Table, category: str) -> Iterator[str]:
    values = dict.fromkeys(
        value for entry in table.entries for value in entry.row.breakdowns.get(category, {})
    )
    rows = []
    for value in values:
        cells = [entry.row.breakdowns.get(category, {}).get(value) for entry in table.entries]
        count = next(cell["n"] for cell in cells if cell)
        numbers = [
            formatting.number(cell["metrics"].get(table.headline) if cell else None)
            + formatting.cut_of(entry.row, category, value)
            for entry, cell in zip(table.entries, cells, strict=True)
        ]
        rows.append([escape(value), f"{count:,}", *numbers])
    summary = html.escape(f"{table.headline} by {' '.join(category.split())}")
    yield f"<details><summary>{summary}</summary>"
    yield ""
    models = [escape(entry.row.name) for entry in table.entries]
    yield from grid([escape(category), "Samples", *models], rows, left=1)
    yield ""
    yield "</details>"
    yield ""
