"""Records of a benchmark, a few at a time, from Parquet, from lines of JSON, or from a list."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from harness.errors import DataError, raised_as
from harness.files import read_text
from harness.foreign import refuse_foreign
from harness.layout import Entry, JsonFile, parse_line, path_inside, read_lines, rows
from harness.task import Problem

SUFFIXES = (".parquet", ".jsonl", ".json")
"""Suffixes of files that `records` reads."""
Record: TypeAlias = dict[str, object]
T = TypeVar("T")


def records(
    path: Path, columns: Mapping[str, str], *, optional: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Record]]:
    """Yield (place, record) for each record of a file, in order.

    `.parquet`, `.jsonl` with a record a line, or `.json` with a list of records.

    Args:
        path: The file.
        columns: The required columns, each with a word on its content.
        optional: Columns that are read if the file has them.

    Raises:
        DataError: the file cannot be read, or lacks a column; a line is no JSON object.
    """
    for where, parse in unparsed_records(path, columns, optional=optional):
        yield where, parse()


def unparsed_records(
    path: Path, columns: Mapping[str, str], *, optional: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], Record]]]:
    """Yield (place, function that returns the record) for each of `records`.

    The function raises the error of one line or entry, after which others can be read.
    """
    if path.suffix.lower() == ".jsonl":
        for where, line in read_lines(path):
            yield where, partial(_of_line, line, columns, where)
    elif path.suffix.lower() == ".json":
        for entry in JsonFile(path).items():
            where = f"{path}, record {entry.key}"
            yield where, partial(_of_entry, entry, columns, where)
    else:
        for number, row in enumerate(rows(path, columns, optional=optional or ())):
            yield f"{path}, row {number}", partial(dict, row)


def _of_entry(entry: Entry, columns: Mapping[str, str], where: str) -> Record:
    return _complete(entry.parse(), columns, where)


def _of_line(line: bytes, columns: Mapping[str, str], where: str) -> Record:
    return _complete(parse_line(line, where), columns, where)


def _complete(plain: object, columns: Mapping[str, str], where: str) -> Record:
    if not isinstance(plain, dict):
        raise DataError(where, expected="one JSON object", found=type(plain).__name__)
    if missing := [name for name in columns if name not in plain]:
        raise DataError(where, expected=", ".join(columns), found=f"no {', '.join(missing)}")
    return plain


def sound(entries: Iterable[T | DataError]) -> Iterator[T]:
    """Yield what was read, up to the first error, which is raised."""
    for entry in entries:
        if isinstance(entry, DataError):
            raise entry
        yield entry


def check_each(
    entries: Iterable[T | DataError], place: str, look: Callable[[T], Iterable[Problem]]
) -> Iterator[Problem]:
    """Yield every error of what was read, or of `look`, as a problem of `place`, and what `look`
    finds.
    """
    try:
        for entry in entries:
            try:
                if isinstance(entry, DataError):
                    raise entry
                yield from look(entry)
            except DataError as error:
                yield Problem(place, str(error))
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
        where: The place of the cell, for messages.
        place: The folder of files that are named.

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
            images.append(path_inside(place, name))
        else:
            raise DataError(
                where,
                expected="bytes or a path for each image",
                found=repr(entry)[:60],
            )
    if not images:
        raise DataError(where, expected="at least one image", found="none")
    return tuple(images)


def listed_ids(path: Path) -> frozenset[str]:
    """The ids in a text file, one a line.

    Raises:
        DataError: it cannot be read, or has none.
    """
    refuse_foreign(path, DataError, f"file {path}", "ids, one a line")
    with raised_as(DataError, f"file {path}", "ids, one a line", OSError, UnicodeDecodeError):
        ids = frozenset(read_text(path).split())
    if not ids:
        raise DataError(f"file {path}", expected="ids, one a line", found="none")
    return ids
