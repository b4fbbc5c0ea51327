"""Names of classes in a Parquet file of the `datasets` library, whose cells hold their numbers.

The file's metadata has the library's types of the columns (`huggingface`, `info.features`); that of
a class is `{"_type": "ClassLabel", "names": [...]}`, of a list `{"_type": "List", "feature": ...}`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import DataError, raised_as

UNLABELLED = -1
"""Number of a record without a class, as the library has it."""


def class_names(path: Path) -> dict[str, list[str]]:
    """Return the names of the classes of each column that holds classes, by the column.

    Raises:
        DataError: it is not a Parquet file.
    """
    from pyarrow import ArrowException, parquet

    with raised_as(DataError, f"table {path}", "a Parquet file", OSError, ArrowException):
        metadata: Mapping[bytes, bytes] = parquet.read_schema(path).metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        names = {column: _names(feature) for column, feature in features.items()}
    except (ValueError, KeyError, TypeError, AttributeError):  # metadata of something else
        return {}
    return {column: of_column for column, of_column in names.items() if of_column}


def _names(feature: object) -> list[str]:
    """Return the names of a type of the library, or of its members; [] if it is not of classes."""
    if not isinstance(feature, Mapping):
        return []
    if feature.get("_type") == "ClassLabel":
        return list(map(str, feature["names"]))
    return _names(feature.get("feature"))


def with_names(
    record: Mapping[str, object], names: Mapping[str, Sequence[str]], where: str
) -> dict[str, object]:
    """Return a record with the names of classes in place of their numbers.

    Raises:
        DataError: a number has no name.
    """
    return {
        column: _named(value, names[column], f"{where}, field {column!r}")
        if column in names
        else value
        for column, value in record.items()
    }


def _named(value: object, names: Sequence[str], where: str) -> object:
    if isinstance(value, list):
        return [_named(member, names, where) for member in value]
    if not isinstance(value, int) or value == UNLABELLED:
        return None
    if not 0 <= value < len(names):
        raise DataError(
            where,
            expected=f"the number of a class, 0 to {len(names) - 1}, as the file's metadata has it",
            found=str(value),
        )
    return names[value]
