"""Names of classes in a Parquet file of the `datasets` library, whose cells hold their numbers.

The file's metadata has the library's types of the columns (`huggingface`, `info.features`); that of
a class is `{"_type": "ClassLabel", "names": [...]}`, of a list `{"_type": "List", "feature": ...}`,
in earlier versions `[...]`, and of an object `{KEY: ...}`.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import DataError, raised_as

UNLABELLED = -1
"""Number of a record without a class, as the library has it."""


def class_types(path: Path) -> dict[str, object]:
    """Return the library's type of each column that holds classes, at any depth, by the column.

    Raises:
        DataError: it is not a Parquet file.
    """
    from pyarrow import ArrowException, parquet

    with raised_as(DataError, f"table {path}", "a Parquet file", OSError, ArrowException):
        metadata: Mapping[bytes, bytes] = parquet.read_schema(path).metadata or {}
    try:
        types = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {column: kind for column, kind in types.items() if _has_classes(kind)}
    except (ValueError, KeyError, TypeError, AttributeError):  # metadata of something else
        return {}


def _has_classes(kind: object) -> bool:
    if isinstance(kind, Mapping) and kind.get("_type") == "ClassLabel":
        return isinstance(kind.get("names"), list)
    members = [*kind.values()] if isinstance(kind, Mapping) else kind
    return isinstance(members, list) and any(map(_has_classes, members))


def with_names(
    parse: Callable[[], dict[str, object]], types: Mapping[str, object], where: str
) -> dict[str, object]:
    """Return the record that `parse` reads, with the names of classes in place of their numbers.

    Raises:
        DataError: a number has no name.
    """
    return {
        column: _named(value, types.get(column), f"{where}, field {column!r}")
        for column, value in parse().items()
    }


def _named(value: object, kind: object, where: str) -> object:
    """Return a value of a type of the library with the names of its classes."""
    if isinstance(kind, Mapping) and kind.get("_type") == "ClassLabel":
        return _name(value, kind["names"], where) if _has_classes(kind) else value
    if kind is None:
        return value
    if isinstance(kind, list):
        kind = next(iter(kind), None)
    elif isinstance(kind, Mapping) and isinstance(kind.get("_type"), str):
        kind = kind.get("feature")
    if isinstance(value, list):
        return [_named(member, kind, where) for member in value]
    if isinstance(value, Mapping) and isinstance(kind, Mapping):
        return {key: _named(member, kind.get(key), where) for key, member in value.items()}
    return value


def _name(value: object, names: list[str], where: str) -> object:
    """Return the name of a class, or of each in a list; None where there is none.

    A column with missing numbers may have others as floats, and one may have the names.
    """
    if isinstance(value, list):  # of an object in a sequence, whose lists are by its keys
        return [_name(member, names, where) for member in value]
    if value is None or value != value or value == UNLABELLED:
        return None
    if isinstance(value, str) and value in map(str, names):
        return value
    if not isinstance(value, int | float) or value not in range(len(names)):
        raise DataError(
            where,
            expected=f"the number of a class, 0 to {len(names) - 1}, as the file's metadata has it",
            found=repr(value)[:40],
        )
    return str(names[int(value)])
