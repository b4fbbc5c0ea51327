"""What a site says of all its tables at once, and its start page."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from harness.leaderboards import formatting
from harness.leaderboards.board import Board, Table
from harness.leaderboards.render.markup import Markup, element, escape, join
from harness.leaderboards.row import Row
from harness.leaderboards.site.columns import CHUNK
from harness.leaderboards.site.media import THUMB, THUMB_COLUMNS, THUMBS
from harness.version import __version__

VERSION = 1
STATIC = ("site.js", "site.css", "licences.txt")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)


def static(name: str) -> bytes:
    """Return a file of the front end as it is shipped."""
    return files("harness.leaderboards.site").joinpath("static", name).read_bytes()


def keys(tables: Sequence[Table]) -> list[str]:
    """Return the names of tables in links, which say more where fewer words would fit two.

    A link thus stays as it is when other tables come and go, unless they are its twins.
    """
    steps = (
        lambda table: (table.task, table.split, table.protocol),
        lambda table: (f"v{table.task_version}", table.subset, table.judge),
        lambda table: (table.data[:8],),
    )
    found = [""] * len(tables)
    for step in steps:
        counts = Counter(found)
        for place, table in enumerate(tables):
            if not found[place] or counts[found[place]] > 1:
                found[place] = ".".join([*filter(None, [found[place]]), *_words(step(table))])
    return [key if counts == 1 else f"{key}.{place}" for place, (key, counts) in _counted(found)]


def _counted(names: Sequence[str]) -> Iterable[tuple[int, tuple[str, int]]]:
    counts = Counter(names)
    return enumerate((name, counts[name]) for name in names)


def _words(parts: Iterable[str | None]) -> list[str]:
    return [re.sub(r"[^\w-]+", "-", part).strip("-") for part in parts if part]


def site_json(
    board: Board,
    *,
    tables: Sequence[Mapping[str, Any]],
    live: bool = False,
) -> dict[str, Any]:
    """Return `site` of index.js.

    Args:
        board: The board.
        tables: For each table `runs`, `n`, `history` and `note`.
        live: True if a server makes the chunks.
    """
    return {
        "version": VERSION,
        "harness": __version__,
        "live": live,
        "summary": summary(board),
        "rule": formatting.ranking_rule(board.level),
        "chunk": CHUNK,
        "thumbs": {"size": THUMB, "columns": THUMB_COLUMNS, "each": THUMBS},
        "tables": [
            {
                "id": f"t{place}",
                "key": key,
                "title": table.title,
                "facts": formatting.sentence(table.facts),
                "about": table.entries[0].row.about.get(table.headline, ""),
                **own,
            }
            for place, (table, key, own) in enumerate(
                zip(board.tables, keys(board.tables), tables, strict=True)
            )
        ],
    }


def summary(board: Board) -> str:
    """Summarise the board in one line."""
    rows = [entry.row for table in board.tables for entry in table.entries]
    models, tasks = len({row.name for row in rows}), len({row.task for row in rows})
    answers = sum(row.n_total for row in rows)
    return (
        f"{models} {'model' if models == 1 else 'models'} on {tasks} "
        f"{'task' if tasks == 1 else 'tasks'}, from {len(rows)} "
        f"{'run' if len(rows) == 1 else 'runs'} with {answers:,} predictions"
    )


def start_page(board: Board, *, data: str = "data/index.js") -> bytes:
    """Return index.html. Where there is no JavaScript, it holds the tables themselves.

    Every text goes through `markup.element`, which escapes it; the page's content security policy
    lets no script run but the site's own files.
    """
    page = Template(static("index.html").decode()).substitute(
        policy=escape(POLICY),
        title=escape(board.title),
        summary=escape(summary(board)),
        tables=join(
            overview(board), paper_table(board), *(ranking(table) for table in board.tables)
        ),
        rule=escape(formatting.ranking_rule(board.level)),
        version=escape(__version__),
        data=escape(data),
    )
    return page.encode("utf-8", "replace")


def overview(board: Board) -> Markup:
    """Every model's headline number in every table; empty for a board of one table."""
    if len(board.tables) < 2:
        return Markup("")
    rows_of: dict[str, list[Row]] = {}
    for row in (entry.row for table in board.tables for entry in table.entries):
        rows_of.setdefault(row.name, []).append(row)
    heads = [
        join(
            table.title,
            element("small", {}, formatting.heading(table.headline, table.better)),
            element("small", {}, table.protocol),
        )
        for table in board.tables
    ]
    rows = [
        [_marked(name, rows), *(_overview_cell(table, name) for table in board.tables)]
        for name, rows in rows_of.items()
    ]
    return _table(["Model", *heads], rows)


def paper_table(board: Board) -> Markup:
    """The table of a paper, printed → measured; empty for a board of none."""
    if board.grid is None:
        return Markup("")
    cells = board.grid.rows[0][1]
    rows = [
        [
            name,
            *(
                " → ".join(
                    filter(None, (one.printed, formatting.beside(one.value, one.printed, one.unit)))
                )
                or formatting.NOTHING
                for one in row
            ),
        ]
        for name, row in board.grid.rows
    ]
    return join(
        element("h2", {}, board.grid.heading),
        _table(["Row", *(one.column for one in cells)], rows),
    )


def _marked(name: str, rows: Sequence[Row]) -> str:
    differs = any(row.deviations for row in rows)
    return name + " ‡" * differs + " §" * any(row.transductive for row in rows)


def _overview_cell(table: Table, name: str) -> str:
    best = next((entry for entry in table.entries if entry.row.name == name), None)
    if best is None:
        return formatting.NOTHING
    text: str = formatting.number(best.row.value)
    return element("strong", {}, text) if best.rank == 1 else text


def ranking(table: Table) -> Markup:
    """The rows of one table, best first."""
    head = [
        "Rank",
        "Model",
        formatting.heading(table.headline, table.better),
        "95 % interval",
        "Answered",
    ]
    rows = [
        [
            formatting.NOTHING if entry.rank is None else str(entry.rank),
            formatting.marked_name(entry.row),
            formatting.number(entry.row.value),
            formatting.span(entry.row.interval),
            formatting.percent(entry.row.answered_share),
        ]
        for entry in table.entries
    ]
    return join(
        element("h2", {}, table.title),
        element("p", {"class": "facts"}, formatting.sentence(table.facts)),
        *(element("p", {"class": "note"}, note) for note in table.notes),
        _table(head, rows),
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    return element(
        "div",
        {"class": "scroll", "tabindex": "0"},
        element(
            "table",
            {},
            element(
                "thead", {}, element("tr", {}, *(element("th", {"scope": "col"}, h) for h in head))
            ),
            element(
                "tbody",
                {},
                *(element("tr", {}, *(element("td", {}, cell) for cell in row)) for row in rows),
            ),
        ),
    )
