"""Find questions in a list of a record, and say how to make a record of each."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.foreign_lines import command
from harness.tasks.qa.tables import is_lines
from harness.tasks.table.cells import plain_value
from harness.tasks.table.draft_fields import NAMES, named
from harness.tasks.table.object_lists import of_objects
from harness.tasks.table.rows import Record


def of_questions(table: Path, records: Sequence[Record]) -> str:
    """Return what to do about questions in a list of each record; "" if records are questions.

    The command keeps the record's own fields beside each question; one that has the name of
    another value of the question is called `record_NAME`.
    """
    if named(records, "question") and named(records, "answer"):
        return ""
    listed = {
        name: [entry for row in records for entry in _entries(row.get(name))] for name in records[0]
    }
    name = next((name for name, entries in listed.items() if _are_questions(entries)), "")
    if not name or "." in name or of_objects(table, records[0]):
        return ""
    field = f".[{json.dumps(name)}]"
    program = (
        f". as $record | ({field} // [])[] | . as $own | ($record | del({field}) | with_entries("
        "if .key as $key | $own | has($key) and .[$key] != $record[$key] then "
        '.key |= "record_" + . else . end)) + .'
    )
    if table.suffix.lower() == ".json" and not is_lines(table):
        program = f".[] | {program}"
    makes = f"{command(program, table.name)}, named NEW.jsonl, makes a record of each"
    if table.suffix.lower() not in (".json", ".jsonl"):
        makes = "write a record for each"
    return f"questions are in the list {name!r}: {makes}"


def _entries(cell: object) -> list[Mapping[str, object]]:
    """Return the objects of a list; [] for another cell."""
    plain = plain_value(cell)
    return [part for part in plain if isinstance(part, dict)] if isinstance(plain, list) else []


def _are_questions(entries: Sequence[Mapping[str, object]]) -> bool:
    """Return True if objects have fields of a question and of its answer."""
    keys = [key for key in entries[0] if isinstance(key, str)] if entries else []
    return all(
        any(re.fullmatch(NAMES[what], key, re.IGNORECASE) for key in keys)
        for what in ("question", "answer")
    )
