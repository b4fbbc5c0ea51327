"""Read the records of a table, one at a time: JSON lines, a JSON list, Parquet, CSV or TSV."""

import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import TypeAlias

from harness.errors import DataError, raised_as
from harness.files import open_regular
from harness.foreign import new_name, other_encoding, refuse_foreign, to_lines
from harness.foreign_lines import command
from harness.formats.tables import refuse_decimal_commas
from harness.layout import file
from harness.tasks.qa.tables import SUFFIXES, is_lines, unparsed_records
from harness.tasks.table.annotation_files import A_LINE_A_QUESTION, refuse_text
from harness.tasks.table.class_labels import class_features, read_with_class_names
from harness.tasks.table.other_forms import refuse_object

Record: TypeAlias = dict[str, object]
DELIMITERS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}
"""Usual separator of the cells, by the file's suffix."""
ROWS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    ".csv": ("csv.DictReader(open(sys.argv[1], newline=''))", ("csv",)),
    ".tsv": ("csv.DictReader(open(sys.argv[1], newline=''), delimiter='\\t')", ("csv",)),
    ".jsonl": ("map(json.loads, open(sys.argv[1]))", ()),
    ".json": ("json.load(open(sys.argv[1]))", ()),
}
"""Expression that reads the rows of a table, and the modules that it uses, by the suffix."""
FILE = re.compile(r".+\.(?:jpe?g|png|webp|bmp|gif|tiff?|mp4|webm|mkv|avi|mov)", re.IGNORECASE)
"""Name of an image or a video."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
NAME = re.compile(
    r"(?:\w+_)?(?:id|index|image|img|video|path|file_?name|question|answer|text|label|class|category)"
    r"s?",
    re.IGNORECASE,
)
"""Usual names of columns: a line with one of them is a header, whatever its other cells are."""
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
    path = file(
        path, fix=f"Give the table's path. {A_LINE_A_QUESTION if path.is_dir() else ''}".strip()
    )
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
    features = class_features(path) if suffix == ".parquet" else {}
    for where, parse in unparsed_records(
        path, dict.fromkeys(columns, ""), optional=dict.fromkeys(optional, "")
    ):
        yield where, partial(read_with_class_names, parse, features, where) if features else parse


def file_columns(path: Path) -> Sequence[str]:
    """Return the columns of a Parquet file; () for other tables, whose records are read whole."""
    if path.suffix.lower() != ".parquet":
        return ()
    from pyarrow import ArrowException, parquet

    with raised_as(DataError, f"table {path}", "a Parquet file", OSError, ArrowException):
        names: list[str] = parquet.read_schema(path).names
    return names


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
        names, first = next(reader, []), next(reader, [])
        if _is_record(names, first):
            fix = _with_header(path, names, delimiter, before)
            values = f"a record: {', '.join(names)}"[:120]
            raise DataError(what, expected="a header in the first line", found=values, fix=fix)
        _check_header(what, names, columns)
        for row in chain([first], reader):
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
            if delimiter == "\t" and any(_has_records(cell, len(names) - 1) for cell in row):
                found = "a cell between quotation marks with the tabs and the end of a record"
                read = r"csv.DictReader(open(sys.argv[1], newline=''), delimiter='\t')"
                fix = f"{_unquoted(path)} If it is one cell: {to_lines(read, path.name, 'csv')}."
                raise DataError(where, expected="a record a line", found=found, fix=fix)
            yield where, dict(zip(names, row, strict=True))


def _has_records(cell: str, n_tabs: int) -> bool:
    r"""Return True if a cell holds ends of lines, and `n_tabs` tabs, those of a record, for each.

    A quotation mark that begins a cell, and another one some records later, enclose such a text.

    >>> _has_records("the cup\nb.jpg\tWhat is left?\tthe box", 2), _has_records("two\nlines", 2)
    (True, False)
    """
    n_lines = cell.count("\n")
    return n_tabs > 0 and n_lines > 0 and cell.count("\t") == n_tabs * n_lines


def per_record(table: Path, program: str, does: str) -> str:
    """Return the command that changes each record by a program of jq, and what its file does.

    It is "" for tables that are not JSON.
    """
    if table.suffix.lower() not in (".json", ".jsonl"):
        return ""
    if table.suffix.lower() == ".json" and not is_lines(table):
        program = f".[] | {program}"
    return f"{command(program, table.name)}, named NEW.jsonl, {does}"


def has_semicolons(path: Path) -> bool:
    """Return True if a table's header has its cells between semicolons."""
    if (suffix := path.suffix.lower()) not in DELIMITERS:
        return False
    with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as text:
        header = text.readline(MAX_CELL)
    stated = SEPARATOR.fullmatch(header)
    return (stated[1] if stated else _delimiter(header, DELIMITERS[suffix])) == ";"


def _unquoted(path: Path) -> str:
    """Return the fix for a table whose quotation marks are not in pairs: a command.

    It ends with an error at a record that has other numbers of cells than the header.
    """
    mark = DELIMITERS[path.suffix.lower()]
    with open_regular(path) as file:
        has_escaped = b'\\"' in file.read(MAX_CELL)
    lines, given = "open(sys.argv[1], newline='')", "quoting=csv.QUOTE_NONE"
    if has_escaped:
        lines = rf"""(line.replace('\\"', '""') for line in {lines})"""
        given = "strict=True"
    checked = "row if None not in (*row, *row.values()) else sys.exit(f'cells of {row}')"
    rows = f"({checked} for row in csv.DictReader({lines}, delimiter={mark!r}, {given}))"
    what = "have a backslash before them in cells" if has_escaped else "are part of the texts"
    return f"If marks {what}: {to_lines(rows, path.name, 'csv')}, named NEW.jsonl."


def _delimiter(header: str, usual: str) -> str:
    """Return the separator of the cells: programs in some languages write semicolons.

    >>> _delimiter("id;question;answer", ","), _delimiter("a;b,c", ","), _delimiter("id", ",")
    (';', ',', ',')
    """
    marks = (usual, ";", "\t", ",", "|")
    return next(
        (mark for mark in marks if len(next(csv.reader([header], delimiter=mark), [])) > 1), usual
    )


def _is_record(names: Sequence[str], first: Sequence[str]) -> bool:
    """Return True if the first line of a table has no names of columns, but values as the second.

    A line with a usual name of a column (`NAME`) is a header, whatever numbers it has. So is one
    whose numbers are years, or count from 0 or 1 on, as names of options and pandas' columns do.

    >>> _is_record(["a.jpg", "How many?", "2"], ["b.jpg", "Who?", "3"])
    True
    >>> _is_record(["", "0", "1", "2024"], ["0", "5", "7", "3"])
    False
    >>> _is_record(["question", "5", "10"], ["Who?", "1", "2"])
    False
    """
    pairs = list(zip(names, first, strict=False))
    if any(FILE.fullmatch(name) and FILE.fullmatch(below) for name, below in pairs):
        return True
    if any(map(NAME.fullmatch, names)):
        return False
    numbers = [
        float(name) for name, below in pairs if NUMBER.fullmatch(name) and NUMBER.fullmatch(below)
    ]
    not_years = [number for number in numbers if not 1900 <= number < 2100]
    return not_years not in (list(range(len(not_years))), list(range(1, len(not_years) + 1)))


def _with_header(path: Path, cells: Sequence[str], delimiter: str, before: int) -> str:
    """Return the command that puts names of columns before the records of a table."""
    question = max(range(len(cells)), key=lambda place: cells[place].count(" "))
    files = [place for place, cell in enumerate(cells) if FILE.fullmatch(cell)]
    names = [
        "question" if place == question and place not in files else f"column{place}"
        for place in range(len(cells))
    ]
    for number, place in enumerate(files):
        names[place] = f"image_{number}" if number else "image"
    header = quote(delimiter.join(names).replace("\t", "\\t"))
    table = new_name(path.name, path.suffix)
    records = f"tail -n +{before + 1} {quote(path.name)}"
    return (
        f"`(printf {header}'\\n'; {records}) > {table}` adds one: write the columns' names there."
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
