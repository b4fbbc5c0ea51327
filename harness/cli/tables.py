"""Results as text, folded to the width of the terminal without cutting words."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.cli.output import say
from harness.errors import counted, one_line
from harness.provenance import is_rehearsal

ENDLESS_WIDTH = 10_000
"""Width if the output is not a terminal: lines stay whole for other programs."""
REHEARSAL_REMARK = "REHEARSAL with random stand-ins of the networks: the scores mean nothing"
MIN_WIDTH = 24
"""Smallest width for a text beside its row's cells; a narrower one is printed below the row."""


def width() -> int:
    """Return the width of the terminal in columns (or $COLUMNS), `ENDLESS_WIDTH` without one."""
    return shutil.get_terminal_size((ENDLESS_WIDTH, 24)).columns


def wrap_lines(text: str, *, first: int = 0, indent: int = 0) -> Iterator[str]:
    """Yield lines that fit the terminal, broken after blanks and commas if possible.

    Args:
        text: One paragraph.
        first: Columns that another text takes before the first line.
        indent: Blanks at the start of each further line; they are part of the line.
    """
    room, line = width() - first, ""
    longest = max(MIN_WIDTH, width() - max(first, indent))
    for part in re.findall(r"[^ ,]*[ ,]*", text):  # a word with the blanks and commas after it
        for begin in range(0, len(part), longest):
            piece = part[begin : begin + longest]
            if line.strip() and len(line) + len(piece.rstrip()) > room:
                yield line.rstrip()
                line, room = " " * indent, width()
            line += piece
    yield line.rstrip()


def show_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in aligned columns; the last is folded, beside the others or below each row."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    before = sum(widths) + 2 * len(widths)  # two blanks after each column
    fits_beside = width() - before >= MIN_WIDTH
    for row in rows:
        cells = "".join(f"{cell:<{size}}  " for cell, size in zip(row[:-1], widths, strict=True))
        if fits_beside:
            lines = map(str.strip, wrap_lines(row[-1], first=before, indent=before))
            first, *others = lines
            say((cells + first).rstrip(), *(f"{' ' * before}{line}" for line in others))
        else:
            say(cells.rstrip(), *wrap_lines(f"    {row[-1]}", indent=4))


def show_results(model: str, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print each task's protocol, coverage and failures, and below them its metrics.

    `results` are public results by task; the headline comes first, with its interval.
    """
    say(*wrap_lines(model, indent=2))
    if is_rehearsal():
        say(*wrap_lines(REHEARSAL_REMARK, indent=2))
    for key, result in results.items():
        print()
        say(*wrap_lines(f"  {key}, {result['protocol']}", indent=4))
        covered = f"{result['n_scored'] / result['n_total']:.1%} covered"
        samples = counted(result["n_total"], "sample")
        say(*wrap_lines(f"    {samples}, {covered}, {failures(result)} failed", indent=4))
        if remark := marks(result):
            say(*wrap_lines(f"    {remark}", indent=6))
        names = [
            result["headline"],
            *(name for name in result["metrics"] if name != result["headline"]),
        ]
        longest = max(map(len, names))
        for name in names:
            line = f"    {name:<{longest}}  {number(result['metrics'][name])}"
            say(f"{line}  {interval(result)}" if name == result["headline"] else line)
    print()


def number(value: float | None) -> str:
    """Return a number with four decimals; a dash for None."""
    return "–" if value is None else f"{value:.4f}"


def interval(result: Mapping[str, Any]) -> str:
    """Return the headline's interval in words, or why there is none; "" if it has no value."""
    if result["metrics"][result["headline"]] is None:
        return ""
    pair = result["intervals"].get(result["headline"])
    if pair is None:  # statistics cluster by image or video, and one cluster has no spread
        return "no 95 % interval: it needs more images or videos"
    return f"95 % interval {number(pair[0])} – {number(pair[1])}"


def marks(result: Mapping[str, Any]) -> str:
    """Return a remark on responses that were cut off, repaired, or beyond the image; "" if none."""
    from harness.leaderboards.formatting import ledger_text

    ledger = result.get("ledger")
    return ledger_text(ledger, result["headline"], result["n_total"]) if ledger else ""


def failures(result: Mapping[str, Any]) -> str:
    """Return the number of failed samples, with the number of each kind."""
    n_by_kind = {failure_kind: count for failure_kind, count in result["failures"].items() if count}
    kinds_text = ", ".join(f"{count} {failure_kind}" for failure_kind, count in n_by_kind.items())
    return f"{sum(n_by_kind.values())} ({kinds_text})" if n_by_kind else "0"
