"""Write a board's summary (models × tasks) as Markdown or CSV; `FORMATS` lists all writers."""

import csv
import io

from harness.leaderboards.formatting import ARROWS, NOTHING
from harness.leaderboards.render.latex import render as latex
from harness.leaderboards.render.markdown import escape, grid
from harness.leaderboards.render.summary import Cell, Column, Render, Summary

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""


def markdown(summary: Summary) -> str:
    """Return the table as Markdown with its footnotes; columns name task and metric."""
    head = ["Model", *(_heading(column) for column in summary.columns)]
    rows = [
        [escape(name), *(_cell(cell, summary.spread) for cell in cells)]
        for name, cells in summary.rows
    ]
    notes = [
        (f"<sup>{mark}</sup> " if mark else "") + escape(text) for mark, text in summary.footnotes
    ]
    paragraphs = [f"# {escape(summary.title)}", "\n".join(grid(head, rows, left=1)), *notes]
    return "\n\n".join(paragraphs) + "\n"


def _heading(column: Column) -> str:
    unit = " (%)" if column.is_percent else ""
    task, metric = escape(column.task), escape(column.metric)
    return f"{task}<sup>{column.mark}</sup>: {metric}{unit} {ARROWS[column.better]}"


def _cell(cell: Cell, spread: str) -> str:
    if not cell.value:
        return NOTHING
    text = f"**{cell.value}**" if cell.is_best else cell.value
    if spread == "pm" and cell.plus_minus:
        return f"{text} ± {cell.plus_minus}"
    return f"{text} [{cell.low}, {cell.high}]" if spread != "none" and cell.low else text


def table_csv(summary: Summary) -> str:
    """Return the table as CSV: a row for each model, with each number and the ends of its interval.

    Columns name the protocol; empty cells are missing numbers. A name that a spreadsheet would take
    for a formula begins with an apostrophe.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    ends = () if summary.spread == "none" else ("low", "high")
    head = ["model"]
    for column in summary.columns:
        unit = " (%)" if column.is_percent else ""
        name = f"{column.task} [{column.protocol}] {column.metric}{unit}"
        head += [name, *(f"{name} {end}" for end in ends)]
    writer.writerow(map(_plain, head))
    for name, cells in summary.rows:
        row = [_plain(name)]
        for cell in cells:
            row += [cell.value, *((cell.low, cell.high) if ends else ())]
        writer.writerow(row)
    return file.getvalue()


def _plain(text: str) -> str:
    """Return a cell in one line that a spreadsheet does not run as a formula."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return f"'{line}" if line.startswith(FORMULA_STARTS) else line


FORMATS: dict[str, tuple[str, Render]] = {
    "latex": ("table.tex", latex),
    "markdown": ("table.md", markdown),
    "csv": ("table.csv", table_csv),
}
"""(file name, writer) of each format."""
