"""Records of a benchmark, a few at a time, from Parquet, from lines of JSON, or from a list."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from harness.errors import DataError, raised_as
from harness.files import read_text
from harness.layout import JsonFile, path_inside, read_lines, rows
from harness.responses import refuse_duplicate_keys
from harness.task import Problem

MAX_LINE = 2**24  # bytes of one record
SUFFIXES = (".parquet", ".jsonl", ".json")
"""Suffixes of files that `records` reads."""
T = TypeVar("T")


def records(
    path: Path, columns: Mapping[str, str], *, optional: Mapping[str, str] | None = None
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (place, record) for each record of a file, in order.

    `.parquet`, `.jsonl` with a record a line, or `.json` with a list of records.

    Args:
        path: The file.
        columns: The required columns, each with a word on its content.
        optional: Columns that are read if the file has them.

    Raises:
        DataError: the file cannot be read, or lacks a column; a line is no JSON object.
    """
    if path.suffix == ".jsonl":
        for number, line in read_lines(path, MAX_LINE):
            where = f"{path}, line {number}"
            yield where, _record(line, columns, where)
        return
    if path.suffix == ".json":
        for entry in JsonFile(path).items():
            where = f"{path}, record {entry.key}"
            yield where, _complete(entry.parse(), columns, where)
        return
    for number, row in enumerate(rows(path, columns, optional=optional or ())):
        yield f"{path}, row {number}", row


def _record(line: bytes, columns: Mapping[str, str], where: str) -> dict[str, object]:
    if len(line) > MAX_LINE:
        raise DataError(where, expected=f"at most {MAX_LINE} bytes", found="more")
    with raised_as(DataError, where, "one JSON object", ValueError, RecursionError):
        plain = json.loads(line.decode("utf-8"), object_pairs_hook=refuse_duplicate_keys)
        json.dumps(plain, ensure_ascii=False).encode()  # no half of a surrogate pair
    return _complete(plain, columns, where)


def _complete(plain: object, columns: Mapping[str, str], where: str) -> dict[str, object]:
    if not isinstance(plain, dict):
        raise DataError(where, expected="one JSON object", found=type(plain).__name__)
    if missing := [name for name in columns if name not in plain]:
        raise DataError(where, expected=", ".join(columns), found=f"no {', '.join(missing)}")
    return plain


def sound(found: Iterable[T | DataError]) -> Iterator[T]:
    """Yield what was read, up to the first error, which is raised."""
    for one in found:
        if isinstance(one, DataError):
            raise one
        yield one


def check_each(
    found: Iterable[T | DataError], place: str, look: Callable[[T], Iterable[Problem]]
) -> Iterator[Problem]:
    """Yield every error of what was read as a problem of `place`, and what `look` finds in the
    rest.
    """
    try:
        for one in found:
            yield from (Problem(place, str(one)),) if isinstance(one, DataError) else look(one)
    except DataError as error:
        yield Problem(place, str(error))


def text(row: Mapping[str, object], name: str, where: str) -> str:
    """A field that has to be text with something in it."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {name!r}", expected="text", found=repr(value)[:40])
    return value


def number(row: Mapping[str, object], name: str, where: str) -> float:
    """Return a field that has to be a finite number, as it is in the file (whole or not)."""
    value = row.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e12:
        raise DataError(f"{where}: {name!r}", expected="a finite number", found=repr(value)[:40])
    return value


def images_of(value: object, where: str, place: Path) -> tuple[bytes | Path, ...]:
    """Return each image's bytes, or its file below the folder where the table has none.

    Args:
        value: A cell: one image or a list of them, each `{"bytes": …, "path": …}`, bytes or a name.
        where: Where it stands, for messages.
        place: The folder of files that are named.

    Raises:
        DataError: there is no image, or one without bytes and name; a name leaves the folder.
    """
    cells = value if isinstance(value, list) else [value]
    entries = [one for cell in cells for one in (cell if isinstance(cell, list) else [cell])]
    found: list[bytes | Path] = []
    for entry in entries:
        if not isinstance(entry, dict):
            entry = {"bytes" if isinstance(entry, bytes) else "path": entry}
        if data := entry.get("bytes"):
            found.append(data)
        elif name := entry.get("path"):
            found.append(path_inside(place, name))
        else:
            raise DataError(
                f"{where}: 'image'",
                expected="bytes or a path for each image",
                found=repr(entry)[:60],
            )
    if not found:
        raise DataError(f"{where}: 'image'", expected="at least one image", found="none")
    return tuple(found)


def listed_ids(path: Path) -> frozenset[str]:
    """The ids in a text file, one a line.

    Raises:
        DataError: it cannot be read, or has none.
    """
    with raised_as(DataError, f"file {path}", "ids, one a line", OSError, UnicodeDecodeError):
        ids = frozenset(read_text(path).split())
    if not ids:
        raise DataError(f"file {path}", expected="ids, one a line", found="none")
    return ids
