"""A board as one self-contained HTML page.

Every text goes through `markup.element`, which escapes it. As a second wall, the page's own
content security policy names the hashes of its one style and its one script, so that nothing else
could run even if it got in, and nothing is ever fetched.
"""

import base64
import hashlib
from importlib.resources import files
from string import Template

from harness.leaderboards import formatting
from harness.leaderboards.board import Board, Table
from harness.leaderboards.render import json
from harness.leaderboards.render.markup import Markup, element, escape, join
from harness.leaderboards.render.samples import gallery
from harness.leaderboards.render.tables import breakdowns, provenance, ranking
from harness.leaderboards.row import Row
from harness.version import __version__


def render(board: Board) -> str:
    """The whole page."""
    style, script = _part("page.css") + _part("transcripts.css"), _part("page.js")
    return Template(_part("page.html")).substitute(
        policy=escape(
            f"default-src 'none'; img-src data:; style-src '{digest(style)}'; "
            f"script-src '{digest(script)}'; base-uri 'none'; form-action 'none'"
        ),
        title=escape(board.title),
        summary=escape(summary(board)),
        version=escape(__version__),
        rule=escape(formatting.ranking_rule(board.level)),
        overview=overview(board),
        tables=join(*(section(table, number=i) for i, table in enumerate(board.tables, 1))),
        style=style,
        script=script,
        data=json.embeddable_json(board),
    )


def digest(text: str) -> str:
    """The hash by which a content security policy allows an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


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


def overview(board: Board) -> Markup:
    """Every model's headline number in every table; empty for a board of one table."""
    if len(board.tables) < 2:
        return Markup("")
    rows_of: dict[str, list[Row]] = {}
    for row in (entry.row for table in board.tables for entry in table.entries):
        rows_of.setdefault(row.name, []).append(row)
    differs = {name: any(row.deviations for row in rows) for name, rows in rows_of.items()}
    adapts = {name: any(row.transductive for row in rows) for name, rows in rows_of.items()}
    heads = [
        element(
            "th",
            {"scope": "col", "class": "num"},
            element("a", {"href": f"#table-{number}"}, table.title),
            element("small", {}, formatting.heading(table.headline, table.better)),
            element("small", {}, table.protocol),
        )
        for number, table in enumerate(board.tables, 1)
    ]
    rows = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, name + " ‡" * differs[name] + " §" * adapts[name]),
            *(_overview_cell(table, name) for table in board.tables),
        )
        for name in rows_of
    ]
    head = element("tr", {}, element("th", {"scope": "col"}, "Model"), *heads)
    return element(
        "section",
        {"class": "overview", "aria-label": "Overview"},
        element(
            "div",
            {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "Overview"},
            element("table", {}, element("thead", {}, head), element("tbody", {}, *rows)),
        ),
        element(
            "p",
            {"class": "hint"},
            "Bold: rank 1 in its table, shared where no difference is shown. Columns are "
            "different quantities and are not averaged."
            + " ‡: does not reproduce the paper of its method; the tables say why."
            * any(differs.values())
            + " §: transductive, its weights learn from each test sample before it is answered."
            * any(adapts.values()),
        ),
    )


def _overview_cell(table: Table, name: str) -> Markup:
    entries = [entry for entry in table.entries if entry.row.name == name]
    if not entries:
        return element("td", {"class": "num none"}, formatting.NOTHING)
    best = entries[0]
    text: str = formatting.number(best.row.value)
    return element("td", {"class": "num"}, element("strong", {}, text) if best.rank == 1 else text)


def section(table: Table, *, number: int) -> Markup:
    """One table with everything that belongs to it."""
    about = table.entries[0].row.about.get(table.headline, "")
    return element(
        "section",
        {"class": "task", "id": f"table-{number}", "aria-labelledby": f"title-{number}"},
        element("h2", {"id": f"title-{number}"}, table.title),
        element("p", {"class": "facts"}, formatting.sentence(table.facts)),
        element(
            "p",
            {"class": "about"},
            element("b", {}, formatting.heading(table.headline, table.better)),
            f" {about}" if about else "",
        ),
        *(element("p", {"class": "note"}, note) for note in table.notes),
        ranking(table),
        *breakdowns(table),
        provenance(table),
        *(
            gallery(entry, prefix=f"view-{number}-{place}")
            for place, entry in enumerate(table.entries, 1)
        ),
    )


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
