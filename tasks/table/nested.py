"""Fields in objects of a record, by a name with dots: `answer.value`, `answers.0.text`.

A field whose own name has the dots comes before. CSV and TSV have no objects.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from harness.tasks.table.rows import DELIMITERS, Record, file_columns, table_records

DEPTH = 4
"""Most objects, one in the other, whose fields are listed."""
OPTIONS = (
    r"(?:(?:multiple|answer|mc|multi|possible|multi_choice|multiple_choice)_?)?"
    r"(?:options|choices|candidates)|mc_answers|distractors"
    r"|(?:wrong|incorrect|false|negative)_(?:options|choices|candidates|answers)"
)
"""Names of fields of options."""
VALUES = (
    {"bytes", "path"},
    {"size", "counts"},
    {"x", "y"},
    *({a, b} for a, b in (("xmin", "ymin"), ("left", "top"), ("x1", "y1"), ("cx", "cy"))),
    {"x_center", "y_center"},
)
"""Keys of objects that are one value: an image, a run-length, a box."""


def nested_records(
    path: Path, columns: Collection[str] = (), optional: Collection[str] = ()
) -> Iterator[tuple[str, Callable[[], Record]]]:
    """Yield the records of a table as `table_records`, to which fields in objects are added.

    Fields with dots that a record lacks are left out; other missing `columns` are refused.
    """
    dotted = [name for name in (*columns, *optional) if "." in name]
    if path.suffix.lower() in DELIMITERS or not dotted:
        yield from table_records(path, columns, optional)
        return
    own = file_columns(path)
    required = [name for name in columns if name not in dotted or name in own]
    beside = [name if name in own else name.partition(".")[0] for name in (*optional, *dotted)]
    others = [name for name in dict.fromkeys(beside) if name not in required]
    for where, parse in table_records(path, required, others):
        yield where, partial(_with_fields, parse, dotted)


def _with_fields(parse: Callable[[], Record], names: Collection[str]) -> Record:
    record = parse()
    values = {name: at_path(record, name) for name in names if name not in record}
    return record | {name: value[0] for name, value in values.items() if value}


def at_path(record: Mapping[str, object], name: str) -> tuple[object, ...]:
    """Return (value,) of a field in objects and lists of a record; () if there is none.

    >>> at_path({"answers": [{"text": "a cat"}]}, "answers.0.text"), at_path({"a": 1}, "a.b")
    (('a cat',), ())
    """
    value: object = record
    for part in name.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return ()
    return (value,)


def jq_path(name: str) -> str:
    """Return the path of jq to a field in objects and lists of a record.

    >>> jq_path("answers.0.text")
    '["answers", 0, "text"]'
    """
    return json.dumps([int(part) if part.isdecimal() else part for part in name.split(".")])


def flat(record: Mapping[str, object]) -> Record:
    """Return a record with the fields of its objects in their place, named with dots.

    Objects that are one value stay: an image, a run-length, a box, options by their mark.

    >>> flat({"id": 1, "answer": {"value": 2, "unit": "m"}, "options": {"A": "x", "B": "y"}})
    {'id': 1, 'answer.value': 2, 'answer.unit': 'm', 'options': {'A': 'x', 'B': 'y'}}
    """
    return dict(_leaves(record, "", DEPTH))


def _leaves(plain: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for key, value in plain.items():
        name = f"{prefix}{key}"
        is_object = isinstance(value, dict) and bool(value) and all(type(k) is str for k in value)
        if depth and is_object and isinstance(value, dict) and not _is_value(key, value):
            yield from _leaves(value, f"{name}.", depth - 1)
        else:
            yield name, value


def _is_value(name: str, plain: Mapping[str, object]) -> bool:
    are_texts = len(plain) > 1 and not any(isinstance(v, (dict, list)) for v in plain.values())
    return (
        all(len(key) == 1 for key in plain)
        or any(keys <= plain.keys() for keys in VALUES)
        or (are_texts and re.fullmatch(OPTIONS, name, re.IGNORECASE) is not None)
    )
