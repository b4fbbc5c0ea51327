"""Read the numbers that papers print (`published/<paper>.csv`) and make rows of boards from them.

docs/published.md describes the columns of the files; `PublishedResult` is a line. A `PublishedRow`
on a board has no rank and no interval, and the gate does not read it. A package brings a paper's
numbers by a CSV beside its boards, in the folder that its entry point in `harness.boards` returns.
"""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness import plugins
from harness.errors import DataError, counted
from harness.leaderboards.row import Row
from harness.record import Run

FOLDER = Path(__file__).parent / "published"
PAPERS: Mapping[str, str] = {
    "dt_r1": "DT-R1",
    "video_str": "Video-STR",
    "dr2seg": "DR2Seg",
    "videoseg_r1": "VideoSeg-R1",
    "vr_ttrl": "VR-TTRL",
}
COLUMNS = ("table", "row", "task", "split", "metric", "protocol", "printed")
"""Columns that a file must have; the others have the defaults of `PublishedResult`."""
PROTOCOL_STATES = ("stated", "assumed", "unknown")
"""Ways in which the protocol of a number is known."""
SCALES = {"percent": 0.01, "fraction": 1.0}
"""Factors from a score's unit to a fraction; a number in another unit is not a score."""
UNITS = (*SCALES, "percent of base", "tokens", "s/image", "minutes", "count")
GENERATED = "shapes.json"
"""File at the root of a generated world, for which no paper prints numbers."""
PRINTED_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?\Z")
"""A printed number: `66.4`, `-3`, `+0.5`."""
MIN_SAMPLES = 100
"""Smallest number of samples taken for a benchmark of unknown size; the examples in this repository
have fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedResult:
    """One printed number; the fields are the columns of the file."""

    paper: str
    table: str
    row: str
    task: str
    split: str
    metric: str
    protocol: str
    printed: str
    title: str = ""
    """Title of the paper that prints the number; empty: that of the file (`title_of`)."""
    backbone: str = ""
    benchmark: str = ""
    part: str = ""
    subset: str = ""
    protocol_is: str = "stated"
    unit: str = "percent"
    defect: str = ""
    note: str = ""

    @property
    def is_score(self) -> bool:
        """False for tokens, times, counts and relative changes."""
        return self.unit in SCALES

    @property
    def name(self) -> str:
        """The row's name, with its backbone unless the name contains it."""
        adds_backbone = self.backbone and self.backbone.lower() not in self.row.lower()
        return f"{self.row} ({self.backbone})" if adds_backbone else self.row

    @property
    def source(self) -> str:
        """Title of the paper that prints the number."""
        return self.title or title_of(self.paper)

    def is_by(self, protocol: str) -> bool:
        """Return True if the number is stated or assumed to be by this protocol."""
        return self.protocol == protocol and self.protocol_is != "unknown"

    @property
    def value(self) -> float:
        """The number: a score as a fraction from 0 to 1, others in their unit."""
        return float(self.printed) * SCALES.get(self.unit, 1.0)

    @property
    def rounding(self) -> float:
        """Half of the last printed digit, on the scale of `value`."""
        return 0.5 * 10.0 ** -len(self.printed.partition(".")[2]) * SCALES.get(self.unit, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """The numbers of one row of a paper's table that belong to one table of a board."""

    results: tuple[PublishedResult, ...]
    """One number for each metric, the headline first."""
    is_comparable: bool
    """True if the protocol is stated or assumed to be the table's."""
    has_twin: bool = False
    """True if another row has the same name, so that the paper's table is added to it."""

    @property
    def name(self) -> str:
        """The row's name, with the paper's table if another row has the same name."""
        first = self.results[0]
        return first.name + (f", {first.source} Table {first.table}" if self.has_twin else "")

    def to_json(self) -> dict[str, object]:
        """Return plain data: a row of kind `published`, without rank and interval."""
        first = self.results[0]
        copied = ("paper", "table", "row", "backbone", "protocol", "protocol_is", "note", "unit")
        return {
            "kind": "published",
            "rank": None,
            "name": self.name,
            "metrics": {result.metric: result.value for result in self.results},
            "comparable": self.is_comparable,
            "source": {
                **{key: getattr(first, key) for key in copied},
                "title": first.source,
                "defect": "; ".join(
                    dict.fromkeys(result.defect for result in self.results if result.defect)
                ),
                "printed": {result.metric: result.printed for result in self.results},
            },
        }


def papers() -> Mapping[str, str]:
    """Return the titles of all papers with numbers by short name, those of harness first."""
    titles_of_packages = {name: title_of(name) for name in _files_of_packages()}
    return {**PAPERS, **titles_of_packages}


def title_of(paper: str) -> str:
    """Return a paper's title: the only one in its file, or else its short name."""
    if paper in PAPERS:
        return PAPERS[paper]
    titles = {result.title for result in published_results(paper) if result.title}
    return titles.pop() if len(titles) == 1 else paper


def published_results(paper: str) -> tuple[PublishedResult, ...]:
    """Return the numbers of a paper in the order of its tables; empty for an unknown paper.

    Raises:
        DataError: a package's file is malformed.
    """
    if paper in PAPERS:
        return _read(FOLDER / f"{paper}.csv")
    path = _files_of_packages().get(paper)
    return () if path is None else _read(path)


def _files_of_packages() -> Mapping[str, Path]:
    """Return the files beside the boards of packages, by the paper's short name.

    Raises:
        DataError: two files have one name, or a file has the name of one of our papers.
    """
    files: dict[str, Path] = {}
    for folder in plugins.data_folders("boards"):
        for path in folder.glob("*.csv"):
            first = PAPERS.get(path.stem) or files.setdefault(path.stem, path)
            if first != path:
                raise DataError(
                    f"published numbers {path}", expected="a unique name", found=str(first)
                )
    return dict(sorted(files.items()))


@cache
def _read(path: Path) -> tuple[PublishedResult, ...]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # spreadsheets write a BOM
            lines = csv.DictReader(file)
            _check_header(path, lines.fieldnames or ())
            results = tuple(_result(path, lines.line_num, line) for line in lines)
            _check_units(path, results)
            return results
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"published numbers {path}", expected="CSV in UTF-8", found=str(error)
        ) from error


def _check_header(path: Path, columns: Sequence[str]) -> None:
    """Raise DataError if a file lacks a column of `COLUMNS`, or has an unknown one."""
    allowed = {column.name for column in fields(PublishedResult)} - {"paper"}
    if lacking := {*COLUMNS} - {*columns}:
        raise _fault(path, 1, f"the column {min(lacking)}", ", ".join(columns) or "nothing")
    if unknown := {*columns} - allowed:
        raise _fault(path, 1, f"columns among {', '.join(sorted(allowed))}", min(unknown))


def _result(path: Path, number: int, line: Mapping[Any, Any]) -> PublishedResult:
    """Return the result in a line of a file; empty cells have their defaults.

    Raises:
        DataError: a cell is malformed; the text names the file and the line `number`.
    """
    if None in line:  # `csv` puts cells beyond the last column there
        raise _fault(path, number, "a cell for each column", f"{len(line[None])} more")
    cells = {name: value for name, value in line.items() if value or name in COLUMNS}
    result = PublishedResult(paper=path.stem, **{k: v or "" for k, v in cells.items()})
    if not PRINTED_NUMBER.match(result.printed):
        raise _fault(path, number, "a number, as printed", repr(result.printed))
    if result.unit not in UNITS:
        raise _fault(path, number, f"a unit, one of {', '.join(UNITS)}", repr(result.unit))
    if "unit" not in cells and abs(float(result.printed)) <= 1:  # per cent, or a fraction?
        raise _fault(
            path,
            number,
            "`percent` or `fraction` in a column `unit` for a number up to 1",
            f"{result.printed} without a unit",
        )
    if result.unit == "fraction" and abs(float(result.printed)) > 1:
        raise _fault(path, number, "a number from -1 to 1 for the unit fraction", result.printed)
    if result.protocol_is not in PROTOCOL_STATES:
        raise _fault(path, number, f"one of {', '.join(PROTOCOL_STATES)}", repr(result.protocol_is))
    return result


def _check_units(path: Path, results: Sequence[PublishedResult]) -> None:
    """Raise DataError if a column of a paper's table has scores in two units."""
    units: dict[tuple[str, ...], str] = {}
    for result in results:
        column = (result.table, result.task, result.split, result.part, result.metric)
        if result.is_score and result.unit != units.setdefault(column, result.unit):
            raise DataError(
                f"published numbers {path}",
                expected=f"one unit for Table {result.table}, "
                f"{' '.join(filter(None, column[1:]))}: {units[column]}",
                found=f"{result.printed} in {result.unit} ({result.row})",
                fix="Convert it, or correct the column `unit`.",
            )


def _fault(path: Path, number: int, expected: str, actual: str) -> DataError:
    return DataError(
        f"published numbers {path}, line {number}",
        expected=expected,
        found=actual,
        fix="docs/published.md describes the columns.",
    )


def published_rows(table_row: Row, metrics: Sequence[str]) -> tuple[PublishedRow, ...]:
    """Return the published rows that belong to a table of a board, best first.

    Variants of ablations (`name [variant]`) are left out: they stand on the boards of their papers.
    A row that a paper prints in several tables by one protocol is taken from the first table; rows
    by different protocols, or of different papers, are separate.

    Args:
        table_row: Any row of the table.
        metrics: Names of the table's metrics, the headline first.
    """
    results: dict[tuple[str, ...], dict[str, PublishedResult]] = {}
    for result in (result for paper in papers() for result in published_results(paper)):
        if (result.task, result.split) != (table_row.task, table_row.split):
            continue
        is_part = bool(result.part or result.subset)
        is_variant = "[" in result.row
        if result.is_score and result.metric in metrics and not is_part and not is_variant:
            key = result.paper, result.source, result.name, result.protocol
            numbers = results.setdefault(key, {})
            numbers.setdefault(result.metric, result)
    sign = -1.0 if table_row.better[metrics[0]] == "higher" else 1.0
    rows = [
        PublishedRow(
            results=tuple(numbers[name] for name in metrics if name in numbers),
            is_comparable=numbers[metrics[0]].is_by(table_row.protocol),
        )
        for numbers in results.values()
        if metrics[0] in numbers
    ]
    names = Counter(row.name for row in rows)
    return tuple(
        replace(row, has_twin=names[row.name] > 1)
        for row in sorted(rows, key=lambda row: sign * row.results[0].value)
    )


def is_benchmark(run: Run, row: Row) -> bool:
    """Return True if a run's data is the benchmark for which papers print numbers.

    The number of samples must be the published one. If that is not known, or a subset was
    evaluated, there must be at least MIN_SAMPLES, in a folder that exists and is not a generated
    world.
    """
    return not fault_of_data(run, row)


def fault_of_data(run: Run, row: Row) -> str:
    """Return the reason why `is_benchmark` is False; empty if it is True."""
    root = Path(run.manifest["data"]["root"] or "/nowhere")
    if (root / GENERATED).is_file():
        return "the data is a generated world (harness data make)"
    card, arguments = plugins.find_card(row.task), run.manifest["task"].get("arguments", {})
    n_published = 0 if card is None else card.published_counts(row.split, arguments)[0]
    if n_published and row.subset is None:
        n_published -= int(arguments.get("without_image") or 0)
        papers = f"papers evaluate {counted(n_published, 'sample')} of {row.split}"
        return "" if row.n_total == n_published else f"{papers}, this table has {row.n_total:,}"
    if not root.is_dir():
        return f"the run's data folder {root} does not exist, so the benchmark cannot be checked"
    few = f"a table needs {MIN_SAMPLES} samples or more, this one has {row.n_total:,}"
    return few if row.n_total < MIN_SAMPLES else ""


def note_on_left_out(run: Run, row: Row, count: int) -> str:
    """Return a sentence on why a run's table leaves out `count` published rows."""
    reason = fault_of_data(run, replace(row, subset=None)) or (
        f"papers evaluate all of {row.split}, this table the subset {row.subset}"
    )
    return f"{counted(count, 'row')} of papers left out: {reason}."
