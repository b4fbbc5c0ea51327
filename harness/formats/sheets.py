"""Read spreadsheets (.xlsx) as rows of texts, and restore or refuse cells that a program altered.

`harness.formats.tables` calls `sheet_rows` with the file's path; before anything parses the file,
its unpacked size and its XML entities are checked.
"""

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
"""Most characters of a cell."""
CUT = f"predictions of {MAX_TEXT:,} characters, which a spreadsheet may have cut"
ZIP = b"PK"
DECLARED = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML does not allow, in a spreadsheet's spelling: `_x000D_`, carriage return."""
DATES = (datetime.date, datetime.time, datetime.timedelta)
SHOWN_OTHERWISE = re.compile(r"[%$€£¥]")
FIX = "Save the table as .tsv."


def is_sheet(path: Path) -> bool:
    """Return True for a ZIP file that contains a workbook, or is damaged and has suffix .xlsx."""
    with open_regular(path) as file:
        if file.read(len(ZIP)) != ZIP:
            return False
        with suppress(BadZipFile), ZipFile(file) as book:
            return "xl/workbook.xml" in book.namelist()
    return path.suffix.lower() == ".xlsx"


def sheet_rows(path: Path, text_columns: Collection[str]) -> Iterator[tuple[int, Cells]]:
    """Yield the number, from 1, and the cells, as texts, of each row of the first sheet.

    A cell that begins with `=`, which programs take for a formula, is read as a text.

    Args:
        path: The file.
        text_columns: Names of columns in which altered cells are refused.

    Raises:
        DataError: the file cannot be read; or a cell of `text_columns` is a date, or a number
            shown as a percentage or an amount, so that its text is lost.
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
    characters_left = MAX_CHARACTERS
    try:
        with open_regular(path) as file:  # openpyxl believes names, and not what is in a file
            sheet = openpyxl.load_workbook(file, read_only=True).worksheets[0]
            sheet.reset_dimensions()  # what it says of its size is not what it holds
            for number, row in enumerate(sheet.iter_rows(), start=1):
                where = f"{path}, row {number}, column"
                columns = chain(names, repeat(""))
                cells = [
                    _text(cell, f"{where} {name!r}" if name in text_columns else "")
                    for cell, name in zip(row, columns, strict=False)
                ]
                characters_left -= sum(map(len, cells))
                if characters_left < 0:
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
    """Return a cell's text; if `where` is not empty, raise DataError if the text was lost."""
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "f":
        return str(getattr(value, "text", value))
    if isinstance(value, str):
        return ESCAPED.sub(lambda code: chr(int(code[1], 16)), value)
    number_format = "" if isinstance(value, bool) else cell.number_format
    if where and (isinstance(value, DATES) or SHOWN_OTHERWISE.search(number_format)):
        raise DataError(
            where,
            expected="text",
            found=f"{value}, which a spreadsheet program made of it",
            fix="Give the table that was written first, or type the text into a cell of text.",
        )
    return str(value)


def _refuse_bomb(path: Path) -> None:
    """Check a spreadsheet's parts before anything parses them.

    Raises:
        DataError: it unpacks to more than `MAX_SHEET` bytes, or its XML declares a document type or
            entities, which may grow without bound or refer to other files.
        OSError, BadZipFile: the file is not a spreadsheet.
    """
    with open_regular(path) as raw, ZipFile(raw) as book:
        bytes_left = MAX_SHEET
        for member in book.infolist():
            with book.open(member) as file:
                tail = b""
                while bytes_left >= 0 and (chunk := file.read(2**20)):
                    bytes_left -= len(chunk)
                    # UTF-16, if it is that, without its other bytes.
                    if DECLARED.search((tail + chunk).replace(b"\x00", b"")):
                        raise DataError(
                            f"predictions {path}, {member.filename}",
                            expected="plain XML",
                            found="a document type or custom entities",
                            fix=FIX,
                        )
                    tail = chunk[-32:]
        if bytes_left < 0:
            raise DataError(
                f"predictions {path}",
                expected=f"at most {MAX_SHEET} bytes of XML",
                found="more",
                fix=FIX,
            )
