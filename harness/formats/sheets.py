"""Spreadsheets (.xlsx) as rows of texts; cells that a program altered are restored or refused."""

import datetime
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile, ZipFile

from harness.errors import DataError, MissingDependency, raised_as
from harness.files import open_regular

Cells: TypeAlias = Sequence[str]
MAX_SHEET = 2**26  # bytes of all XML in a spreadsheet: openpyxl reads some 5 MB a second
MAX_CHARACTERS = 2**28  # of all cells, of which many may share one text
MAX_TEXT = 32_767
"""Characters that a cell holds at most."""
CUT = f"predictions of {MAX_TEXT:,} characters, which a spreadsheet may have cut"
ZIP = b"PK"
DECLARED = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, as spreadsheets write it: `_x000D_` is a carriage return."""
DATES = (datetime.date, datetime.time, datetime.timedelta)
SHOWN_OTHERWISE = re.compile(r"[%$€£¥]")
FIX = "Save the table as .tsv."


def is_sheet(path: Path) -> bool:
    """Return True for a spreadsheet, whatever it is called, or a damaged one that is called so."""
    with open_regular(path) as file:
        if file.read(len(ZIP)) != ZIP:
            return False
        with suppress(BadZipFile), ZipFile(file) as book:
            return "xl/workbook.xml" in book.namelist()
    return path.suffix.lower() == ".xlsx"


def sheet_rows(path: Path, read: Collection[str]) -> Iterator[tuple[int, Cells]]:
    """Yield number and cells, as texts, of each row of a spreadsheet's first sheet.

    A text that begins with `=`, which programs take for a formula, is read as the text.

    Args:
        path: The file.
        read: Names of columns in which altered cells are refused.

    Raises:
        DataError: it cannot be read; or a cell of `read` is a date, or a number that is shown as a
            percentage or an amount, so that its text is lost.
        MissingDependency: openpyxl is not installed.
    """
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
    names: Cells = []
    left = MAX_CHARACTERS
    try:
        with open_regular(path) as file:  # openpyxl believes names, and not what is in a file
            sheet = openpyxl.load_workbook(file, read_only=True).worksheets[0]
            sheet.reset_dimensions()  # what it says of its size is not what it holds
            for number, row in enumerate(sheet.iter_rows(), start=1):
                where = f"{path}, row {number}, column"
                columns = chain(names, repeat(""))
                cells = [
                    _text(cell, f"{where} {name!r}" if name in read else "")
                    for cell, name in zip(row, columns, strict=False)
                ]
                left -= sum(map(len, cells))
                if left < 0:
                    limit = f"at most {MAX_CHARACTERS} characters in all cells"
                    raise DataError(what, expected=limit, found="more")
                names = names or cells
                yield number, cells
    except DataError:
        raise
    except (Exception, RecursionError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise DataError(what, expected=expected, found=reason) from error


def _text(cell: Any, where: str) -> str:
    """The text of a cell; raise DataError if it was lost, where a column's place is given."""
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "f":
        return str(getattr(value, "text", value))
    if isinstance(value, str):
        return ESCAPED.sub(lambda code: chr(int(code[1], 16)), value)
    shown = "" if isinstance(value, bool) else cell.number_format
    if where and (isinstance(value, DATES) or SHOWN_OTHERWISE.search(shown)):
        raise DataError(
            where,
            expected="text",
            found=f"{value}, which a spreadsheet program made of it",
            fix="Give the table that was written first, or type the text into a cell of text.",
        )
    return str(value)


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
                            found="a document type or custom entities",
                            fix=FIX,
                        )
                    kept = chunk[-32:]
        if left < 0:
            raise DataError(
                f"predictions {path}",
                expected=f"at most {MAX_SHEET} bytes of XML",
                found="more",
                fix=FIX,
            )
