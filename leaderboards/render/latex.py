"""Write a board's summary as a LaTeX table for a paper, which needs the package booktabs alone."""

import re

from harness.leaderboards.formatting import NOTHING
from harness.leaderboards.render.summary import Cell, Column, Summary, grouped

ESCAPES = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{char: rf"\{char}" for char in "{}$&#_%"},
    "–": "--",
    "—": "---",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\to$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "μ": r"$\mu$",
    "…": r"\ldots{}",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"\S{}",
    "¶": r"\P{}",
    "²": "$^2$",
    "³": "$^3$",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "\N{NO-BREAK SPACE}": "~",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
}
ARROWS = {"higher": r" $\uparrow$", "lower": r" $\downarrow$"}
UNICODE_NOTE = "% Some characters need XeLaTeX or LuaLaTeX.\n"
"""First line of a table with characters that `ESCAPES` lacks, beyond Latin-1."""


def escape(text: str) -> str:
    r"""Escape a text so that LaTeX prints it unchanged.

    >>> print(escape("a_b & 50 % <x> \\end{table}"))
    a\_b \& 50 \% \textless{}x\textgreater{} \textbackslash{}end\{table\}
    """
    line = "".join(char if char.isprintable() or char == "\u00a0" else " " for char in text)
    return "".join(ESCAPES.get(char, char) for char in line)


def render(summary: Summary) -> str:
    """Return the table as a float of its own, with short footnotes below.

    The full footnotes are comments above it.
    A number and its interval are two LaTeX columns, so that numbers are aligned.
    """
    span = 1 if summary.spread == "none" else 2  # LaTeX columns of a metric
    groups, rules, first_column = [], [], 2  # the first column has the models' names
    for column, count in grouped(summary.columns):
        end = first_column + span * count - 1
        rules.append(rf"\cmidrule(lr){{{first_column}-{end}}}")
        text = rf"{escape(column.task)}\textsuperscript{{{column.mark}}}"
        groups.append(_multicolumn(span * count, text))
        first_column = end + 1
    metrics = [_multicolumn(span, _metric(column)) for column in summary.columns]
    body = [
        " & ".join([escape(name), *(_cell(cell, summary.spread) for cell in cells)]) + r" \\"
        for name, cells in summary.rows
    ]
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escape(summary.title)}{'' if summary.title[-1:] in {*'.?!'} else '.'}}}",
        rf"\label{{{summary.label or f'tab:{label(summary.title)}'}}}",
        r"\smallskip",
        rf"\begin{{tabular}}{{l{('r' if span == 1 else 'r@{}l') * len(summary.columns)}}}",
        r"\toprule",
        " & ".join(["", *groups]) + r" \\",
        "".join(rules),
        " & ".join(["Model", *metrics]) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\footnotesize\raggedright",
        *(_note(mark, text) for mark, text in summary.short_footnotes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    text = "\n".join(lines) + "\n"
    is_beyond_latin1 = any(ord(char) > 0xFF for char in text)
    comments = "".join(
        f"% {mark}{': ' if mark else ''}{escape(note)}\n"
        for mark, note in summary.footnotes
        if (mark, note) not in summary.short_footnotes
    )
    return (
        "% \\usepackage{booktabs}\n" + (UNICODE_NOTE if is_beyond_latin1 else "") + comments + text
    )


def label(title: str) -> str:
    """Return a title as the name of a LaTeX label.

    >>> label("Leaderboard: a & b")
    'leaderboard-a-b'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "leaderboard"


def _multicolumn(count: int, text: str) -> str:
    return rf"\multicolumn{{{count}}}{{c}}{{{text}}}"


def _metric(column: Column) -> str:
    unit = r" (\%)" if column.is_percent else ""
    return escape(column.metric) + unit + ARROWS[column.better]


def _cell(cell: Cell, spread: str) -> str:
    """Return a number and, in the next LaTeX column, its interval; bold if it is the best."""
    number = cell.value.replace("-", "$-$") or escape(NOTHING)
    text = rf"\textbf{{{number}}}" if cell.is_best else number
    if spread == "none":
        return text
    if not cell.low:
        return f"{text} &"
    low, high = (end.replace("-", "$-$") for end in (cell.low, cell.high))
    in_pm = spread == "pm" and cell.plus_minus
    reach = rf"$\pm${cell.plus_minus}" if in_pm else rf"[{low}, {high}]"
    return rf"{text} & {{\scriptsize\,{reach}}}"


def _note(mark: str, text: str) -> str:
    before = rf"\textsuperscript{{{mark}}}\," if mark else ""
    return before + escape(text) + r"\par"
