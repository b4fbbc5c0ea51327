"""A paper's table as a board defines it: the printed beside the measured number in each cell."""

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
from harness.leaderboards.reproduction import compare_with_paper, training_differences
from harness.leaderboards.row import Reproduction, Row
from harness.spec import Spec, parse
from harness.trainer import CURVE, Curve

LOGGED = "rewards/success"

SECONDS = "time"
"""Column of the seconds that a sample takes."""
DEGRADED = "share of samples degraded"
"""Column of the share of units whose headline a model around another one made worse by more than
the limit of the column's part (VR-TTRL, Table 6)."""
SUCCESS = "training success rate"
"""Column of the share of rollouts at a training's end with a legal form, a valid plan and no failed
code: the mean of `rewards/success` over the last tenth of its steps (DT-R1, Table 7; our
reading)."""
UnitValues: TypeAlias = Mapping[str, float | None]
"""The headline on each unit alone, by the unit's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of the table."""

    column: str
    """Task, split, part and metric."""
    printed: str | None
    """The paper's number; None where it prints none that can be read."""
    unit: str
    """Unit of the column's printed numbers; empty without any."""
    defect: str
    value: float | None
    """Ours; None where no run is of this row and column."""
    model: str | None
    """Name of the row that it is of."""
    reproduction: Reproduction | None
    """The comparison, where both are scores of all samples of a benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The table."""

    heading: str
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOff:
    """A run that stands nowhere in a board's table."""

    model: str
    task: str
    """Task, split and subset."""
    reason: str

    @classmethod
    def of(cls, definition: Definition, row: Row) -> "LeftOff | None":
        """Return why a measured row stands in no cell; None if it stands in one."""
        methods = methods_of(definition)
        if any(_find(methods, column, [row]) for column in definition.columns):
            return None
        columns = [column for column in definition.columns if _is_of(column, row)]
        protocols = {column.protocol for column in columns}
        if not columns:
            places = [
                (column.name, column.split, column.subset)
                for column in definition.columns
                if column.task
            ]
            named = dict.fromkeys(" ".join(filter(None, place)) for place in places)
            reason = f"no column has this task, split and subset; columns: {', '.join(named)}"
        elif not protocols & {"", row.protocol}:
            reason = f"protocol {row.protocol}, where a column has {' or '.join(sorted(protocols))}"
        else:
            reason = f"no row is of {row.model_spec}"
        task = " ".join(filter(None, (row.task, row.split, row.subset)))
        return cls(model=row.name, task=task, reason=reason)


def left_off_text(left_off: Sequence[LeftOff]) -> str:
    """Name the runs that stand in no cell of a board's table, by the reason."""
    runs: dict[str, list[str]] = {}
    for run in left_off:
        runs.setdefault(run.reason, []).append(f"{run.model} ({run.task})")
    return "Left off: " + "; ".join(f"{', '.join(models)}: {why}" for why, models in runs.items())


def grid(
    definition: Definition, measured: Sequence[Row], unit_values: Sequence[UnitValues]
) -> Grid:
    """Return a board's table; of several measured rows for one cell the first is taken.

    Args:
        definition: The board.
        measured: Its rows.
        unit_values: Of each measured row.
    """
    rows = {(row.row, row.backbone): row for row in definition.rows}
    named = [f"{name} ({backbone})" if backbone else name for name, backbone in rows]
    numbers = Numbers(list(zip(measured, unit_values, strict=True)))
    cells = [tuple(_cells(definition, row, measured, numbers)) for row in rows.values()]
    # A column has one unit: that of its printed numbers, for measured ones beside none as well.
    units = [
        next((cell.unit for cell in column if cell.unit), "") for column in zip(*cells, strict=True)
    ]
    cells = [
        tuple(replace(cell, unit=unit) for cell, unit in zip(row_cells, units, strict=True))
        for row_cells in cells
    ]
    return Grid(heading=definition.heading, rows=tuple(zip(named, cells, strict=True)))


def _cells(
    definition: Definition, row: BoardRow, measured: Sequence[Row], numbers: "Numbers"
) -> Iterator[Cell]:
    place = (row.row, row.backbone)
    methods = [
        method
        for method in methods_of(definition)
        if (method.row.row, method.row.backbone) == place
    ]
    for column in definition.columns:
        method, ours = _find(methods, column, measured) or (None, None)
        for part, metric, word in column.heads:
            result = next(iter(definition.printed(row, column, part, word)), None)
            value = None if ours is None else numbers.value(ours, part, metric)
            reproduction = None
            if method and ours and result and ours.of_benchmark and not part and result.is_score:
                trained = training_differences(ours, method)
                reproduction = compare_with_paper(ours, result, metric=metric, trained=trained)
            yield Cell(
                column=" ".join(filter(None, (column.name, column.split, part, metric))),
                printed=result.printed if result else None,
                unit=result.unit if result else "",
                defect=result.defect if result else "",
                value=value,
                model=ours.name if ours and value is not None else None,
                reproduction=reproduction,
            )


def _find(
    methods: Sequence[Method], column: Column, measured: Sequence[Row]
) -> tuple[Method, Row] | None:
    """Return the first measured row in a column which is of one of the methods."""
    wanted = [method for method in methods if column.task and method.row.is_of(column)]
    for candidate in measured if wanted else ():
        if _is_of(column, candidate):
            for method in wanted:
                if column.protocol in ("", candidate.protocol) and method.is_of(
                    candidate.model_spec
                ):
                    return method, candidate
    return None


def _is_of(column: Column, row: Row) -> bool:
    place = (column.name, column.split, column.subset)
    return bool(column.task) and place == (row.task, row.split, row.subset)


@dataclass(frozen=True)
class Numbers:
    """Numbers of measured rows, by part and metric of a column."""

    rows: Sequence[tuple[Row, UnitValues]]
    """Rows, each with its headline on each unit."""

    def value(self, row: Row, part: str, metric: str) -> float | None:
        """Return a cell's number; None where it is not known."""
        if metric == SECONDS:
            return None if row.seconds is None else row.seconds / row.n_total
        if metric == SUCCESS:
            return _success_rate(row)
        category, _, value = part.partition("=")
        if metric == DEGRADED:
            return self._degraded(row, float(value.removesuffix("%")) / 100)
        if not part:
            return row.metrics.get(metric)
        cell = row.breakdowns.get(category, {}).get(value)
        return cell["metrics"].get(metric) if cell else None

    def _degraded(self, measured_row: Row, limit: float) -> float | None:
        """Return the share of units that lost more than `limit` against the model's `base`."""
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
    """Return a row's model; one without a name where a ready model has none that can be read."""
    with suppress(UsageError):
        return parse(row.model_spec)
    return Spec("")


def _benchmark(row: Row) -> tuple[object, ...]:
    return row.task, row.split, row.subset, row.protocol, row.data


def _success_rate(measured_row: Row) -> float | None:
    place = None if measured_row.training is None else measured_row.training.place
    if place is None:
        return None
    rates = [row[LOGGED] for row in Curve(place / CURVE).read() if LOGGED in row]
    return fmean(rates[-math.ceil(len(rates) / 10) :]) if rates else None
