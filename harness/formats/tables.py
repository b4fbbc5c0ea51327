"""VLMEvalKit's tables of predictions."""

import csv
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from harness.errors import DataError, MissingDependency, raised_as
from harness.files import open_regular
from harness.formats.entries import VIDEO_KEYS, Entry, ids_in, number_in, objects_in, text_in

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
MAX_SHEET = 2**26  # bytes of all XML in a spreadsheet: openpyxl reads some 5 MB a second
MAX_TEXT = 2**28  # characters of all cells, of which many may share one text
DECLARED = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def vlmevalkit(path: Path) -> Iterator[Entry]:
    """VLMEvalKit's table of predictions: a row a question, with the column "prediction".

    Its "index" may be the row of a table in another order. Rows of failed requests are left out.
    """
    if path.suffix == ".pkl":
        raise DataError(
            f"predictions {path}",
            expected="the table (.xlsx, .tsv, .csv or .json)",
            found="a pickle, which could run code and is not opened",
        )
    for number, row in enumerate(_table(path), start=2):
        where = f"{path}, row {number}"
        if "prediction" not in row:
            raise DataError(where, expected='a column "prediction"', found=", ".join(row)[:80])
        if row["prediction"].startswith(FAILED):
            continue
        index = row.get("index", "")
        yield Entry(
            where=where,
            response=_responses(row),
            ids=ids_in([row]),
            video=text_in([row], *VIDEO_KEYS),
            question=text_in([row], "question"),
            categories={"aspect": row["dim"]} if row.get("dim") else {},
            row=int(index) if index.isdecimal() and len(index) < MAX_DIGITS else None,
            ground_truth=row.get("answer", ""),
            score=_scored(number_in(row, SCORES)),
        )


def _responses(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return the prediction, after those before it if the records are all of them."""
    last = row["prediction"]
    try:
        found = json.loads(row.get(RECORDS) or "[]")
    except (ValueError, RecursionError):
        return (last,)
    texts = found if isinstance(found, list) else []
    complete = texts[-1:] == [last] and all(isinstance(one, str) for one in texts)
    return tuple(texts) if complete else (last,)


def _scored(score: float | None) -> float | None:
    return None if score == UNSCORED else score


def _table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table as texts, by the names in its first row."""
    if path.suffix == ".xlsx":
        yield from _sheet(path)
        return
    if path.suffix == ".json":
        for one in objects_in(path):
            yield {name: "" if value is None else str(value) for name, value in one.items()}
        return
    csv.field_size_limit(MAX_CELL)
    unfit = (OSError, UnicodeDecodeError, csv.Error)
    with (
        raised_as(DataError, f"predictions {path}", "a table in UTF-8", *unfit),
        TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file,
    ):
        comma = "\t" if path.suffix == ".tsv" else ","
        rows = csv.reader(file, delimiter=comma, strict=True)
        names = next(rows, [])
        for row in filter(None, rows):
            if len(row) != len(names):
                raise DataError(
                    f"{path}, line {rows.line_num}",
                    expected=f"{len(names)} cells",
                    found=f"{len(row)}",
                    fix="Is the file complete?",
                )
            yield dict(zip(names, row, strict=True))


def _sheet(path: Path) -> Iterator[dict[str, str]]:
    what, expected = f"predictions {path}", "a complete .xlsx file"
    unfit = (OSError, BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error)
    with raised_as(DataError, what, expected, *unfit):
        _refuse_bomb(path)
    try:
        openpyxl = import_module("openpyxl")
    except ModuleNotFoundError as error:
        raise MissingDependency(
            what,
            expected="the package openpyxl",
            found="it is not installed",
            fix="pip install openpyxl, or save the table as .tsv.",
        ) from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # what it says of its size is not what it holds
        rows = sheet.iter_rows(values_only=True)
        names = [str(name) for name in next(rows, ())]
        left = MAX_TEXT
        for row in rows:
            cells = ["" if value is None else str(value) for value in row]
            left -= sum(map(len, cells))
            if left < 0:
                limit = f"at most {MAX_TEXT} characters in all cells"
                raise DataError(what, expected=limit, found="more")
            yield dict(zip(names, cells, strict=False))
    except DataError:
        raise
    except (Exception, RecursionError) as error:
        found = str(error)[:200] or type(error).__name__
        raise DataError(what, expected=expected, found=found) from error


def _refuse_bomb(path: Path) -> None:
    """Look at a spreadsheet before anything in it is parsed.

    Raises:
        DataError: it holds more than `MAX_SHEET`, or XML that declares a document type or entities,
            which may grow without bound or name other files.
        OSError, BadZipFile: it is no spreadsheet.
    """
    with open_regular(path) as raw, ZipFile(raw) as book:
        left = MAX_SHEET
        for member in book.infolist():
            with book.open(member) as file:
                kept = b""
                while left >= 0 and (chunk := file.read(2**20)):
                    left -= len(chunk)
                    # UTF-16, if it is that, without its other bytes.
                    if DECLARED.search((kept + chunk).replace(b"\x00", b"")):
                        raise DataError(
                            f"predictions {path}, {member.filename}",
                            expected="plain XML",
                            found="a document type or entities of its own",
                            fix="Save the table as .tsv.",
                        )
                    kept = chunk[-32:]
        if left < 0:
            raise DataError(
                f"predictions {path}",
                expected=f"at most {MAX_SHEET} bytes of XML",
                found="more",
                fix="Save the table as .tsv.",
            )
