"""Read VLMEvalKit's tables of predictions, also after a spreadsheet program saved them again.

For `--format vlmevalkit`, `vlmevalkit` gets the path of an .xlsx, .tsv, .csv or .json file and
yields an `Entry` per row. Cells that the program altered are refused, not guessed.
"""

import ast
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOWrapper
from itertools import chain, pairwise, takewhile
from pathlib import Path
from string import ascii_uppercase

from harness.errors import DataError, raised_as
from harness.files import open_regular
from harness.foreign import other_encoding, refuse_foreign
from harness.formats.entries import (
    ID_KEYS,
    VIDEO_KEYS,
    Entry,
    ids_in,
    number_in,
    objects_in,
    text_in,
)
from harness.formats.sheets import CUT, MAX_TEXT, Cells, is_sheet, sheet_rows

SCORES = ("hit", "score")
"""Columns with scores, in tables that VLMEvalKit writes after scoring (`…_result`, `…_score`)."""
UNSCORED = -1  # of a question whose judge failed
FAILED = "Failed to obtain answer"
"""Beginning of the text that VLMEvalKit writes for a failed request, from its `FAIL_MSG`."""
RECORDS = "extra_records"
"""Column of a model's own records, as an agent's; if it is a list of texts that ends with the
prediction, it holds all responses."""
MAX_DIGITS = 10  # of an index
MAX_CELL = 2**24  # bytes
MAX_OPTIONS = 10_000  # characters
READ = ("prediction", "question", "answer", "index", *ID_KEYS, *VIDEO_KEYS)
"""Columns that are read; a cell of them that a program altered is refused."""
ERRORS = re.compile(r"#(?:NAME\?|REF!|VALUE!|DIV/0!|N/A|NUM!|NULL!|SPILL!|CALC!)|#{3,}")
"""Texts that spreadsheet programs show instead of a value: `#NAME?` for an error, `####` for a
column that is too narrow."""
EMPTY = "predictions that are empty"
DATES = "predictions that are dates: a spreadsheet program may have made them of numbers"
MONTHS = "jan feb mar mär apr may mai jun jul aug sep oct okt nov dec dez".replace(" ", "|")
DATE = re.compile(
    rf"(?:\d{{1,2}}[-./ ]{{1,2}})?(?:{MONTHS})[a-z]{{0,6}}(?:[-./ ]{{1,2}}\d{{1,4}})?|"
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?: 00:00(?::00)?)?",
    re.IGNORECASE,
)
"""Dates, as `2-Jan`, that spreadsheet programs make of 2-1, 2/1 or 2.1."""
ALTERED = (
    "A spreadsheet program altered it: give the table that VLMEvalKit wrote, or type the text."
)

DECIMAL = re.compile(r"\s*[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][-+]?\d+)?\s*")
"""A cell that is a number with a decimal comma, as `0,5` and `1.250,5`."""
THOUSANDS = re.compile(r'(?:^|;)"?[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?"?(?=;|\r?$)', re.MULTILINE)
"""A cell of a text whose points part thousands."""


def vlmevalkit(path: Path) -> Iterator[Entry]:
    """Yield the entries of VLMEvalKit's table: one row per question, with a column "prediction".

    "index" may be the row of the benchmark's table, or of one in another order. Rows of failed
    requests are left out. An empty or missing cell is an empty response.

    Raises:
        DataError: the file is not such a table, or a program altered a cell that is read.
    """
    if path.suffix.lower() == ".pkl":
        raise DataError(
            f"predictions {path}",
            expected="the table (.xlsx, .tsv, .csv or .json)",
            found="a pickle, which could run code and is not opened",
        )
    for number, row in _table(path):
        where = f"{path}, row {number}"
        if "prediction" not in row:
            raise _lacking(where, row)
        for name in READ:
            if ERRORS.fullmatch(row.get(name, "")):
                raise DataError(
                    f"{where}, column {name!r}", expected="text", found=row[name][:10], fix=ALTERED
                )
        prediction = row["prediction"]
        if prediction.startswith(FAILED):
            continue
        index = row.get("index", "")
        yield Entry(
            where=where,
            response=_responses(row),
            ids=ids_in([row]),
            video=text_in([row], *VIDEO_KEYS),
            question=text_in([row], "question"),
            categories={"aspect": row["dim"]} if row.get("dim") else {},
            options=_options(row.get("candidates", "")) or _by_letter(row),
            task=row.get("task_type", ""),
            row=int(index) if index.isdecimal() and len(index) < MAX_DIGITS else None,
            ground_truth=row.get("answer", ""),
            score=_scored(number_in(row, SCORES)),
            note=_note(prediction),
        )


def _note(prediction: str) -> str:
    """Return in words what is suspicious in a prediction; "" if nothing is."""
    if len(prediction) == MAX_TEXT:
        return CUT
    text = prediction.strip()
    is_date = any(map(str.isdecimal, text)) and DATE.fullmatch(text)
    return DATES if is_date else "" if text else EMPTY


def _options(text: str) -> tuple[str, ...]:
    """Return the options in a cell with a Python list, "['a', 'b']"; none if it is not one."""
    try:
        options = ast.literal_eval(text[:MAX_OPTIONS]) if text.startswith("[") else []
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    return tuple(map(str, options)) if isinstance(options, list) else ()


def _by_letter(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options in a row's columns A, B, … up to the first that is missing or empty."""
    return tuple(takewhile(bool, (row.get(letter, "") for letter in ascii_uppercase)))


def _responses(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return all responses if the records are texts that end with the prediction; else only it."""
    last = row["prediction"]
    try:
        records = json.loads(row.get(RECORDS) or "[]")
    except (ValueError, RecursionError):
        return (last,)
    texts = records if isinstance(records, list) else []
    complete = texts[-1:] == [last] and all(isinstance(text, str) for text in texts)
    return tuple(texts) if complete else (last,)


def _scored(score: float | None) -> float | None:
    return None if score == UNSCORED else score


def _table(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the cells of each row, as texts by column name; the header is row 1.

    The first bytes decide the kind of file, not its suffix: programs save tables under any suffix.
    """
    what = f"predictions {path}"
    with raised_as(DataError, what, "a table", OSError):
        is_spreadsheet = is_sheet(path)
    if is_spreadsheet:
        yield from _by_column_name(path, sheet_rows(path, READ))
        return
    refuse_foreign(path, DataError, what, "a table of text", text=True)
    if path.suffix.lower() == ".json":
        for number, record in enumerate(objects_in(path), start=2):
            cells = record.items()  # of an empty one pandas writes NaN, which equals nothing
            yield number, {name: "" if it is None or it != it else str(it) for name, it in cells}
        return
    yield from _by_column_name(path, _text_rows(path))


def _by_column_name(
    path: Path, rows: Iterator[tuple[int, Cells]]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the cells, by the names in the first row, of each row that is not blank.

    Missing cells at a row's end are "": spreadsheet programs leave empty ones out.
    """
    _, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    while names and not names[-1]:
        del names[-1]
    if names and "prediction" not in names:
        raise _lacking(f"{path}, row 1", names)
    for name in (*READ, *SCORES, "dim", RECORDS):
        if names.count(name) > 1:
            raise DataError(
                f"{path}, row 1",
                expected=f"one column {name!r}",
                found=f"{names.count(name)} of that name",
                fix="Keep the one that counts.",
            )
    for number, row in rows:
        if not any(row):
            continue
        if any(row[len(names) :]):
            raise DataError(
                f"{path}, row {number}", expected=f"{len(names)} cells", found=f"{len(row)}"
            )
        cells = chain(row, [""] * (len(names) - len(row)))
        yield number, dict(zip(names, cells, strict=False))


def _lacking(where: str, names: Iterable[str]) -> DataError:
    return DataError(where, expected='a column "prediction"', found=", ".join(names)[:80])


def _text_rows(path: Path) -> Iterator[tuple[int, Cells]]:
    """Yield the rows of a text table with any delimiter; raise DataError if the last is cut off."""
    csv.field_size_limit(MAX_CELL)
    what, expected = f"predictions {path}", "a table in UTF-8"
    fix = other_encoding(path.name)
    with (
        raised_as(DataError, what, expected, OSError, csv.Error),
        raised_as(DataError, what, expected, UnicodeDecodeError, fix=fix),
        open_regular(path) as raw,
    ):
        header = raw.readline(MAX_CELL).decode("utf-8-sig")
        raw.seek(max(0, path.stat().st_size - 1))
        is_whole = raw.read() in (b"\n", b"\r", b'"')
        raw.seek(0)
        file = TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        delimiter = _delimiter(header, path)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        rows = (row for row in reader if row)
        names: Cells = []
        for number, (row, after) in enumerate(pairwise(chain(rows, [None])), start=1):
            assert row is not None, "only the last is none"
            names = names or row
            if len(row) < len(names) and after is None and not is_whole:
                raise DataError(
                    f"{path}, line {reader.line_num}",
                    expected=f"{len(names)} cells",
                    found=f"{len(row)}",
                    fix="Is the file complete?",
                )
            if delimiter == ";":
                refuse_decimal_commas(row, path, reader.line_num)
            yield number, row


def refuse_decimal_commas(row: Cells, path: Path, line: int) -> None:
    """Refuse a row of a table with semicolons if a number in it has a decimal comma.

    Raises:
        DataError: it has one; the message has the command that writes decimal points.
    """
    decimal = next(filter(DECIMAL.fullmatch, row), None)
    if decimal is None:
        return
    with open_regular(path) as file:
        has_thousands = THOUSANDS.search(file.read().decode(errors="replace"))
    marks = "decimal=',', thousands='.'" if has_thousands else "decimal=','"
    reader_call, new = f"read_csv({path.name!r}, sep=';', {marks})", f"points_{path.stem}.csv"
    raise DataError(
        f"{path}, line {line}",
        expected="a point before decimals",
        found=f"{decimal!r} in a table with semicolons, whose decimals have commas",
        fix=f'Save it with points: python -c "import pandas; '
        f'pandas.{reader_call}.to_csv({new!r}, index=False)"',
    )


def _delimiter(header: str, path: Path) -> str:
    """Return the delimiter of the header's cells: tab, comma, or in some locales a semicolon."""
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    names = {mark: next(csv.reader([header], delimiter=mark), []) for mark in (usual, *"\t;,")}
    return next((mark for mark, cells in names.items() if "prediction" in cells), usual)
