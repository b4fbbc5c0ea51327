"""VLMEvalKit's tables of predictions, also as a spreadsheet program saved them again."""

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
"""Columns of the tables that it writes after scoring (`…_result`, `…_score`)."""
UNSCORED = -1  # of a question whose judge failed
FAILED = "Failed to obtain answer"
"""Beginning of a prediction that stands for none, as VLMEvalKit's `FAIL_MSG` has it."""
RECORDS = "extra_records"
"""Column of what a model, such as an agent, records besides; all its responses, if it is a list of
texts that ends with the prediction."""
MAX_DIGITS = 10  # of an index
MAX_CELL = 2**24  # bytes
MAX_OPTIONS = 10_000  # characters
READ = ("prediction", "question", "answer", "index", *ID_KEYS, *VIDEO_KEYS)
"""Columns that are read, in which a cell that a program altered is refused."""
ERRORS = re.compile(r"#(?:NAME\?|REF!|VALUE!|DIV/0!|N/A|NUM!|NULL!|SPILL!|CALC!)|#{3,}")
"""Texts that spreadsheet programs show in place of a value: errors, and too narrow columns."""
EMPTY = "predictions that are empty"
DATES = "predictions that are dates: a spreadsheet program may have made them of numbers"
MONTHS = "jan feb mar mär apr may mai jun jul aug sep oct okt nov dec dez".replace(" ", "|")
DATE = re.compile(
    rf"(?:\d{{1,2}}[-./ ]{{1,2}})?(?:{MONTHS})[a-z]{{0,6}}(?:[-./ ]{{1,2}}\d{{1,4}})?|"
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?: 00:00(?::00)?)?",
    re.IGNORECASE,
)
"""Forms in which spreadsheet programs show 2-1, 2/1 or 2.1 once they took it for a date."""
ALTERED = (
    "A spreadsheet program altered it: give the table that VLMEvalKit wrote, or type the text."
)

DECIMAL = re.compile(r"\s*[-+]?\d+,\d+(?:[eE][-+]?\d+)?\s*")
"""A cell that is a number with a comma."""


def vlmevalkit(path: Path) -> Iterator[Entry]:
    """VLMEvalKit's table of predictions: a row a question, with the column "prediction".

    Its "index" may be the row of a table in another order. Rows of failed requests are left out. A
    prediction that is empty is an empty response, as are cells that the end of a row lacks.
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
    """Return what is odd about a prediction, in words; empty: nothing."""
    if len(prediction) == MAX_TEXT:
        return CUT
    text = prediction.strip()
    is_date = any(map(str.isdecimal, text)) and DATE.fullmatch(text)
    return DATES if is_date else "" if text else EMPTY


def _options(text: str) -> tuple[str, ...]:
    """Return the options of a cell, which is the text of Python's list; none, where it is not."""
    try:
        options = ast.literal_eval(text[:MAX_OPTIONS]) if text.startswith("[") else []
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    return tuple(map(str, options)) if isinstance(options, list) else ()


def _by_letter(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of a row in the columns A, B, ..., as far as they go."""
    return tuple(takewhile(bool, (row.get(letter, "") for letter in ascii_uppercase)))


def _responses(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return the prediction, after those before it if the records are all of them."""
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
    """The rows of a table as texts, by the names in its first row, with their numbers from 2.

    What a file is, its first bytes tell: programs save tables under other suffixes.
    """
    what = f"predictions {path}"
    with raised_as(DataError, what, "a table", OSError):
        is_spreadsheet = is_sheet(path)
    if is_spreadsheet:
        yield from _named(path, sheet_rows(path, READ))
        return
    refuse_foreign(path, DataError, what, "a table of text", text=True)
    if path.suffix.lower() == ".json":
        for number, record in enumerate(objects_in(path), start=2):
            cells = record.items()  # of an empty one pandas writes NaN, which equals nothing
            yield number, {name: "" if it is None or it != it else str(it) for name, it in cells}
        return
    yield from _named(path, _text_rows(path))


def _named(path: Path, rows: Iterator[tuple[int, Cells]]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row that is not blank with the names in the first one, and the file's number.

    Cells that a row lacks at its end are empty: spreadsheet programs leave them out.
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
    """The rows of a text table, whatever separates its cells; its last one has to be whole."""
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
    """Refuse a row of a table with semicolons that has a number with a comma.

    Raises:
        DataError: it has one; the command that writes the table with points is named.
    """
    decimal = next(filter(DECIMAL.fullmatch, row), None)
    if decimal is None:
        return
    read, new = f"read_csv({path.name!r}, sep=';', decimal=',')", f"points_{path.stem}.csv"
    raise DataError(
        f"{path}, line {line}",
        expected="a point before decimals",
        found=f"{decimal!r} in a table with semicolons, whose decimals have commas",
        fix=f'Save it with points: python -c "import pandas; '
        f'pandas.{read}.to_csv({new!r}, index=False)"',
    )


def _delimiter(header: str, path: Path) -> str:
    """Return what separates the cells: programs in some languages write semicolons."""
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    names = {mark: next(csv.reader([header], delimiter=mark), []) for mark in (usual, *"\t;,")}
    return next((mark for mark, cells in names.items() if "prediction" in cells), usual)
