"""Write a board as files: Markdown for reviews, JSON for programs, tables for papers."""

from collections.abc import Iterable
from pathlib import Path

from harness.leaderboards.board import Board
from harness.leaderboards.render import json, markdown
from harness.leaderboards.render.files import FORMATS
from harness.leaderboards.render.links import with_relative_links
from harness.leaderboards.render.summary import Style, summary
from harness.store.atomic import write_bytes


def write(board: Board, out: Path) -> tuple[Path, ...]:
    """Write `board.md` and `board.json` into folder `out`, each atomically.

    Rows link the trainings of their checkpoints if these lie in `out` or beside it (`links`).

    Returns:
        The two paths.

    Raises:
        StoreError: the disk is full or read-only.
    """
    out.mkdir(parents=True, exist_ok=True)
    board = with_relative_links(board, out)
    contents = {
        "board.md": markdown.render(board),
        "board.json": json.render(board),
    }
    for name, text in contents.items():
        # A response may hold half of a surrogate pair, which UTF-8 cannot encode.
        write_bytes(out / name, text.encode("utf-8", "replace"))
    return tuple(out / name for name in contents)


def write_tables(
    board: Board,
    out: Path,
    formats: Iterable[str],
    style: Style,
    *,
    data_root: Path | None = None,
) -> tuple[Path, ...]:
    """Write the board as one table of models × tasks, in some of `FORMATS`; return the paths.

    Raises:
        UsageError: no table has a metric that is asked for.
        StoreError: the disk is full or read-only.
    """
    if not (formats := list(formats)):
        return ()
    table = summary(board, style, data_root=data_root)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in formats:
        file, render = FORMATS[name]
        write_bytes(out / file, render(table).encode("utf-8", "replace"))
        paths.append(out / file)
    return tuple(paths)
