"""Read the records of a benchmark's file, Parquet or JSON, without holding all of them in memory.

A record is a dict; it comes with its position, such as `FILE, row 3`, for error messages. Also
here: checks of a record's fields (`text`, `number`, `images_of`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias, TypeVar

from harness.errors import DataError, raised_as
from harness.files import lines_of, read_text
from harness.foreign import refuse_foreign
from harness.layout import Entry, JsonFile, parse_line, path_inside, read_lines, readable, rows
from harness.layout.json_lines import LEADING_BYTES, MAX_LINE_BYTES
from harness.task import Problem

SUFFIXES = (".parquet", ".jsonl", ".json")
"""Suffixes of files that `records` reads."""
Record: TypeAlias = dict[str, object]
T = TypeVar("T")


def records(
    path: Path, columns: Mapping[str, str], *, optional: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Record]]:
    """Yield (place, record) for each record of a file, in order.

    `.parquet`, `.jsonl` with a record a line, or `.json` with a list of records or lines of them.

    Args:
        path: The file.
        columns: The required columns, each with a word on its content.
        optional: Columns that are read if the file has them.

    Raises:
        DataError: the file cannot be read, or lacks a column; a line is not a JSON object.
    """
    for where, parse in unparsed_records(path, columns, optional=optional):
        yield where, parse()


def unparsed_records(
    path: Path, columns: Mapping[str, str], *, optional: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], Record]]]:
    """Yield (position, function that returns the record) for each record of a file.

    The function raises the error of its record; the next records can still be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".json":
        try:
            yield from _of_list(path, columns)
            return
        except DataError:
            if not is_lines(path):
                raise
    if suffix in (".json", ".jsonl"):
        for where, line in read_lines(path):
            yield where, partial(_of_line, line, columns, where)
    else:
        for number, row in enumerate(rows(path, columns, optional=optional or ())):
            yield f"{path}, row {number}", partial(dict, row)


def _of_list(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], Record]]]:
    """Yield the records of a JSON file, which holds a list or an object of records."""
    for entry in JsonFile(path).items():
        where = f"{path}, record {entry.key}"
        yield where, partial(_of_entry, entry, columns, where)


def is_lines(path: Path) -> bool:
    """Return True for a `.json` file with one object a line: the first two lines begin with `{`."""
    if path.suffix.lower() != ".json":
        return False
    with readable(path):
        lines = (line.strip(LEADING_BYTES) for _, _, line in lines_of(path, MAX_LINE_BYTES))
        first, second = islice(chain(filter(None, lines), (b"", b"")), 2)
        if not (first.startswith(b"{") and second.startswith(b"{")):
            return False
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def _of_entry(entry: Entry, columns: Mapping[str, str], where: str) -> Record:
    return _complete(entry.parse(), columns, where)


def _of_line(line: bytes, columns: Mapping[str, str], where: str) -> Record:
    return _complete(parse_line(line, where), columns, where)


def _complete(plain: object, columns: Mapping[str, str], where: str) -> Record:
    """Return `plain` if it is an object with all columns, else raise DataError."""
    if not isinstance(plain, dict):
        raise DataError(where, expected="one JSON object", found=type(plain).__name__)
    if missing := [name for name in columns if name not in plain]:
        raise DataError(where, expected=", ".join(columns), found=f"no {', '.join(missing)}")
    return plain


def sound(entries: Iterable[T | DataError]) -> Iterator[T]:
    """Yield the entries up to the first error, which is raised."""
    for entry in entries:
        if isinstance(entry, DataError):
            raise entry
        yield entry


def check_each(
    entries: Iterable[T | DataError], path: str, look: Callable[[T], Iterable[Problem]]
) -> Iterator[Problem]:
    """Yield the problems that `look` finds in each entry; errors become problems of `path`."""
    try:
        for entry in entries:
            try:
                if isinstance(entry, DataError):
                    raise entry
                yield from look(entry)
            except DataError as error:
                yield Problem(path, str(error))
    except DataError as error:
        yield Problem(path, str(error))


def text(row: Mapping[str, object], name: str, where: str) -> str:
    """Return a field that must be text and not blank, else raise DataError."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {name!r}", expected="text", found=repr(value)[:40])
    return value


def number(row: Mapping[str, object], name: str, where: str) -> float:
    """Return a field that must be a number below 1e12 (an int stays one), else raise DataError."""
    value = row.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e12:
        raise DataError(f"{where}: {name!r}", expected="a finite number", found=repr(value)[:40])
    return value


def images_of(value: object, where: str, root: Path) -> tuple[bytes | Path, ...]:
    """Return the bytes of each image of a cell, or its path below `root` if the table has none.

    Args:
        value: A cell: one image or a list of them, each `{"bytes": …, "path": …}`, bytes or a name.
        where: Position of the cell, for messages.
        root: Folder of images that are given by name.

    Raises:
        DataError: there is no image, or one without bytes and name; a name leaves the folder.
    """
    cells = value if isinstance(value, list) else [value]
    entries = [entry for cell in cells for entry in (cell if isinstance(cell, list) else [cell])]
    images: list[bytes | Path] = []
    for entry in entries:
        if not isinstance(entry, dict):
            entry = {"bytes" if isinstance(entry, bytes) else "path": entry}
        if data := entry.get("bytes"):
            images.append(data)
        elif name := entry.get("path"):
            images.append(path_inside(root, name))
        else:
            raise DataError(
                where, expected="bytes or a path for each image", found=repr(entry)[:60]
            )
    if not images:
        raise DataError(where, expected="at least one image", found="none")
    return tuple(images)


def listed_ids(path: Path) -> frozenset[str]:
    """Return the ids in a text file, one a line.

    Raises:
        DataError: the file cannot be read, or has no ids.
    """
    refuse_foreign(path, DataError, f"file {path}", "ids, one a line")
    with raised_as(DataError, f"file {path}", "ids, one a line", OSError, UnicodeDecodeError):
        ids = frozenset(read_text(path).split())
    if not ids:
        raise DataError(f"file {path}", expected="ids, one a line", found="none")
    return ids
