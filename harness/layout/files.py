"""Folders, file names, JSON files and JSON fields of a benchmark, for the readers of tasks.

Paths are below the folder that the user gave. Each function returns what it read, or raises a
DataError that names the file and says how to obtain or repair it.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar, overload

from harness.errors import DataError, raised_as
from harness.files import read_bytes
from harness.foreign import in_place_of, reading, refuse_foreign
from harness.responses import NUMBERS, refuse_duplicate_keys

MISSING = object()  # marks an absent key, as a value may be None
MAX_NAME_BYTES = 255
"""Largest number of bytes of a file's name on the usual file systems."""
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape `\\ud83d` (not `\\u00e9`), perhaps half of a surrogate pair, which no id can hold."""
T = TypeVar("T")


def folder(path: Path, *, fix: str) -> Path:
    """Return `path` if it is a folder; otherwise raise a DataError, whose advice is `fix`."""
    if not path.is_dir():
        raise DataError(
            f"folder {path}",
            expected="a benchmark in its official layout",
            found="nothing" if not path.exists() else "a file",
            fix=fix,
        )
    return path


def file(path: Path, *, fix: str, expected: str = "a file") -> Path:
    """Return `path` if it is a file; otherwise raise a DataError, whose advice is `fix`."""
    if not path.is_file():
        actual = "a folder" if path.is_dir() else "something else" if path.exists() else "none"
        actual, fix = in_place_of(path) or (actual, fix)
        raise DataError(f"file {path}", expected=expected, found=actual, fix=fix)
    return path


@dataclass(frozen=True, slots=True)
class Files(Sequence[Path]):
    """Paths of many files in one folder; only stems are stored, paths are made at access."""

    folder: Path
    stems: tuple[str, ...]
    suffix: str

    def __len__(self) -> int:
        return len(self.stems)

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> "Files": ...
    def __getitem__(self, index: int | slice) -> "Path | Files":
        if isinstance(index, slice):
            return Files(self.folder, self.stems[index], self.suffix)
        return self.folder / f"{self.stems[index]}{self.suffix}"


@dataclass(frozen=True, slots=True)
class LazyFileList(Sequence[Path]):
    """Files that `find` lists anew in each pass over them, so that memory holds no list."""

    find: Callable[[], Iterator[Path]]

    def __iter__(self) -> Iterator[Path]:
        return self.find()

    def __len__(self) -> int:
        return sum(1 for _ in self.find())

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Path]: ...
    def __getitem__(self, index: int | slice) -> "Path | Sequence[Path]":
        if isinstance(index, int) and index >= 0:
            for path in islice(self.find(), index, index + 1):
                return path
            raise IndexError(index)
        return tuple(self.find())[index]


def path_inside(root: Path, name: object) -> Path:
    """Return the path of `name` below `root`, for a name from an annotation file.

    Raises:
        DataError: the name is empty, absolute or too long, leaves `root`, or has control
            characters or backslashes.
    """
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    has_control = any(unicodedata.category(char) == "Cc" or char == "\\" for char in str(name))
    is_long = any(len(part.encode("utf-8", "replace")) > MAX_NAME_BYTES for part in parts)
    if not parts or has_control or is_long or parts[0] == "/" or ".." in parts:
        raise DataError(
            f"name {str(name)[:80]!r} in the annotations of {root}",
            expected="a relative path inside it",
            found=f"a part of more than {MAX_NAME_BYTES} bytes" if is_long else "one that is not",
        )
    return root.joinpath(*parts)


def read_json(path: Path, *, encodings: tuple[str, ...] = ("utf-8",)) -> Any:
    """Parse a JSON file, trying encodings in turn; a leading byte-order mark is skipped.

    Raises:
        DataError: the file is missing, cut off or not JSON, a key occurs twice in one object (the
            first value would be lost silently), or a text is not Unicode.
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
                fix="It may be truncated: copy or download it again.",
            ) from error


def parse(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON or nested too deeply, a key occurs twice in an object, a
            text has half of a surrogate pair, or a number exceeds the range of a float.
    """
    try:
        plain = json.loads(text, object_pairs_hook=refuse_duplicate_keys, **NUMBERS)
        if SURROGATE_ESCAPE.search(text):
            json.dumps(plain, ensure_ascii=False).encode()  # fails for half a pair, not for a whole
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"half of a surrogate pair, {half!r}") from error
    except RecursionError as error:
        raise ValueError("too many levels") from error
    return plain


def readable(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError while a file is read into a DataError that names the file."""
    return reading(path, DataError, f"file {path}", "a readable file", OSError)


@overload
def field(plain: object, key: str, expected: type[T], where: str) -> T: ...


@overload
def field(plain: object, key: str, expected: tuple[type, ...], where: str) -> Any: ...


def field(plain: object, key: str, expected: type | tuple[type, ...], where: str) -> Any:
    """Return `plain[key]`; raise DataError if the key is missing or its value has another type.

    A bool does not count as an int, unless `expected` contains bool.
    """
    if not isinstance(plain, (dict, Mapping)):
        text = repr(plain)[:60]
        raise DataError(where, expected=f"an object with the field {key!r}", found=text)
    value = plain.get(key, MISSING)
    if value is MISSING:
        raise DataError(f"{where}: {key!r}", expected="this field", found="none")
    types = expected if isinstance(expected, tuple) else (expected,)
    wrong = isinstance(value, bool) and int in types and bool not in types
    if wrong or not isinstance(value, types):
        names = " or ".join(allowed.__name__ for allowed in types)
        raise DataError(f"{where}: {key!r}", expected=names, found=repr(value)[:60])
    return value
