"""Names of the metrics that the columns of a board may have.

`check_metrics` refuses others: `board` calls it with measured rows, `harness reproduce` without.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from harness import plugins
from harness.catalog.task_facts import metric_names
from harness.errors import DataError, HarnessError, UnknownPlugin
from harness.leaderboards.definitions import Column, Definition
from harness.leaderboards.grid import DEGRADED_METRIC, SUCCESS_METRIC, TIME_METRIC, is_of_column
from harness.leaderboards.row import Row
from harness.spec import parse


def check_metrics(definition: Definition, measured: Sequence[Row] = ()) -> None:
    """Check the metrics of a board's columns.

    A column is not checked if its task's metrics are unknown: the task is not installed or its
    module has no `PROTOCOLS`, and no measured row is of the column.

    Raises:
        DataError: a metric is not the task's, not a plugin's of the board, and not in its runs.
        UnknownPlugin: a metric plugin of the board is not installed.
    """
    for number, column in enumerate(definition.columns, 1):
        names = dict.fromkeys(_metrics_of_task(column))
        for row in measured:
            if is_of_column(column, row) and column.protocol in ("", row.protocol):
                names |= dict.fromkeys(row.metrics)
        names |= dict.fromkeys((TIME_METRIC, DEGRADED_METRIC, SUCCESS_METRIC)) if names else {}
        if not names or names.keys() >= {*column.metrics}:
            continue
        try:
            names |= dict.fromkeys(_metrics_of_plugins(definition))
        except UnknownPlugin:
            raise
        except HarnessError:  # it lacks a package or a checkpoint, so its metric's name is unknown
            continue
        if unknown := [metric for metric in column.metrics if metric not in names]:
            raise DataError(
                f"board {definition.file or definition.heading}: columns, number {number}",
                expected=f"metrics among {', '.join(names)}",
                found=", ".join(map(repr, unknown)),
                fix="For the metric of a plugin, name the plugin in the file's `metrics`.",
            )


def _metrics_of_task(column: Column) -> tuple[str, ...]:
    """Return the metrics of a column's protocol; none if they are unknown."""
    task = plugins.installed_plugins("tasks").get(column.name)
    with suppress(HarnessError):  # the task lacks a package
        return metric_names(task, column.protocol) if task is not None else ()
    return ()


def _metrics_of_plugins(definition: Definition) -> Iterator[str]:
    """Yield the metrics of a board's plugins, which are built for their names."""
    for spec in definition.metrics:
        yield plugins.build("metrics", parse(spec)).metric.name
