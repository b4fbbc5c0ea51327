"""A board as plain data, for programs."""

import json
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from harness.leaderboards.board import Board
from harness.leaderboards.ranked_table import RULES, Entry, Table
from harness.leaderboards.row import Row

VERSION = 2
TABLE = ("title", *RULES, "headline", "better", "ceiling", "notes")


def render(board: Board) -> str:
    """The board as indented JSON text, all of it ASCII, so that no encoding can hurt it."""
    return json.dumps(to_json(board), indent=1, allow_nan=False) + "\n"


def to_json(board: Board) -> dict[str, object]:
    """The board's content as plain data."""
    return {
        "version": VERSION,
        "title": board.title,
        "level": board.level,
        "tables": [_table(table) for table in board.tables],
        "refused": [asdict(run) for run in board.refused],
        **({} if board.grid is None else {"grid": asdict(board.grid)}),
        **({"left_off": [asdict(run) for run in board.left_off]} if board.left_off else {}),
    }


def _table(table: Table) -> dict[str, object]:
    return {
        **{name: getattr(table, name) for name in TABLE},
        "rows": [
            *(_entry(entry) for entry in table.entries),
            *(row.to_json() for row in table.published),
        ],
    }


def _entry(entry: Entry) -> dict[str, object]:
    return {
        "kind": "measured",
        "rank": entry.rank,
        "ranked_by": entry.basis,
        "to_best": None if entry.to_best is None else entry.to_best.to_json(),
        **_row(entry.row),
        "answered": entry.row.answered_share,
        "protocols": [asdict(bracketed) for bracketed in entry.protocols],
    }


def _row(row: Row) -> dict[str, Any]:
    """A row without ways through the folders of this machine; its training has a link if any."""
    plain = {field.name: _plain(getattr(row, field.name)) for field in fields(row)}
    if plain["training"] is not None:
        del plain["training"]["place"]
    return plain


def _plain(value: Any) -> Any:
    """Return a field of a row as plain data; what is plain is not copied, as `asdict` does."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
