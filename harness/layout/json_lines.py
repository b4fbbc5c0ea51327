"""JSON objects of files that have one a line, read a line at a time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from harness.errors import DataError, raised_as
from harness.files import lines_of
from harness.foreign import refuse_foreign, refuse_list, refuse_zeros
from harness.layout.files import field, parse, readable

MAX_LINE = 2**24  # bytes
BEFORE = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may stand before the first object: a mark of UTF-8, and blanks."""
T = TypeVar("T")


def read_lines(path: Path, limit: int = MAX_LINE) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the bytes of each line that is not blank; raise DataError.

    Of a line that is longer than `limit` comes one byte more, by which it is refused; it is never
    held whole.
    """
    with readable(path):
        for number, _, line in lines_of(path, limit):
            if number == 1 and not (start := line.lstrip(BEFORE)).startswith(b"{"):
                refuse_foreign(path, DataError, f"file {path}", "lines of JSON", text=True)
                refuse_list(path, start, f"file {path}")
            if line.strip():
                yield f"{path}, line {number}", line


def parse_line(line: bytes, where: str, limit: int = MAX_LINE) -> dict[str, object]:
    """Return the object of a line.

    Raises:
        DataError: it is too long, or no JSON object.
    """
    if len(line) > limit:
        raise DataError(where, expected=f"at most {limit} bytes", found="a longer line")
    refuse_zeros(line, where)
    with raised_as(DataError, where, "one JSON object", ValueError):
        plain = parse(line.decode("utf-8-sig"))
    if not isinstance(plain, dict):
        raise DataError(where, expected="one JSON object", found=type(plain).__name__)
    return plain


def read_by_id(path: Path, id: str, key: str, read: Callable[[object, str], T]) -> dict[str, T]:
    """Return a field of every line, by another that names it.

    Args:
        path: Lines of JSON.
        id: The field of the name.
        key: The field that is returned.
        read: Makes what is returned of its value, given its place for errors.

    Raises:
        DataError: the file cannot be read, a field is missing, or a name comes twice.
    """
    values: dict[str, T] = {}
    for where, line in read_lines(path):
        plain = parse_line(line, where)
        name = field(plain, id, str, where)
        if name in values:
            raise DataError(f"{where}: {id!r}", expected="each once", found=name[:60])
        values[name] = read(plain.get(key), f"{where}: {key!r}")
    return values
