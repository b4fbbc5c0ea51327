"""The index of a site (facts about all its tables), its start page, and the front end's files."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from harness.errors import counted
from harness.leaderboards import formatting
from harness.leaderboards.board import Board
from harness.leaderboards.render import sections
from harness.leaderboards.render.pages import fill
from harness.leaderboards.site.columns import CHUNK
from harness.leaderboards.site.keys import keys
from harness.leaderboards.site.media import THUMB, THUMB_COLUMNS, THUMBS
from harness.version import __version__

VERSION = 1  # of index.js
STATIC = ("site.js", "site.css", "licences.txt")
"""Files of the front end that are copied unchanged."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)


def static(name: str) -> bytes:
    """Return the content of a file of the front end."""
    return files("harness.leaderboards.site").joinpath("static", name).read_bytes()


def site_json(
    board: Board,
    *,
    tables: Sequence[Mapping[str, Any]],
    trainings: int = 0,
    live: bool = False,
) -> dict[str, Any]:
    """Return the value `site` in index.js.

    Args:
        board: The board.
        tables: `runs`, `n`, `history`, `note` and `thumbs` of each table.
        trainings: Number of trainings with curves.
        live: True for a site of `harness view`, which changes.
    """
    return {
        "version": VERSION,
        "harness": __version__,
        "live": live,
        "summary": summary(board, trainings),
        "trainings": trainings,
        "rule": formatting.ranking_rule(board.level),
        "chunk": CHUNK,
        "thumbs": {"size": THUMB, "columns": THUMB_COLUMNS, "each": THUMBS},
        "tables": [
            {
                "id": f"t{number}",
                "key": key,
                "title": table.title,
                "facts": formatting.sentence(table.facts),
                "about": table.entries[0].row.about.get(table.headline, ""),
                **table_facts,
            }
            for number, (table, key, table_facts) in enumerate(
                zip(board.tables, keys(board.tables), tables, strict=True)
            )
        ],
    }


def summary(board: Board, trainings: int = 0) -> str:
    """Summarise the board in one line."""
    trained = counted(trainings, "training") if trainings else ""
    if trained and not board.tables:
        return trained
    rows = [entry.row for table in board.tables for entry in table.entries]
    models, tasks = len({row.name for row in rows}), len({row.task for row in rows})
    answers = sum(row.n_total for row in rows)
    return (
        f"{counted(models, 'model')} on {counted(tasks, 'task')}, from "
        f"{counted(len(rows), 'run')} with {counted(answers, 'prediction')}"
        + (f", {len(board.refused)} refused" if board.refused else "")
        + (f"; {trained}" if trained else "")
    )


def start_page(board: Board) -> bytes:
    """Return index.html, which shows the tables if there is no JavaScript.

    The page's content security policy allows no scripts but the site's own files.
    """
    page = fill(
        "index.html",
        policy=POLICY,
        title=board.title,
        summary=summary(board),
        blocks=sections.blocks(board, full=False),
    )
    return page.encode("utf-8", "replace")
