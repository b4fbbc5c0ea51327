"""A summary of a board in LaTeX, to be read into a paper: booktabs and nothing else."""

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
BEYOND = "% Some characters need XeLaTeX or LuaLaTeX.\n"


def escape(text: str) -> str:
    r"""Text that LaTeX sets as it is.

    >>> print(escape("a_b & 50 % <x> \\end{table}"))
    a\_b \& 50 \% \textless{}x\textgreater{} \textbackslash{}end\{table\}
    """
    line = "".join(char if char.isprintable() or char == "\u00a0" else " " for char in text)
    return "".join(ESCAPES.get(char, char) for char in line)


def render(summary: Summary) -> str:
    """The table as a float of its own, with its footnotes below.

    A number and its interval are two columns, so that numbers stand below each other.
    """
    wide = 1 if summary.spread == "none" else 2
    groups, rules, place = [], [], 2
    for column, count in grouped(summary.columns):
        end = place + wide * count - 1
        rules.append(rf"\cmidrule(lr){{{place}-{end}}}")
        text = rf"{escape(column.task)}\textsuperscript{{{column.mark}}}"
        groups.append(_across(wide * count, text))
        place = end + 1
    metrics = [_across(wide, _metric(column)) for column in summary.columns]
    body = [
        " & ".join([escape(name), *(_cell(cell, summary.spread) for cell in cells)]) + r" \\"
        for name, cells in summary.rows
    ]
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escape(summary.title)}.}}",
        rf"\label{{tab:{label(summary.title)}}}",
        r"\smallskip",
        rf"\begin{{tabular}}{{l{('r' if wide == 1 else 'r@{}l') * len(summary.columns)}}}",
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
        *(_note(mark, text) for mark, text in summary.footnotes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    text = "\n".join(lines) + "\n"
    beyond = any(ord(char) > 0xFF for char in text)
    return "% \\usepackage{booktabs}\n" + BEYOND * beyond + text


def label(title: str) -> str:
    """Return a title as the name of a label.

    >>> label("Leaderboard: a & b")
    'leaderboard-a-b'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "leaderboard"


def _across(count: int, text: str) -> str:
    return rf"\multicolumn{{{count}}}{{c}}{{{text}}}"


def _metric(column: Column) -> str:
    unit = r" (\%)" if column.is_percent else ""
    return escape(column.metric) + unit + ARROWS[column.better]


def _cell(cell: Cell, spread: str) -> str:
    """A number, and behind it, in a column of its own, what is known of its interval."""
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
