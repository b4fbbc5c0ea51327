"""A paper's table as a board defines it: the printed beside the measured number in each cell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.leaderboards.definitions import BoardRow, Column, Definition, Method, methods_of
from harness.leaderboards.published_results import PublishedResult, Reproduction
from harness.leaderboards.reproduction import compare_with_paper, training_differences
from harness.leaderboards.row import Row

SECONDS = "time"
"""Column of the seconds a sample takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of the table."""

    column: str
    """Task, split, part and metric."""
    printed: str | None
    """The paper's number; None where it prints none that can be read."""
    defect: str
    value: float | None
    """Ours; None where no run is of this row and column."""
    model: str | None
    """Name of the row that it is of."""
    reproduction: Reproduction | None
    """The comparison, where both are scores of all samples of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The table."""

    heading: str
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def grid(definition: Definition, measured: Sequence[Row]) -> Grid:
    """Return a board's table.

    Args:
        definition: Its rows and columns.
        measured: Rows of runs. Of several for one cell the first is taken.
    """
    of_row: dict[tuple[str, str], list[BoardRow]] = {}
    for row in definition.rows:
        of_row.setdefault((row.row, row.backbone), []).append(row)
    methods = methods_of(definition)
    return Grid(
        heading=definition.heading,
        rows=tuple(
            (
                f"{name} ({backbone})" if backbone else name,
                tuple(_cells(definition, members, methods, measured)),
            )
            for (name, backbone), members in of_row.items()
        ),
    )


def _cells(
    definition: Definition,
    members: Sequence[BoardRow],
    methods: Sequence[Method],
    measured: Sequence[Row],
) -> Iterator[Cell]:
    for column in definition.columns:
        fitting = [row for row in members if not row.tasks or column.name in row.tasks]
        wanted = [method for method in methods if method.row in fitting]
        found = next(
            (
                (method, one)
                for method in wanted
                for one in measured
                if _is_in(column, one) and method.is_of(one.model_spec)
            ),
            None,
        )
        for part, metric, word in column.heads:
            printed = definition.printed(members[0], column, part, word)
            value = _value(found[1], part, metric) if found else None
            yield Cell(
                column=" ".join(filter(None, (column.name, column.split, part, metric))),
                printed=printed[0].printed if printed else None,
                defect=printed[0].defect if printed else "",
                value=value,
                model=found[1].name if found and value is not None else None,
                reproduction=_comparison(*found, printed[0], part, metric)
                if found and printed
                else None,
            )


def is_in(definition: Definition, made: Row) -> bool:
    """Return True if a measured row stands in a board's table."""
    fitting = [column for column in definition.columns if _is_in(column, made)]
    return any(
        method.is_of(made.model_spec)
        for method in methods_of(definition)
        for column in fitting
        if not method.row.tasks or column.name in method.row.tasks
    )


def _comparison(
    method: Method, made: Row, result: PublishedResult, part: str, metric: str
) -> Reproduction | None:
    if part or not (made.of_benchmark and result.is_score and metric in made.metrics):
        return None
    trained = training_differences(made, method)
    return compare_with_paper(made, result, metric=metric, trained=trained)


def _is_in(column: Column, made: Row) -> bool:
    return (
        bool(column.task)
        and (column.name, column.split, column.subset) == (made.task, made.split, made.subset)
        and column.protocol in ("", made.protocol)
    )


def _value(made: Row, part: str, metric: str) -> float | None:
    if metric == SECONDS:
        return None if made.seconds is None else made.seconds / made.n_total
    if not part:
        return made.metrics.get(metric)
    category, _, value = part.partition("=")
    cell = made.breakdowns.get(category, {}).get(value)
    return cell["metrics"].get(metric) if cell else None
