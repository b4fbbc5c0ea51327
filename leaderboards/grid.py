"""A paper's table with the printed and the measured number in each cell.

`board` calls `grid` with a `Definition` and its own rows. A measured row belongs to a cell if it is
a run of the cell's method (`Method.is_of`) on the column's task, split, subset and protocol.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

from harness.errors import UsageError
from harness.leaderboards.definitions import (
    BoardRow,
    Column,
    Definition,
    Method,
    is_same,
    methods_of,
)
from harness.leaderboards.published_results import PublishedResult
from harness.leaderboards.reproduction import compare_with_paper, training_differences
from harness.leaderboards.row import Reproduction, Row
from harness.spec import Spec, parse
from harness.trainer import CURVE, Curve

TIME_METRIC = "time"
"""Name of the metric of seconds a sample."""
DEGRADED_METRIC = "share of samples degraded"
"""Metric: share of units whose headline is worse than the base model's by more than the limit in
the column's part, such as `5%` (VR-TTRL, Table 6)."""
SUCCESS_METRIC = "training success rate"
"""Metric: share of rollouts at a training's end with a legal form, a valid plan and no failed code,
that is, the mean of `SUCCESS_KEY` over the last tenth of its steps (DT-R1, Table 7; our
reading)."""
SUCCESS_KEY = "rewards/success"  # of a training's curve
UnitValues: TypeAlias = Mapping[str, float | None]
"""The headline on each unit alone, by the unit's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of the table."""

    column: str
    """Task, split, part and metric."""
    printed: str | None
    """The paper's number; None if it prints none, or none that can be read."""
    unit: str
    """Unit of the printed numbers of the column, or else of its metric; empty without any."""
    defect: str
    value: float | None
    """The measured number; None if no run belongs to the cell."""
    model: str | None
    """Name of the measured row."""
    reproduction: Reproduction | None
    """The comparison, if both numbers are scores of all samples of a benchmark, or if they are of
    different protocols and `cannot tell` says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The table: its rows by name, each with one cell for every printed column."""

    heading: str
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOff:
    """A run that belongs to no cell of a board's table."""

    model: str
    task: str
    """Task, split and subset."""
    reason: str

    @classmethod
    def of(cls, definition: Definition, row: Row) -> "LeftOff | None":
        """Return the reason why a measured row belongs to no cell; None if it belongs to one."""
        methods = methods_of(definition)
        if any(_find(methods, column, [row]) for column in definition.columns):
            return None
        columns = [column for column in definition.columns if is_of_column(column, row)]
        protocols = {column.protocol for column in columns}
        if not columns:
            column_keys = [
                (column.name, column.split, column.subset)
                for column in definition.columns
                if column.task
            ]
            names = dict.fromkeys(" ".join(filter(None, column_key)) for column_key in column_keys)
            reason = f"no column has this task, split and subset; columns: {', '.join(names)}"
        elif not protocols & {"", row.protocol}:
            reason = f"protocol {row.protocol}, where a column has {' or '.join(sorted(protocols))}"
        elif row.model_spec.startswith("predictions("):
            reason = (
                "rows have models that predict, and these are predictions from files; without "
                "--board, --rows and --tasks give a table its labels and order"
            )
        else:
            reason = f"no row has the model {row.model_spec}"
        task = " ".join(filter(None, (row.task, row.split, row.subset)))
        return cls(model=row.name, task=task, reason=reason)


def left_off_text(left_off: Sequence[LeftOff]) -> str:
    """Return a sentence with the runs that belong to no cell, grouped by reason."""
    runs: dict[str, list[str]] = {}
    for run in left_off:
        runs.setdefault(run.reason, []).append(f"{run.model} ({run.task})")
    return "Left off: " + "; ".join(f"{', '.join(models)}: {why}" for why, models in runs.items())


def grid(
    definition: Definition, measured: Sequence[Row], unit_values: Sequence[UnitValues]
) -> Grid:
    """Return a board's table; if several measured rows belong to a cell, the first is taken.

    Args:
        definition: The board.
        measured: The measured rows, best first.
        unit_values: The headline of each measured row by unit.
    """
    rows = {(row.row, row.backbone): row for row in definition.rows}
    names = [f"{name} ({backbone})" if backbone else name for name, backbone in rows]
    numbers = Numbers(list(zip(measured, unit_values, strict=True)))
    cells = [tuple(_cells(definition, row, measured, numbers)) for row in rows.values()]
    # A column has one unit, that of its printed numbers, or else that of its metric in another
    # column; cells without a printed number get it too.
    printed_units = [
        next((cell.unit for cell in column if cell.unit), "") for column in zip(*cells, strict=True)
    ]
    metrics = [metric for column in definition.columns for _, metric, _ in column.heads]
    known = {metric: unit for metric, unit in zip(metrics, printed_units, strict=True) if unit}
    units = [
        unit or known.get(metric, "") for metric, unit in zip(metrics, printed_units, strict=True)
    ]
    cells = [
        tuple(replace(cell, unit=unit) for cell, unit in zip(row_cells, units, strict=True))
        for row_cells in cells
    ]
    return Grid(heading=definition.heading, rows=tuple(zip(names, cells, strict=True)))


def _cells(
    definition: Definition, row: BoardRow, measured: Sequence[Row], numbers: "Numbers"
) -> Iterator[Cell]:
    """Yield the cells of a row: the paper's number, the measured number, and their comparison."""
    row_key = (row.row, row.backbone)
    methods = [
        method
        for method in methods_of(definition)
        if (method.row.row, method.row.backbone) == row_key
    ]
    for column in definition.columns:
        method, ours = _find(methods, column, measured) or (None, None)
        for part, metric, word in column.heads:
            result = next(iter(definition.printed(row, column, part, word)), None)
            value = None if ours is None else numbers.value(ours, part, metric)
            reproduction = None
            if method and ours and result and not part and _is_compared(ours, result, column):
                reproduction = compare_with_paper(
                    ours,
                    result,
                    metric=metric,
                    trained=training_differences(ours, method),
                    protocol=column.protocol,
                )
            yield Cell(
                column=" ".join(filter(None, (column.name, column.split, part, metric))),
                printed=result.printed if result else None,
                unit=result.unit if result else "",
                defect=result.defect if result else "",
                value=value,
                model=ours.name if ours and value is not None else None,
                reproduction=reproduction,
            )


def _is_compared(row: Row, result: PublishedResult, column: Column) -> bool:
    """Return True if a cell's numbers are compared: all samples, or protocols that differ."""
    is_other = result.protocol_is == "stated" and result.protocol != row.protocol
    return result.is_score and (row.of_benchmark or is_other or not column.protocol)


def _find(
    methods: Sequence[Method], column: Column, measured: Sequence[Row]
) -> tuple[Method, Row] | None:
    """Return the first measured row of a column that is one of the methods, with this method."""
    methods_of_column = [method for method in methods if column.task and method.row.is_of(column)]
    for row in measured if methods_of_column else ():
        if not is_of_column(column, row) or column.protocol not in ("", row.protocol):
            continue
        for method in methods_of_column:
            if method.is_of(row.model_spec):
                return method, row
    return None


def is_of_column(column: Column, row: Row) -> bool:
    """Return True if a measured row has the task, the split and the subset of a column."""
    column_key = (column.name, column.split, column.subset)
    return bool(column.task) and column_key == (row.task, row.split, row.subset)


@dataclass(frozen=True)
class Numbers:
    """Numbers of measured rows, by part and metric of a column."""

    rows: Sequence[tuple[Row, UnitValues]]
    """Rows, each with its headline on each unit."""

    def value(self, row: Row, part: str, metric: str) -> float | None:
        """Return the number of a row in a column's part (`category=value`) and metric, if known."""
        if metric == TIME_METRIC:
            return None if row.seconds is None else row.seconds / row.n_total
        if metric == SUCCESS_METRIC:
            return _success_rate(row)
        category, _, value = part.partition("=")
        if metric == DEGRADED_METRIC:
            return self._degraded(row, float(value.removesuffix("%")) / 100)
        if not part:
            return row.metrics.get(metric)
        cell = row.breakdowns.get(category, {}).get(value)
        return cell["metrics"].get(metric) if cell else None

    def _degraded(self, measured_row: Row, limit: float) -> float | None:
        """Return the share of units that lost more than `limit` against the model's `base`.

        None: the model has no argument `base`, or no measured row is that model on the same data.
        """
        base = _spec(measured_row).arguments.get("base")
        if not isinstance(base, Spec):
            return None
        after = next(values for row, values in self.rows if row is measured_row)
        sign = 1 if measured_row.better[measured_row.headline] == "higher" else -1
        for row, before in self.rows:
            if _benchmark(row) != _benchmark(measured_row) or not is_same(_spec(row), base):
                continue
            pairs = [(before.get(unit), value) for unit, value in after.items()]
            losses = [sign * (b - a) for b, a in pairs if a is not None and b is not None]
            return fmean(loss > limit for loss in losses) if losses else None
        return None


def _spec(row: Row) -> Spec:
    """Return the SPEC of a row's model; one with an empty name if its text is not a SPEC."""
    with suppress(UsageError):
        return parse(row.model_spec)
    return Spec("")


def _benchmark(row: Row) -> tuple[object, ...]:
    return row.task, row.split, row.subset, row.protocol, row.data


def _success_rate(measured_row: Row) -> float | None:
    """Return `SUCCESS_METRIC` from a row's training; None if its folder or curve is gone."""
    folder = None if measured_row.training is None else measured_row.training.place
    if folder is None:
        return None
    rates = [row[SUCCESS_KEY] for row in Curve(folder / CURVE).read() if SUCCESS_KEY in row]
    return fmean(rates[-math.ceil(len(rates) / 10) :]) if rates else None
