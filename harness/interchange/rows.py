"""Lines of a predictions file (`harness score --predictions`), read and checked one by one.

A line is one JSON object `{"id": official id, …}` with exactly one of

    "response"      text, or a list of texts, read by the parser and segmenter of a model
    "boxes"      [[left, top, right, bottom], …] in original pixels, with "box_scores" if any; for
                 a track one per frame, null where the object is not visible
    "points"     [[x, y], …] in original pixels
    "masks"      one COCO run-length per frame, null for an empty mask
    "instances"  a list like "masks" for each object, with "box_scores" if any
    "answer"     a letter, number, text or [start, end] in seconds, as the question asks
    "no_target"  true: the query refers to nothing that is there

null in place of any of these values says that the model gave no answer, which is a failure.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.coordinates import Coordinates
from harness.errors import DataError, ParseError, raised_as
from harness.files import lines_of, open_regular
from harness.foreign import other_encoding, refuse_foreign, refuse_list, refuse_zeros
from harness.foreign_lines import (
    of_line,
    of_repeated,
    of_whole,
    other_keys,
    rewrite,
    way_out,
)
from harness.responses import STRICT, finite_numbers, storable

KINDS = ("response", "boxes", "points", "masks", "instances", "answer", "no_target")
MAX_LINE_BYTES = 64 * 2**20  # bytes of one line of a predictions file
MAX_BLANK_LINES = 1_000_000
"""Most blank lines of a file: millions, to which a small zip can grow, would take minutes."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Written:
    """Spelling of the numbers in a file: their coordinates, and the order of run-lengths."""

    coordinates: Coordinates = "pixels"
    """Meaning of the numbers of "boxes" and "points"; pixels are those of the original image."""
    by_rows: bool = False
    """Run-lengths go along the rows of the image, not down its columns."""


AS_DOCUMENTED = Written()  # the form that the module's docstring gives


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a predictions file."""

    id: str
    """The sample's official id."""
    kind: str
    """One of `KINDS`."""
    value: object
    """The value under `kind`, not checked yet."""
    box_scores: tuple[float, ...] | None
    where: str
    """File and line, for messages: `p.jsonl, line 3`."""
    written: Written = AS_DOCUMENTED

    @property
    def file(self) -> str:
        """The name of the file, for commands in messages."""
        return _file_name(self.where)

    @property
    def responses(self) -> tuple[str, ...] | None:
        """The texts of a "response" row; None for other kinds and for null."""
        if self.kind != "response" or self.value is None:
            return None
        texts = self.value if isinstance(self.value, list) else [self.value]
        if not all(isinstance(text, str) for text in texts):
            raise DataError(
                f'{self.where}: "response"',
                expected="text, a list of texts or null",
                found="others",
                fix=other_keys({"id": self.id, "response": self.value}, {"response"}, self.file),
            )
        return tuple(texts)


def read_rows(path: Path) -> Iterator[Row]:
    """Read a predictions file line by line.

    Raises:
        DataError: the file is missing or packed, a line is not a JSON object of this form, or an id
            occurs twice. The line's number is given.
    """
    return (row for row, _, _ in _rows(path))


class RowFile(Mapping[str, Row]):
    """Rows of a predictions file by id; each is parsed again at every access.

    Only ids and offsets are kept, as the parsed masks of a thousand expressions take a gigabyte.
    """

    def __init__(self, path: Path, written: Written = AS_DOCUMENTED) -> None:
        """Read the file once.

        Args:
            path: The file.
            written: How numbers are written in it.

        Raises:
            DataError: as for `read_rows`.
        """
        self.path, self.written = path, written
        self._places = {row.id: (number, offset) for row, number, offset in _rows(path)}

    def __getitem__(self, name: str) -> Row:
        number, offset = self._places[name]
        with open_regular(self.path) as file:
            file.seek(offset)
            row = _parse_row(file.readline(MAX_LINE_BYTES + 1), f"{self.path}, line {number}")
        if row.id != name:
            raise DataError(
                row.where,
                expected=f"id {name!r}, as before",
                found=repr(row.id)[:60],
                fix="Another program writes there.",
            )
        return replace(row, written=self.written)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def where(self, name: str) -> str:
        """Return file and line of a row, for messages."""
        return f"{self.path}, line {self._places[name][0]}"


def _rows(path: Path) -> Iterator[tuple[Row, int, int]]:
    """Yield each row, its line's number from 1, and the byte at which the line begins."""
    seen: set[str] = set()
    for number, offset, line in json_lines(path):
        is_only = number == 1 and offset + len(line) >= path.stat().st_size
        row = _parse_row(line, f"{path}, line {number}", is_only=is_only)
        if row.id in seen:
            raise DataError(
                f"{row.where}: id {row.id!r}",
                expected="each id once",
                found="it a second time",
                fix=of_repeated(row.kind, row.file),
            )
        seen.add(row.id)
        yield row, number, offset


def json_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number (from 1), offset in bytes and content of each line that is not blank.

    Raises:
        DataError: the file is missing, compressed, not a file of JSON lines, or mostly blank.
    """
    blank = 0
    refuse_foreign(path, DataError, f"predictions {path}", "JSON lines", text=True)
    with raised_as(DataError, f"predictions {path}", "a readable file", OSError):
        for number, offset, line in lines_of(path, MAX_LINE_BYTES):
            mark = len(BYTE_ORDER_MARK) if number == 1 and line.startswith(BYTE_ORDER_MARK) else 0
            if number == 1:
                _refuse_whole_document(path, line[mark:].strip())
                refuse_list(path, line[mark:].lstrip(), f"predictions {path}")
            if line[mark:].strip():
                yield number, offset + mark, line[mark:]
                continue
            blank += 1
            if blank > MAX_BLANK_LINES:
                raise DataError(
                    f"predictions {path}",
                    expected=f"at most {MAX_BLANK_LINES:,} blank lines",
                    found="more",
                    fix="Write one JSON object a line, and no blank lines.",
                )


def _refuse_whole_document(path: Path, start: bytes) -> None:
    """Raise DataError if a file begins with an object over several lines, or a list of objects.

    `start` is the first line. The whole file is parsed, so that `fix` can suit its content.
    """
    opens = start.startswith(b"[") or (start.startswith(b"{") and not start.endswith(b"}"))
    if not opens or path.stat().st_size > MAX_LINE_BYTES:  # too large to parse only for a message
        return
    try:
        text = path.read_bytes().decode("utf-8-sig").lstrip()
        plain, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return  # the first line is refused as it is
    is_list = isinstance(plain, list)
    is_whole = plain and isinstance(plain[0], dict) if is_list else "\n" in text[:end]
    if not is_whole:
        return
    raise DataError(
        f"predictions {path}" if is_list else f"{path}, line 1",
        expected="one JSON object a line",
        found="a list" if is_list else "one over several lines",
        fix=of_whole(plain, path.name, ("box_scores", *KINDS)),
    )


def _parse_row(line: bytes, where: str, *, is_only: bool = False) -> Row:
    """Parse a line; `is_only`: the file has no other, so that the fix may concern the whole file.

    Raises:
        DataError: it is not a JSON object of the form that the module documents.
    """
    if len(line) > MAX_LINE_BYTES:
        raise DataError(
            where,
            expected=f"at most {MAX_LINE_BYTES} bytes",
            found="a longer line",
            fix="Give masks as compressed run-lengths.",
        )
    refuse_zeros(line, where)
    encoded = "" if b"\0" in line else other_encoding(_file_name(where))
    with raised_as(DataError, where, "text in UTF-8", UnicodeDecodeError, fix=encoded):
        text = line.decode("utf-8")
    fix = of_line(line, _file_name(where))
    with raised_as(DataError, where, "one JSON object", ValueError, RecursionError, fix=fix):
        plain = json.loads(text, **STRICT)
    if not isinstance(plain, dict) or not isinstance(plain.get("id"), str):
        raise DataError(
            where,
            expected='an object with a text "id"',
            found=repr(plain)[:60],
            fix=way_out(plain, _file_name(where), is_row=not is_only),
        )
    if plain["id"] != storable(plain["id"]):
        raise DataError(where, expected='an "id" of whole characters', found=repr(plain["id"])[:60])
    answer_keys = [kind for kind in KINDS if kind in plain]
    unknown = set(plain) - {"id", "box_scores", *KINDS}
    if len(answer_keys) != 1 or unknown:
        raise DataError(
            where,
            expected=f"exactly one of {', '.join(KINDS)}",
            found=", ".join([*answer_keys, *sorted(unknown)]) or "none",
            fix=other_keys(plain, unknown, _file_name(where)) if unknown else "",
        )
    scores = plain.get("box_scores")
    if scores is not None:
        scored = plain.get("boxes", plain.get("instances"))
        try:
            scores = finite_numbers(
                scores, len(scored) if isinstance(scored, list) else 0, f"{where}: box_scores"
            )
        except ParseError as error:
            is_nested = isinstance(scores, list) and any(isinstance(item, list) for item in scores)
            flat = f". {rewrite('box_scores', 'flatten', _file_name(where))} makes numbers of lists"
            raise DataError(f"{error}{flat if is_nested else ''}") from error
    return Row(plain["id"], answer_keys[0], plain[answer_keys[0]], scores, where)


def _file_name(where: str) -> str:
    """Return the file's name in `…/p.jsonl, line 3`."""
    return where.rpartition(", line ")[0].rpartition("/")[2] or where
