"""Records of questions whose right answers lie in a second file, or in several records.

The commands that `data init` prints call `joined` and `merged` with the paths of files.
"""

import base64
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

from harness.errors import DataError, counted
from harness.foreign import new_name, to_lines
from harness.tasks.qa.tables import is_lines
from harness.tasks.table.cells import is_empty, plain_value, right_texts
from harness.tasks.table.draft_fields import NAMES, columns_of, named
from harness.tasks.table.nested import flat
from harness.tasks.table.rows import Record, file_columns, table_records

MODULE = "harness.tasks.table.joined"
ID = re.compile(NAMES["id"], re.IGNORECASE)
BY_ID = "question_id of the object"
"""Field of the ids in a file that is an object of answers by ids."""
QUESTION_ID = re.compile(r"(?:question_?|q_?)(?:id|idx|index|uid)", re.IGNORECASE)
"""Names of fields of the id of a question, also in a record that is not of a question."""
OF_PERSON = re.compile(rf"{NAMES['id']}|.*(?:annotator|worker|user|answer).*", re.IGNORECASE)
"""Names of fields in which records of one question may differ beside the answer."""
OTHER_NAMES = (
    ("questions", "answers"),
    ("questions", "subset_answers"),
    ("question", "answer"),
    ("_q.", "_a."),
)
"""Parts of the names of two files that belong together."""


def of_second_file(table: Path, records: Sequence[Record]) -> str:
    """Return what to do about questions whose answers lie in a second file; "" for others.

    It is the file beside the table whose name says so, or one to be named.
    """
    if not records or not named(records, "question") or named(records, "answer"):
        return ""
    names = [table.name.replace(a, b) for a, b in OTHER_NAMES if a in table.name]
    second = next((n for n in names if table.with_name(n).is_file()), f"ANSWERS{table.suffix}")
    typed = to_lines(f"{MODULE}.joined(*sys.argv[1:])", "FILES", MODULE)
    typed = typed.replace(" FILES > ", f" {quote(table.name)} {quote(second)} > ")
    return f"if the right answers lie in a second file, {typed}, named NEW.jsonl, joins both"


def refuse_half(table: Path) -> None:
    """Raise DataError if the one list in an object of JSON has questions without answers."""
    if typed := of_second_file(table, list(_records(table))):
        to = new_name(table.name, ".json")
        alone = f"`jq '.[]' {quote(table.name)} > {to}` makes a list of this file alone"
        what = "an object with a list of questions without answers"
        fix = f"I{typed[1:]}; {alone}."
        raise DataError(f"file {table}", expected="a list of records", found=what, fix=fix)


def several_answers(
    table: Path, records: Sequence[Record], answer: str, same: Sequence[str]
) -> str:
    """Return a doubt about records that are equal but for their answers and ids; "" without any.

    `same` are the fields of the question and of its media.
    """
    groups = [group for group in _grouped(records, same).values() if len(group) > 1]
    differing = {name for group in groups for name in group[0].keys() - _common(group).keys()}
    if answer not in differing or not all(map(OF_PERSON.fullmatch, differing - {answer})):
        return ""
    given = ", ".join(["sys.argv[1]", *map(repr, (answer, *same))])
    typed = to_lines(f"{MODULE}.merged({given})", table.name, MODULE)
    return (
        f"{counted(len(groups), 'question')} with answers in several records: if all are right, "
        f"{typed}, named NEW.jsonl, makes one record of each"
    )


def joined(questions: str, answers: str) -> Iterator[Record]:
    """Yield the records of a file of questions with their right answers in a second file.

    Several answers to a question are a list. Other fields that both have are the first one's.
    Questions without an answer are left out if the second file is an object of answers by ids; a
    line of standard error counts them.

    Raises:
        DataError: no field says which answer is whose, or a question has none.
    """
    question_rows, by_id = list(_records(Path(questions))), _by_id(Path(answers))
    answer_rows = by_id or list(_records(Path(answers)))
    field = next(iter(named(answer_rows, "answer")), "") if answer_rows else ""
    mine, theirs = _keys(question_rows, answer_rows) if question_rows and field else ("", "")
    groups = _grouped(answer_rows, [theirs])
    if by_id and mine:
        answered = [row for row in question_rows if _key(row, [mine]) in groups]
        if answered and len(answered) < len(question_rows):
            n_open = counted(len(question_rows) - len(answered), "question")
            sys.stderr.write(f"{n_open} of {len(question_rows)} without an answer left out\n")
            question_rows = answered
    if not mine or not {_key(row, [mine]) for row in question_rows} <= groups.keys():
        ids = [
            ", ".join(filter(ID.fullmatch, rows[0] if rows else ()))
            for rows in (question_rows, answer_rows)
        ]
        raise DataError(
            f"files {questions} and {answers}",
            expected="an id of each question, which an answer of the second file has",
            found=f"the ids {ids[0] or '–'} and {ids[1] or '–'}, and the answer {field or '–'}",
        )
    keys = {_key(row, [mine]) for row in question_rows}
    if n_other := sum(len(group) for key, group in groups.items() if key not in keys):
        sys.stderr.write(f"{counted(n_other, 'answer')} to no question left out\n")
    if n_several := sum(len(groups[key]) > 1 for key in keys):
        several = counted(n_several, "question")
        sys.stderr.write(f"{several} with answers in several records, all of which are right\n")
    for row in question_rows:
        group = groups[_key(row, [mine])]
        texts = [part for entry in group for part in right_texts(entry.get(field))]
        common = {name: cell for name, cell in _common(group).items() if name != BY_ID}
        yield {**common, **row, field: texts if len(texts) > 1 else texts[0]}


def merged(path: str, answer: str, *same: str) -> Iterator[Record]:
    """Yield a record for all those that are equal in the fields `same`; its answers are a list.

    Ids and names of persons in which they differ are left out; records that differ in another field
    stay apart. Fields in objects have names with dots. Images in bytes are in base64.
    """
    rows = [
        {name: _plain(cell) for name, cell in flat(row).items()} for row in _records(Path(path))
    ]
    others = [n for n in columns_of(rows) if n != answer and not OF_PERSON.fullmatch(n)]
    for group in _grouped(rows, [*same, *others]).values():
        cells = [row[answer] for row in group if not is_empty(row.get(answer))]
        texts = map(_numbers_of, chain(*map(right_texts, cells)))
        parts = {json.dumps(part): part for part in texts}
        yield _common(group) | {answer: [*parts.values()]}


def _numbers_of(part: object) -> object:
    """Return the numbers of a text such as "[10, 20, 30, 40]", or what is given."""
    numbers = plain_value(part)
    if not isinstance(numbers, list) or len(numbers) < 2:
        return part
    is_place = all(type(side) in (int, float) and math.isfinite(side) for side in numbers)
    return numbers if is_place else part


def _by_id(path: Path) -> list[Record]:
    """Return the records of an object of answers by the ids of their questions; [] for others."""
    if path.suffix.lower() != ".json" or is_lines(path):
        return []
    plain = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(plain, dict) or len(plain) < 2 or _only_list(plain):
        return []
    if all(isinstance(answer, dict) for answer in plain.values()):
        return [{BY_ID: name, **answer} for name, answer in plain.items()]
    return [{BY_ID: name, "answer": answer} for name, answer in plain.items()]


def _only_list(plain: dict[str, Any]) -> list[Any]:
    """Return the one list of objects in an object; [] if there is none, or several."""
    lists = [v for v in plain.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
    return lists[0] if len(lists) == 1 else []


def _records(path: Path) -> Iterator[Record]:
    """Yield the records of a table or of the one list of an object, but for inactive ones."""
    rows: Iterable[Record] = ()
    if path.suffix.lower() == ".json" and not is_lines(path):
        plain = json.loads(path.read_text(encoding="utf-8-sig"))
        rows = _only_list(plain) if isinstance(plain, dict) else plain
        rows = rows if isinstance(rows, list) else ()
    else:
        rows = (parse() for _, parse in table_records(path, file_columns(path)))
    return (row for row in rows if isinstance(row, dict) and row.get("active") is not False)


def _keys(question_rows: Sequence[Record], answer_rows: Sequence[Record]) -> tuple[str, str]:
    """Return the id of questions, which does not repeat, and the answers' field of it.

    What both files call the question's id comes first; an answer's own `id` is not a question's.
    """
    mine, theirs = (list(filter(ID.fullmatch, rows[0])) for rows in (question_rows, answer_rows))
    if BY_ID in answer_rows[0]:
        keys = {str(row[BY_ID]) for row in answer_rows}
        ids = {name: [str(row.get(name)) for row in question_rows] for name in mine}
        fitting = [n for n in mine if keys <= {*ids[n]} and len({*ids[n]}) == len(ids[n])]
        of_question = [name for name in fitting if QUESTION_ID.fullmatch(name)] or fitting
        return (of_question[0], BY_ID) if len(of_question) == 1 else ("", "")
    pairs = [(name, name) for name in mine if name in theirs and QUESTION_ID.fullmatch(name)]
    pairs += [("id", name) for name in theirs if QUESTION_ID.fullmatch(name) and "id" in mine]
    pairs += [(name, name) for name in mine if name in theirs]
    single = (
        pair for pair in pairs if len(_grouped(question_rows, pair[:1])) == len(question_rows)
    )
    return next(single, ("", ""))


def _key(row: Record, names: Sequence[str]) -> tuple[str, ...]:
    """Return the values of fields as texts: an id may be a number in one file alone."""
    return tuple(str(row.get(name)) for name in names)


def _grouped(rows: Iterable[Record], names: Sequence[str]) -> dict[tuple[str, ...], list[Record]]:
    """Return the records by the values of fields."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(_key(row, names), []).append(row)
    return groups


def _common(group: Sequence[Record]) -> Record:
    """Return the fields that have the same value in all records."""
    return {n: v for n, v in group[0].items() if all(row.get(n) == v for row in group)}


def _plain(cell: object) -> object:
    """Return a cell as JSON can have it: an image in bytes is in base64."""
    if isinstance(cell, list):
        return list(map(_plain, cell))
    raw = cell.get("bytes") if isinstance(cell, dict) else cell
    return base64.b64encode(raw).decode() if isinstance(raw, bytes) else cell
