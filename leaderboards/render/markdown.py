"""A board as Markdown, for pull requests and terminals."""

import html
import re
from collections.abc import Iterator, Sequence

from harness.leaderboards.board import Board
from harness.leaderboards.render import sections

SPECIAL = re.compile(r"([\\`*\[\]~|$]|(?<!\S):(?=:)|(?<![^\W_])_|_(?![^\W_]))")

MENTION = re.compile(r"(?<!\w)@(?=\w)")  # a name at its start would be told of every report


def render(board: Board) -> str:
    """The board's tables, breakdowns and notes."""
    lines = [f"# {escape(board.title)}", ""]
    for block in sections.blocks(board):
        lines.extend([*_block(block), ""])
    return "\n".join(lines)


def escape(text: str) -> str:
    r"""Text that Markdown shows as it is, in one line, inside a cell too.

    It begins no workflow command of GitHub (`::`) where it begins a line of a log.

    >>> escape("a|b <script> *x* reason_seg _y_")
    'a\\|b &lt;script&gt; \\*x\\* reason_seg \\_y\\_'
    >>> print(escape("::warning::a::b"))
    \::warning::a::b
    """
    line = "".join(char if char.isprintable() else " " for char in text)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", MENTION.sub("&#64;", line))


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """A table whose first `left` columns are text and whose others are numbers."""
    rule = [":--" if index < left else "--:" for index in range(len(head))]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def _block(block: sections.Block) -> Iterator[str]:
    if isinstance(block, sections.Heading):
        yield f"## {escape(block.text)}"
    elif isinstance(block, sections.Paragraph):
        yield "> " * block.is_note + escape(block.text)
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


def _part(part: sections.Part) -> str:
    if isinstance(part, sections.Link):
        return f"[{escape(part.text)}]({part.to})"
    mark = getattr(part, "mark", "")
    return f"{mark}{escape(part)}{mark}"
