"""Write a board as JSON, for programs: `board.json`, whose schema has version `VERSION`."""

import json
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from harness.leaderboards.board import Board
from harness.leaderboards.ranked_table import RULES, Entry, Table
from harness.leaderboards.row import Row

VERSION = 2
LEVELS = 4
"""Levels of the board that have a line for each value: a row of a table is one line."""
TABLE = ("title", *RULES, "headline", "better", "ceiling", "notes")


def render(board: Board) -> str:
    """Return the board as indented JSON in ASCII, which reads the same in any encoding."""
    return indented(to_json(board), LEVELS) + "\n"


def indented(value: Any, levels: int, line: str = "\n") -> str:
    """Return JSON with one line for each value of the outer levels, indented by one space.

    Args:
        value: Plain data.
        levels: Number of nested levels that are split into lines.
        line: Line break and indent before the value's closing bracket.
    """
    if not (levels and value and isinstance(value, (dict, list, tuple))):
        return json.dumps(value, allow_nan=False)
    inner = f"{line} "
    if isinstance(value, dict):
        pairs = [
            f"{json.dumps(key)}: {indented(item, levels - 1, inner)}" for key, item in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(pairs)}{line}}}"
    items = [indented(item, levels - 1, inner) for item in value]
    return f"[{inner}{f',{inner}'.join(items)}{line}]"


def to_json(board: Board) -> dict[str, object]:
    """Return the board's content as plain data."""
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
    """Return a row as plain data, without the path of its training's folder on this machine."""
    plain = {field.name: _plain(getattr(row, field.name)) for field in fields(row)}
    if plain["training"] is not None:
        del plain["training"]["place"]
    return plain


def _plain(value: Any) -> Any:
    """Return a field of a row as plain data; unlike `asdict`, do not copy plain values."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
