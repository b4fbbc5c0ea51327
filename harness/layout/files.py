"""Folders, names, small JSON files and tables of a benchmark."""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar, overload

from harness.errors import DataError, raised_as
from harness.files import read_bytes, refuse_other
from harness.foreign import in_place_of, reading, refuse_foreign
from harness.responses import refuse_duplicate_keys

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

MISSING = object()
MAX_ROWS = 2**20
"""Maximum for one Parquet file: the largest benchmark has a quarter of a million rows, and ten
times as many would take minutes to read."""
MAX_TEXT = 2**28
"""Bytes of one column's text in one row group of a Parquet file, which may be one cell."""
HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Escapes of half a surrogate pair, which no id and no file name can hold."""
T = TypeVar("T")


def folder(path: Path, *, fix: str) -> Path:
    """Return `path` if it is a folder; else raise a DataError that says how to obtain the data."""
    if not path.is_dir():
        raise DataError(
            f"folder {path}",
            expected="a benchmark in its official layout",
            found="nothing" if not path.exists() else "a file",
            fix=fix,
        )
    return path


def file(path: Path, *, fix: str, expected: str = "a file") -> Path:
    """Return `path` if it is a file; else raise a DataError that says how to obtain the data."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "something else" if path.exists() else "none"
        found, fix = in_place_of(path) or (found, fix)
        raise DataError(f"file {path}", expected=expected, found=found, fix=fix)
    return path


@dataclass(frozen=True, slots=True)
class Files(Sequence[Path]):
    """Paths of many files in one folder; only stems are held, a path is made at its access."""

    folder: Path
    stems: tuple[str, ...]
    suffix: str

    def __len__(self) -> int:
        return len(self.stems)

    @overload
    def __getitem__(self, place: int) -> Path: ...
    @overload
    def __getitem__(self, place: slice) -> "Files": ...
    def __getitem__(self, place: int | slice) -> "Path | Files":
        if isinstance(place, slice):
            return Files(self.folder, self.stems[place], self.suffix)
        return self.folder / f"{self.stems[place]}{self.suffix}"


@dataclass(frozen=True, slots=True)
class LazyFileList(Sequence[Path]):
    """Files that are listed again in each pass over them, and not held."""

    find: Callable[[], Iterator[Path]]

    def __iter__(self) -> Iterator[Path]:
        return self.find()

    def __len__(self) -> int:
        return sum(1 for _ in self.find())

    @overload
    def __getitem__(self, place: int) -> Path: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Path]: ...
    def __getitem__(self, place: int | slice) -> "Path | Sequence[Path]":
        if isinstance(place, int) and place >= 0:
            for path in islice(self.find(), place, place + 1):
                return path
            raise IndexError(place)
        return tuple(self.find())[place]


def path_inside(root: Path, name: object) -> Path:
    """Return the path of `name` below `root`, for a name from an annotation file.

    Raises:
        DataError: it is empty, absolute, leaves `root`, or holds control characters.
    """
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    odd = any(unicodedata.category(char) == "Cc" or char == "\\" for char in str(name))
    if not parts or odd or parts[0] == "/" or ".." in parts:
        raise DataError(
            f"name {str(name)[:80]!r} in the annotations of {root}",
            expected="a relative path inside it",
            found="one that is not",
        )
    return root.joinpath(*parts)


def read_json(path: Path, *, encodings: tuple[str, ...] = ("utf-8",)) -> Any:
    """Parse a JSON file, trying encodings in turn; a leading byte-order mark is skipped.

    Raises:
        DataError: it is missing, cut off, or no JSON, a key occurs twice in one object (the first
            would be lost without a word), or a text is no Unicode.
    """
    with readable(path):
        raw = read_bytes(path)
    what, expected = f"file {path}", "complete JSON"
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            text = raw.decode(encoding)
            break
    else:
        refuse_foreign(path, DataError, what, expected)
        raise DataError(what, expected=f"text in {' or '.join(encodings)}", found="other bytes")
    with raised_as(DataError, what, expected, ValueError):
        try:
            return parse(text.removeprefix("\ufeff"))
        except json.JSONDecodeError as error:
            refuse_foreign(path, DataError, what, expected)
            raise DataError(
                what,
                expected=expected,
                found=f"{error.msg} at byte {error.pos} of {len(raw)}",
                fix="It may have been cut while it was copied: fetch it again.",
            ) from error


def parse(text: str) -> Any:
    """Return the value of a text.

    Raises ValueError: no JSON, too deep, a key twice in an object, or half of a surrogate pair.
    """
    try:
        plain = json.loads(text, object_pairs_hook=refuse_duplicate_keys)
        if HALF.search(text):
            json.dumps(plain, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"half of a surrogate pair, {half!r}") from error
    except RecursionError as error:
        raise ValueError("too many levels") from error
    return plain


def readable(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError into the DataError of a file that cannot be read."""
    return reading(path, DataError, f"file {path}", "a readable file", OSError)


@overload
def field(plain: object, key: str, kind: type[T], where: str) -> T: ...


@overload
def field(plain: object, key: str, kind: tuple[type, ...], where: str) -> Any: ...


def field(plain: object, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`plain[key]` if it is there and of the right type; a DataError that names it if not.

    A bool is no int, unless `kind` names bool.
    """
    if not isinstance(plain, (dict, Mapping)):
        found = repr(plain)[:60]
        raise DataError(where, expected=f"an object with the field {key!r}", found=found)
    value = plain.get(key, MISSING)
    if value is MISSING:
        raise DataError(f"{where}: {key!r}", expected="this field", found="none")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    wrong = isinstance(value, bool) and int in kinds and bool not in kinds
    if wrong or not isinstance(value, kinds):
        names = " or ".join(one.__name__ for one in kinds)
        raise DataError(f"{where}: {key!r}", expected=names, found=repr(value)[:60])
    return value


def _text_sizes(file: "ParquetFile", columns: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield name and uncompressed bytes of each text column of each row group, as they are told."""
    for place in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(place)
        for number in range(group.num_columns):
            column = file.schema.column(number)
            if column.logical_type.type == "STRING" and column.path.split(".")[0] in columns:
                yield column.path, group.column(number).total_uncompressed_size


def rows(
    path: Path, columns: Collection[str], *, optional: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet file as plain data, a few at a time.

    Args:
        path: The file.
        columns: Names of the required columns. Others are not read.
        optional: Names of columns that are read if the file has them.

    Raises:
        DataError: it is no Parquet file, a column is missing, or it holds too much.
    """
    from pyarrow import ArrowException, parquet

    unfit = (ArrowException, OSError, UnicodeDecodeError)
    with reading(path, DataError, f"file {path}", "a complete Parquet file", *unfit):
        refuse_other(path, DataError, f"file {path}")
        with parquet.ParquetFile(path) as file:
            names = set(file.schema_arrow.names)
            if missing := [name for name in columns if name not in names]:
                raise DataError(
                    f"file {path}",
                    expected=f"columns {', '.join(columns)}",
                    found=f"none named {', '.join(missing)}, but {', '.join(sorted(names))}",
                )
            if file.metadata.num_rows > MAX_ROWS:
                raise DataError(
                    f"file {path}",
                    expected=f"at most {MAX_ROWS} rows",
                    found=str(file.metadata.num_rows),
                )
            wanted = [*columns, *(name for name in optional if name in names)]
            for column, size in _text_sizes(file, wanted):
                if size > MAX_TEXT:
                    raise DataError(
                        f"file {path}: {column!r}",
                        expected=f"at most {MAX_TEXT} bytes of text in a row group",
                        found=str(size),
                    )
            for batch in file.iter_batches(batch_size=16, columns=wanted):
                yield from batch.to_pylist()
