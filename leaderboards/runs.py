"""Finding finished runs, the tasks that they ran, and the metrics that their scores merge by."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import plugins
from harness.errors import DataError, HarnessError, StoreError
from harness.record import Run, runs_below
from harness.scores import Corpus, Metric, Totals, UnitScore
from harness.spec import parse
from harness.statistics.paired import needed
from harness.task import Task


def open_runs(folders: Path | Iterable[Path]) -> list[Run]:
    """Every finished run at or below the folders, each once, in the order of the folders.

    Raises:
        StoreError: a folder holds no finished run.
    """
    found: dict[Path, Run] = {}
    for folder in [folders] if isinstance(folders, Path) else folders:
        below = runs_below(folder)
        if not below:
            raise StoreError(
                f"folder {folder}",
                expected="a finished run, or a folder of them",
                found="none",
                fix="A run is finished when it has results.json.",
            )
        for path in below:
            found.setdefault(path.resolve(), Run.open(path))
    return list(found.values())


@contextmanager
def plugin_errors(what: str) -> Iterator[None]:
    """Turn whatever somebody's plugin raises into a DataError.

    The boundary to code that is not ours: a board or a gate must not fall over a task that
    cannot read its files any more.
    """
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:
        raise DataError(
            what, expected="a plugin that works", found=f"{type(error).__name__}: {error}"
        ) from error


def task_of(run: Run, data_root: Path | None = None) -> Task:
    """Build the task that a run was made with, from the files under the recorded data root.

    Args:
        run: A finished run.
        data_root: Where the data lies now, if not where it lay then.

    Raises:
        HarnessError: no such plugin, no data, or a task of another version or protocol.
    """
    recorded = run.manifest["task"]
    root = data_root or Path(run.manifest["data"]["root"])
    with plugin_errors(f"task {recorded['spec']}"):
        task: Task = plugins.build("tasks", parse(recorded["spec"]), root)
    now = (task.name, task.version, task.split, task.protocol.name)
    then = tuple(recorded[key] for key in ("name", "version", "split", "protocol"))
    if now != then:
        raise StoreError(
            f"run {run.folder.name}",
            expected=f"the task that it was made with, {_words(then)}",
            found=f"{_words(now)} installed",
        )
    return task


def metrics_for(
    run: Run, units: Sequence[UnitScore], *, name: str, data_root: Path | None = None
) -> tuple[Metric, ...]:
    """Metric `name` and what it is derived from.

    A quotient is taken from the record alone, if the recorded scores give the recorded number;
    otherwise the task is built and asked.

    Raises:
        HarnessError: the task cannot be built.
    """
    metric = Metric(name, better=run.results["better"][name])
    value: Any = _quotient(metric, units)
    recorded: Any = run.results["metrics"][name]
    # A scorer's epsilon in the denominator is far below this tolerance.
    if None not in (value, recorded) and math.isclose(value, recorded, rel_tol=1e-6, abs_tol=1e-9):
        return (metric,)
    return needed(task_of(run, data_root).protocol.metrics, name)


def _quotient(metric: Metric, units: Sequence[UnitScore]) -> float | None:
    totals = Totals((metric,))
    for unit in units:
        statistic = unit.scores.get(metric.name)
        if isinstance(statistic, Corpus):
            return None
        if statistic is not None:
            totals.add({metric.name: statistic})
    return totals.values()[metric.name]


def _words(parts: Sequence[object]) -> str:
    name, version, split, protocol = parts
    return f"{name} version {version} {split} by {protocol}"
