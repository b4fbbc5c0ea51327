"""Read files of JSON lines, one object per line, a line at a time.

Readers of predictions, tables and logs call it with a path; errors name the file and the line.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from harness.errors import DataError, raised_as
from harness.files import lines_of
from harness.foreign import refuse_foreign, refuse_list, refuse_zeros
from harness.layout.files import field, parse, readable

MAX_LINE_BYTES = 2**24  # bytes
LEADING_BYTES = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may precede the first object: those of UTF-8's byte-order mark, and blanks."""
T = TypeVar("T")


def read_lines(path: Path, limit: int = MAX_LINE_BYTES) -> Iterator[tuple[str, bytes]]:
    """Yield ("FILE, line N", bytes of the line) for each line that is not blank.

    A longer line is cut after `limit` + 1 bytes: memory never holds all of it, and `parse_line`
    refuses it.

    Raises:
        DataError: the file cannot be read, or is not text.
    """
    with readable(path):
        for number, _, line in lines_of(path, limit):
            if number == 1 and not (start := line.lstrip(LEADING_BYTES)).startswith(b"{"):
                refuse_foreign(path, DataError, f"file {path}", "lines of JSON", text=True)
                refuse_list(path, start, f"file {path}")
            if line.strip():
                yield f"{path}, line {number}", line


def parse_line(line: bytes, where: str, limit: int = MAX_LINE_BYTES) -> dict[str, object]:
    """Return the object of a line; `where` is its file and number, for messages.

    Raises:
        DataError: the line is longer than `limit` bytes, or not a JSON object.
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
    """Return one field of every line as a mapping from the line's id.

    Args:
        path: A file of JSON lines.
        id: Name of the field with the id.
        key: Name of the field that is returned.
        read: Called with the field's value and its place for errors; returns the converted value.

    Raises:
        DataError: the file cannot be read, a field is missing, or an id occurs twice.
    """
    values: dict[str, T] = {}
    for where, line in read_lines(path):
        plain = parse_line(line, where)
        name = field(plain, id, str, where)
        if name in values:
            raise DataError(f"{where}: {id!r}", expected="each once", found=name[:60])
        values[name] = read(plain.get(key), f"{where}: {key!r}")
    return values
