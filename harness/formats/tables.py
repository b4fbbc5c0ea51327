"""VLMEvalKit's tables of predictions."""

import csv
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from harness.errors import DataError, MissingDependency
from harness.formats.entries import Entry, ids_in, text_in

MAX_CELL = 2**24  # bytes


def vlmevalkit(path: Path) -> Iterator[Entry]:
    """VLMEvalKit's table of predictions: a row a question, with the column "prediction"."""
    if path.suffix == ".pkl":
        raise DataError(f"predictions {path}", expected="the table (.xlsx, .tsv or .csv)",
                        found="a pickle, which could run code and is not opened")  # fmt: skip
    for number, row in enumerate(_table(path), start=2):
        where = f"{path}, row {number}"
        if "prediction" not in row:
            raise DataError(where, expected='a column "prediction"',
                            found=", ".join(row)[:80])  # fmt: skip
        place = row.get("index", "")
        yield Entry(
            where=where, reply=row["prediction"] or "",
            ids=ids_in([row]), video=text_in(row, "video", "videoID", "video_id", "video_path"),
            question=text_in(row, "question"), place=int(place) if place.isdecimal() else None,
        )  # fmt: skip


def _table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table as texts, by the names in its first row."""
    if path.suffix == ".xlsx":
        yield from _sheet(path)
        return
    csv.field_size_limit(MAX_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","):
                yield {key: value or "" for key, value in row.items() if isinstance(key, str)
                       and not isinstance(value, list)}  # fmt: skip
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"predictions {path}", expected="a table in UTF-8", found=str(error)
                        ) from error  # fmt: skip


def _sheet(path: Path) -> Iterator[dict[str, str]]:
    from zipfile import BadZipFile

    try:
        openpyxl = import_module("openpyxl")
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"predictions {path}", expected="the package openpyxl", found="it is not installed",
            fix="pip install openpyxl, or save the table as .tsv.",
        ) from error  # fmt: skip
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows = book.worksheets[0].iter_rows(values_only=True)
        names = [str(name) for name in next(rows, ())]
        for row in rows:
            yield {name: "" if value is None else str(value)
                   for name, value in zip(names, row, strict=False)}  # fmt: skip
    except (OSError, BadZipFile, KeyError, ValueError) as error:
        raise DataError(f"predictions {path}", expected="a complete .xlsx file", found=str(error)
                        ) from error  # fmt: skip
