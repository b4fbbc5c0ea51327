"""A paper's table as a board defines it: the printed beside the measured number in each cell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.leaderboards.definitions import BoardRow, Column, Definition, Method, methods_of
from harness.leaderboards.reproduction import compare_with_paper, training_differences
from harness.leaderboards.row import Reproduction, Row

SECONDS = "time"
"""Column of the seconds that a sample takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of the table."""

    column: str
    """Task, split, part and metric."""
    printed: str | None
    """The paper's number; None where it prints none that can be read."""
    unit: str
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
    def of(cls, definition: Definition, made: Row) -> "LeftOff | None":
        """Return why a measured row stands in no cell; None if it stands in one."""
        methods = methods_of(definition)
        if any(_find(methods, column, [made]) for column in definition.columns):
            return None
        columns = [one for one in definition.columns if _is_of(one, made)]
        protocols = {one.protocol for one in columns}
        if not columns:
            reason = "no column is of this task, split and subset"
        elif not protocols & {"", made.protocol}:
            reason = (
                f"protocol {made.protocol}, where a column has {' or '.join(sorted(protocols))}"
            )
        else:
            reason = f"no row is of {made.model_spec}"
        task = " ".join(filter(None, (made.task, made.split, made.subset)))
        return cls(model=made.name, task=task, reason=reason)


def left_off_text(left_off: Sequence[LeftOff]) -> str:
    """Name the runs that stand in no cell of a board's table, by the reason."""
    runs: dict[str, list[str]] = {}
    for one in left_off:
        runs.setdefault(one.reason, []).append(f"{one.model} ({one.task})")
    return "Left off: " + "; ".join(f"{', '.join(some)}: {why}" for why, some in runs.items())


def grid(definition: Definition, measured: Sequence[Row]) -> Grid:
    """Return a board's table; of several measured rows for one cell the first is taken."""
    rows = {(row.row, row.backbone): row for row in definition.rows}
    named = [f"{name} ({backbone})" if backbone else name for name, backbone in rows]
    cells = [tuple(_cells(definition, row, measured)) for row in rows.values()]
    return Grid(heading=definition.heading, rows=tuple(zip(named, cells, strict=True)))


def _cells(definition: Definition, row: BoardRow, measured: Sequence[Row]) -> Iterator[Cell]:
    place = (row.row, row.backbone)
    methods = [one for one in methods_of(definition) if (one.row.row, one.row.backbone) == place]
    for column in definition.columns:
        method, made = _find(methods, column, measured) or (None, None)
        for part, metric, word in column.heads:
            result = next(iter(definition.printed(row, column, part, word)), None)
            value = None if made is None else _value(made, part, metric)
            reproduction = None
            if method and made and result and made.of_benchmark and not part and result.is_score:
                trained = training_differences(made, method)
                reproduction = compare_with_paper(made, result, metric=metric, trained=trained)
            yield Cell(
                column=" ".join(filter(None, (column.name, column.split, part, metric))),
                printed=result.printed if result else None,
                unit=result.unit if result else "",
                defect=result.defect if result else "",
                value=value,
                model=made.name if made and value is not None else None,
                reproduction=reproduction,
            )


def _find(
    methods: Sequence[Method], column: Column, measured: Sequence[Row]
) -> tuple[Method, Row] | None:
    """Return the first measured row in a column which is of one of the methods."""
    wanted = [method for method in methods if column.task and method.row.is_of(column)]
    for made in measured if wanted else ():
        if _is_of(column, made):
            for method in wanted:
                if column.protocol in ("", made.protocol) and method.is_of(made.model_spec):
                    return method, made
    return None


def _is_of(column: Column, made: Row) -> bool:
    place = (column.name, column.split, column.subset)
    return bool(column.task) and place == (made.task, made.split, made.subset)


def _value(made: Row, part: str, metric: str) -> float | None:
    if metric == SECONDS:
        return None if made.seconds is None else made.seconds / made.n_total
    if not part:
        return made.metrics.get(metric)
    category, _, value = part.partition("=")
    cell = made.breakdowns.get(category, {}).get(value)
    return cell["metrics"].get(metric) if cell else None
