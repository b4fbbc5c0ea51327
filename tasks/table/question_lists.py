"""Find questions in lists below the records of a file, and say how to make a record of each."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from harness.errors import DataError
from harness.foreign_lines import command
from harness.layout import JsonFile
from harness.tasks.table.cells import plain_value
from harness.tasks.table.draft_fields import NAMES, named
from harness.tasks.table.nested import OPTIONS
from harness.tasks.table.object_lists import of_objects
from harness.tasks.table.rows import Record, per_record

WHAT = ("question", "answer")
LOOKED_AT = 20
"""Number of members of an object that are looked through for questions."""
ASKED = (
    'def asks: type == "object" and has(%(question)s); def is_asked: asks and has(%(answer)s); '
    "def asked($about; $keys): if is_asked or (asks and all(..; is_asked | not)) "
    "then . as $own | ($about | with_entries("
    "if .key as $key | $own | has($key) and .[$key] != $about[$key] then "
    '.key |= "record_" + . else . end)) + ($keys | map(strings) '
    "| select(length > 1 or ($keys | length) == 1) // [] "
    '| to_entries | map({("key" + if .key > 0 then "_\\(.key + 1)" else "" end): .value}) '
    '| add // {} | if . == {} then . else .id = ($keys | map(tostring) | join("/")) end) '
    "| $own + with_entries(select(.key as $key | $own | has($key) | not))%(named)s else "
    '(if type == "object" then with_entries(select(any(.value | ..; is_asked) | not)) else {} end) '
    'as $beside | (type == "array" and any(.[]; is_asked)) as $is_list | keys_unsorted[] as $key '
    "| .[$key] | select(any(..; is_asked) or ($is_list and asks)) "
    "| asked($about + $beside; $keys + [$key]) end; "
    "asked({}; [])"
)
"""Program of jq that makes a record of each question below objects and lists.

It has the fields of all objects around it, as `record_NAME` where the question has another value of
that name. If several names lead to it, or one alone, they are `key`, `key_2`, …, and its `id` if it
has none. A question without an answer, in a list of others, is kept.
"""


def of_questions(table: Path, records: Sequence[Record]) -> str:
    """Return what to do about questions in a list of each record; "" if records are questions."""
    if parallel := _of_parallel(table, records):
        return parallel
    if named(records, "question") and named(records, "answer"):
        return ""
    for name in records[0]:
        entries = (entry for row in records for entry in _objects(plain_value(row.get(name))))
        names = next(filter(None, map(_names, entries)), None)
        is_options = re.fullmatch(OPTIONS, name, re.IGNORECASE)
        if names and not is_options and "." not in name and not of_objects(table, records[0]):
            makes = f"{_makes(table, names)} makes a record of each"
            if table.suffix.lower() not in (".json", ".jsonl"):
                makes = "write a record for each"
            return f"questions are in the list {name!r}: {makes}"
    return ""


def _of_parallel(table: Path, records: Sequence[Record]) -> str:
    """Return what to do about a list of questions and one of their answers in a record, or ""."""
    pair = [
        next((n for n in records[0] if re.fullmatch(f"(?:{NAMES[what]})s?", n, re.IGNORECASE)), "")
        for what in WHAT
    ]
    lists = [[plain_value(row.get(name)) for name in pair] for row in records]
    if not all(isinstance(a, list) and isinstance(b, list) and len(a) == len(b) for a, b in lists):
        return ""
    question, answer = (f".[{json.dumps(name)}]" for name in pair)
    program = (
        f'if ({question} | length) != ({answer} | length) then error("lists of other lengths") '
        f"else . as $record | [{question}, {answer}] | transpose[] "
        f"| ($record | del({question}, {answer})) + {{question: .[0], answer: .[1]}} end"
    )
    makes = per_record(table, program, "makes a record of each") or "write a record for each"
    return f"{pair[1]} has an answer to each of {pair[0]}: {makes}"


def refuse_nested(table: Path) -> None:
    """Raise DataError if an object of JSON has questions in or below the objects of its keys."""
    for member in islice(JsonFile(table).entries(), LOOKED_AT):
        plain = member.parse()
        for entry in _objects(plain) if isinstance(plain, dict) else ():
            if (names := _names(entry)) and entry is not plain:
                raise DataError(
                    f"file {table}",
                    expected="a record for each question",
                    found="questions below objects",
                    fix=f"{_makes(table, names)} makes these.",
                )


def _makes(table: Path, names: Mapping[str, str]) -> str:
    """Return the command, and the name that its file needs."""
    quoted = {what: json.dumps(name) for what, name in names.items()}
    letters = {what: name for what, name in names.items() if len(name) == 1}
    new = ", ".join(f"{what}: .{name}" for what, name in letters.items())
    renamed = (
        f" | . + {{{new}}} | del({', '.join(f'.{n}' for n in letters.values())})" if new else ""
    )
    return f"{command(ASKED % {**quoted, 'named': renamed}, table.name)}, named NEW.jsonl,"


def _objects(plain: object) -> Iterator[Mapping[str, object]]:
    """Yield the objects in lists and objects, at any depth."""
    if isinstance(plain, dict):
        yield plain
        plain = [*plain.values()]
    for part in plain if isinstance(plain, list) else ():
        yield from _objects(part)


def _names(entry: Mapping[str, object]) -> dict[str, str] | None:
    """Return the names of the fields of a question and of its answer; None for other objects."""
    letters = {what: next((k for k in entry if str(k).lower() == what[0]), "") for what in WHAT}
    if {"b", "B"} & entry.keys():  # beside it, A is an option
        del letters["answer"]
    elif all(letters.values()):  # as in DriveLM
        return letters
    names = {
        what: next((k for k in entry if re.fullmatch(NAMES[what], str(k), re.IGNORECASE)), "")
        or letters.get(what, "")
        for what in WHAT
    }
    return names if all(names.values()) else None
