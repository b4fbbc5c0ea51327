"""Names of classes in a Parquet file of the `datasets` library, whose cells hold their numbers.

The library writes a description of each column into the file's metadata (`huggingface`,
`info.features`), and calls it the column's feature. The feature of a class is a `ClassLabel`,
`{"_type": "ClassLabel", "names": [...]}`; that of a list is a `List`, `{"_type": "List",
"feature": ...}`, or `[...]` in earlier versions; that of an object is `{KEY: ...}`.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import DataError, raised_as

UNLABELLED = -1
"""Number of a record without a class, as the library has it."""


def class_features(path: Path) -> dict[str, object]:
    """Return the features of the columns that hold a ClassLabel, at any depth, by the column.

    Raises:
        DataError: it is not a Parquet file.
    """
    from pyarrow import ArrowException, parquet

    with raised_as(DataError, f"table {path}", "a Parquet file", OSError, ArrowException):
        metadata: Mapping[bytes, bytes] = parquet.read_schema(path).metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {column: feature for column, feature in features.items() if _has_classes(feature)}
    except (ValueError, KeyError, TypeError, AttributeError):  # metadata of something else
        return {}


def _has_classes(feature: object) -> bool:
    """Return True for a feature that is a ClassLabel with names, or contains one."""
    if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel":
        return isinstance(feature.get("names"), list)
    members = [*feature.values()] if isinstance(feature, Mapping) else feature
    return isinstance(members, list) and any(map(_has_classes, members))


def read_with_class_names(
    parse: Callable[[], dict[str, object]], features: Mapping[str, object], where: str
) -> dict[str, object]:
    """Return the record that `parse` reads, with the names of classes in place of their numbers.

    Raises:
        DataError: a number has no name.
    """
    return {
        column: _replace_labels(value, features.get(column), f"{where}, field {column!r}")
        for column, value in parse().items()
    }


def _replace_labels(value: object, feature: object, where: str) -> object:
    """Return a value with the names of its classes in place of their numbers."""
    if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel":
        return _label_name(value, feature["names"], where) if _has_classes(feature) else value
    if feature is None:
        return value
    if isinstance(feature, list):  # of a list, in earlier versions
        feature = next(iter(feature), None)
    elif isinstance(feature, Mapping) and isinstance(feature.get("_type"), str):  # such as a List
        feature = feature.get("feature")
    if isinstance(value, list):
        return [_replace_labels(member, feature, where) for member in value]
    if isinstance(value, Mapping) and isinstance(feature, Mapping):
        return {
            key: _replace_labels(member, feature.get(key), where) for key, member in value.items()
        }
    return value


def _label_name(value: object, names: list[str], where: str) -> object:
    """Return the name of a class, or of each in a list; None where there is none.

    The number may be a float, as in a column with missing numbers, or already be the name.
    """
    if isinstance(value, list):  # of an object in a sequence, whose lists are by its keys
        return [_label_name(member, names, where) for member in value]
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
