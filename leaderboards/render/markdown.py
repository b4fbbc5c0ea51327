"""Write a board as Markdown (`board.md`), for pull requests and terminals."""

import html
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from harness.leaderboards.board import Board
from harness.leaderboards.render import sections

SPECIAL = re.compile(r"([\\`*\[\]~|$]|(?<!\S):(?=:)|(?<![^\W_])_|_(?![^\W_]))")
"""Characters with a meaning in Markdown; `_` only at the edge of a word, `:` only as in `::error`
at the beginning of a word, which is a workflow command of GitHub."""
MENTION = re.compile(r"(?<!\w)@(?=\w)")
"""The `@` of `@name`, which would notify a user of GitHub, but not the `@` of an address."""


def render(board: Board) -> str:
    """Return the board's tables, breakdowns and notes."""
    lines = [f"# {escape(board.title)}", ""]
    for block in sections.blocks(board):
        lines.extend([*_block(block), ""])
    return "\n".join(lines)


@lru_cache(maxsize=2**12)  # numbers and names of models come in many cells
def escape(text: str) -> str:
    r"""Escape a text so that Markdown shows it unchanged, in one line, also inside a cell.

    At the start of a line of a log it is not a workflow command of GitHub (`::`) either.

    >>> escape("a|b <script> *x* reason_seg _y_")
    'a\\|b &lt;script&gt; \\*x\\* reason_seg \\_y\\_'
    >>> print(escape("::warning::a::b"))
    \::warning::a::b
    """
    if not (line := text).isprintable():
        line = "".join(char if char.isprintable() else " " for char in text)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", MENTION.sub("&#64;", line))


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Return the lines of a table whose first `left` columns are text and whose others numbers."""
    rule = [":--" if index < left else "--:" for index in range(len(head))]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def _block(block: sections.Block) -> Iterator[str]:
    """Yield the lines of a block; tables with a summary are folded."""
    if isinstance(block, sections.Heading):
        yield f"## {escape(block.text)}"
    elif isinstance(block, sections.Paragraph):
        yield ("> " if block.is_note else "") + escape(block.text)
    elif isinstance(block, sections.Cells):
        rows = [[_cell(cell) for cell in row] for row in block.rows]
        table = grid([escape(name) for name in block.head], rows, left=block.left)
        if not block.summary:
            yield from table
            return
        yield from (f"<details><summary>{html.escape(block.summary)}</summary>", "")
        yield from (*table, "", "</details>")


def _cell(cell: sections.Cell) -> str:
    return "".join(map(_part, cell)) if isinstance(cell, tuple) else _part(cell)


def _part(inline: sections.Part) -> str:
    if isinstance(inline, sections.Link):
        return f"[{escape(inline.text)}]({inline.to})"
    mark = getattr(inline, "mark", "")
    return f"{mark}{escape(inline)}{mark}"
