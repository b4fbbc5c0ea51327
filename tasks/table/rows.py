"""Read the records of a table, one at a time: JSON lines, a JSON list, Parquet, CSV or TSV."""

import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TypeAlias

from harness.errors import DataError, raised_as
from harness.files import open_regular
from harness.foreign import other_encoding, refuse_foreign, to_lines
from harness.formats.tables import refuse_decimal_commas
from harness.layout import file
from harness.tasks.qa.tables import SUFFIXES, is_lines, unparsed_records
from harness.tasks.table.annotation_files import A_LINE_A_QUESTION, refuse_text
from harness.tasks.table.other_forms import refuse_object

Record: TypeAlias = dict[str, object]
DELIMITERS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}
"""Usual separator of the cells, by the file's suffix."""
SEPARATOR = re.compile(r"sep=(.)\r?\n")
"""First line of a file that tells Excel the separator of its cells."""
MAX_CELL = 2**26
"""Bytes of a cell of a text table, which may be an image in base64."""


def table_records(
    path: Path, columns: Collection[str], optional: Collection[str] = ()
) -> Iterator[tuple[str, Callable[[], Record]]]:
    """Yield (place, function that returns the record) for each record of a file, in order.

    The function raises the error of one line, after which others can be read.

    Args:
        path: The table.
        columns: The fields that every record has to have.
        optional: Fields that are read if a Parquet file has them; other tables are read whole.

    Raises:
        DataError: the file cannot be read, or lacks a column.
    """
    path = file(path, fix="Give the table's path.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        refuse_text(path)
    if suffix in DELIMITERS:
        for where, record in _text_rows(path, DELIMITERS[suffix], columns):
            yield where, partial(dict, record)
        return
    if suffix not in SUFFIXES:
        raise DataError(
            f"table {path}",
            expected=" or ".join((*SUFFIXES, *DELIMITERS)),
            found=suffix or "a name without a suffix",
            fix=f"Save a table in one of these formats. {A_LINE_A_QUESTION}",
        )
    if suffix == ".json" and not is_lines(path):
        refuse_object(path)
    yield from unparsed_records(
        path, dict.fromkeys(columns, ""), optional=dict.fromkeys(optional, "")
    )


def _text_rows(
    path: Path, delimiter: str, columns: Collection[str]
) -> Iterator[tuple[str, Record]]:
    """Yield (place for errors, record) of each line of a CSV or TSV file."""
    csv.field_size_limit(MAX_CELL)
    what, fix = f"table {path}", other_encoding(path.name)
    refuse_foreign(path, DataError, what, "a table of text")
    with (
        raised_as(DataError, what, "a table in UTF-8", OSError),
        raised_as(DataError, what, "quotation marks in pairs", csv.Error, fix=_unquoted(path)),
        raised_as(DataError, what, "a table in UTF-8", UnicodeDecodeError, fix=fix),
        TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as text,
    ):
        header, before = text.readline(MAX_CELL), 0
        if stated := SEPARATOR.fullmatch(header):
            delimiter, before = stated[1], 1
        else:
            delimiter = _delimiter(header, delimiter)
            text.seek(0)
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        names = next(reader, [])
        _check_header(what, names, columns)
        for row in reader:
            if not row:
                continue
            where = f"{path}, line {reader.line_num + before}"
            if row == names:
                raise DataError(
                    where,
                    expected="a record",
                    found="the header once more",
                    fix="Were two tables joined? Remove the line, and the records that come twice.",
                )
            if delimiter == ";":
                refuse_decimal_commas(row, path, reader.line_num + before)
            if len(row) != len(names):
                raise DataError(where, expected=f"{len(names)} cells", found=f"{len(row)}")
            yield where, dict(zip(names, row, strict=True))


def has_semicolons(path: Path) -> bool:
    """Return True if a table's header has its cells between semicolons."""
    if (suffix := path.suffix.lower()) not in DELIMITERS:
        return False
    with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as text:
        header = text.readline(MAX_CELL)
    stated = SEPARATOR.fullmatch(header)
    return (stated[1] if stated else _delimiter(header, DELIMITERS[suffix])) == ";"


def _unquoted(path: Path) -> str:
    """Return the fix for a table whose quotation marks are part of its texts: a command."""
    mark = DELIMITERS[path.suffix.lower()]
    rows = "csv.DictReader(open(sys.argv[1], newline=''), delimiter=%r, quoting=csv.QUOTE_NONE)"
    lines = to_lines(rows % mark, path.name, "csv")
    return f"If marks are part of the texts: {lines}, named NEW.jsonl."


def _delimiter(header: str, usual: str) -> str:
    """Return the separator of the cells: programs in some languages write semicolons.

    >>> _delimiter("id;question;answer", ","), _delimiter("a;b,c", ","), _delimiter("id", ",")
    (';', ',', ',')
    """
    marks = (usual, ";", "\t", ",")
    return next(
        (mark for mark in marks if len(next(csv.reader([header], delimiter=mark), [])) > 1), usual
    )


def _check_header(what: str, names: list[str], columns: Collection[str]) -> None:
    """Raise DataError if a column is missing or repeated; `what` names the table."""
    if repeated := {name for name in names if name and names.count(name) > 1}:
        raise DataError(what, expected="each column once", found=f"{', '.join(repeated)} twice")
    if missing := [name for name in columns if name not in names]:
        raise DataError(
            what,
            expected=f"the columns {', '.join(columns)}",
            found=f"no {', '.join(missing)}, but {', '.join(names)}"[:300],
        )
