"""Open finished runs, and find their tasks and the metrics by which their unit scores merge.

Every reader of run folders (boards, gates, reports, exports) begins here. Records are checked: a
run that was changed, that is a rehearsal, or whose numbers do not follow from its scores raises
StoreError, or is collected in `refused`.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import plugins
from harness.errors import HarnessError, StoreError
from harness.leaderboards.history.known import KnownRun, KnownValues
from harness.provenance import is_rehearsal
from harness.record import RESCORE, RESULTS, Run, no_run, runs_below
from harness.run.recorded_task import recorded_task
from harness.scores import Corpus, Metric, UnitScore, value_of
from harness.spec import parse
from harness.statistics.paired import dependencies_of
from harness.task import Protocol, Task


def open_runs(
    folders: Path | Iterable[Path],
    *,
    skips_unfinished: bool = False,
    refused: dict[Path, StoreError] | None = None,
    index: KnownValues | None = None,
) -> list[Run]:
    """Return every finished run at or below the folders, each once, in the order of the folders.

    Args:
        folders: Run folders, or folders that hold some.
        skips_unfinished: Leave out runs without `results.json`, not yet written or lost; the caller
            names them (`record.unfinished_below`).
        refused: Receives the error of each invalid run, and the other runs are returned; None: the
            first error is raised.
        index: Cache of the records of unchanged runs.

    Raises:
        StoreError: a folder holds no finished run, or files of one were changed since.
    """
    paths: dict[Path, Path] = {}
    for folder in [folders] if isinstance(folders, Path) else folders:
        below = runs_below(folder)
        if skips_unfinished:
            below = [path for path in below if (path / RESULTS).exists()]
        if not below:
            raise no_run(folder)
        absolute = folder.resolve()
        for path in below:  # no part below `folder` is a link
            paths.setdefault(absolute / path.relative_to(folder), path)
    opened = []
    for run in map(Run, paths.values()) if index is None else index.runs(paths):
        with refusals(run.folder, refused):
            if not isinstance(run, KnownRun) or not run.is_read:
                run.check_opened()
                run.check_files()
            refuse_rehearsal(run)
            opened.append(run)
    return opened


def refuse_rehearsal(run: Run) -> None:
    """Raise StoreError for a run of a rehearsal, or of a checkpoint that was trained in one.

    A rehearsal replaces the networks by stand-ins; within it, its own runs are accepted.
    """
    if is_rehearsal():
        return
    if is_rehearsed(run.manifest):
        raise StoreError(
            f"run {run.folder}",
            expected="a real run",
            found="a rehearsal with random stand-ins instead of the networks",
            fix="Give a folder without it: boards, sites and gates refuse rehearsals.",
        )


def is_rehearsed(manifest: Mapping[str, Any]) -> bool:
    """Return True if a run or a training was a rehearsal, or its checkpoint was trained in one."""
    return any(_names_rehearsal(manifest[key]) for key in ("provenance", "model"))


def _names_rehearsal(described: object) -> bool:
    """Return True if a record of the environment or of a model, or a part of it, has the mark."""
    if not isinstance(described, Mapping):
        return False
    return described.get("rehearsal") is True or any(map(_names_rehearsal, described.values()))


@contextmanager
def refusals(folder: Path, refused: dict[Path, StoreError] | None) -> Iterator[None]:
    """Catch any error about a run and put it into `refused` as StoreError; None: raise it."""
    try:
        yield
    except Exception as error:
        fault = error if isinstance(error, StoreError) else odd_record(folder, error)
        if refused is None:
            raise fault from error
        refused[folder] = fault


def odd_record(folder: Path, error: Exception) -> StoreError:
    """Return the StoreError of a run whose record made a reader fail in an unexpected way."""
    return StoreError(
        f"run {folder}",
        expected="a record as this version writes it",
        found=plugins.describe_error(error),
        fix=RESCORE,
    )


def check_numbers(run: Run, units: Sequence[UnitScore], metrics: Sequence[Metric]) -> None:
    """Compute a metric from a run's scores, in all and by category, and compare with the record.

    Stored payloads of a corpus are merged and its function called; no network is run.

    Args:
        run: The run.
        units: Scores of its units.
        metrics: The metric last, after those that it is derived from.

    Raises:
        StoreError: `results.json` has another number, or another number of samples.
    """
    name = metrics[-1].name
    units_by_category: dict[tuple[str, str] | None, list[UnitScore]] = {None: list(units)}
    for unit in units:
        for category in unit.categories.items():
            units_by_category.setdefault(category, []).append(unit)
    recorded = _recorded_means(run, name)
    for pair in dict.fromkeys([*units_by_category, *recorded]):
        members = units_by_category.get(pair, [])
        n_samples = sum(len(unit.samples) for unit in members)
        value = value_of(metrics, members, name)
        recorded_n, recorded_value = recorded.get(pair, (0, None))
        if n_samples != recorded_n or not _close(value, recorded_value):
            where = "" if pair is None else f" for {pair[0]} {pair[1]}"
            raise StoreError(
                f"file {run.folder / RESULTS}",
                expected=f"{name}{where} of its scores, {value} over {n_samples} samples",
                found=f"{recorded_value} over {recorded_n}",
                fix=RESCORE,
            )


def _recorded_means(run: Run, name: str) -> dict[tuple[str, str] | None, tuple[int, float | None]]:
    """Return the recorded (samples, number) of a metric by (category, value); None: all samples."""
    results = run.results
    try:
        return {None: (results["n_total"], results["metrics"][name])} | {
            (category, value): (cell["n"], cell["metrics"][name])
            for category, cells in results["breakdowns"].items()
            for value, cell in cells.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"file {run.folder / RESULTS}",
            expected=f"{name}, also by category",
            found=f"{type(error).__name__}: {error}",
            fix=RESCORE,
        ) from error


def task_of(run: Run, data_root: Path | None = None) -> Task:
    """Build the task that a run was made with, from the files under the recorded data root.

    Raises:
        HarnessError: the plugin or the data is missing, or the task's version or protocol differs.
    """
    recorded = run.manifest["task"]
    root = data_root or Path(run.manifest["data"]["root"])
    with plugins.plugin_errors(f"task {recorded['spec']}"):
        task = recorded_task(parse(recorded["spec"]), root, recorded["protocol"])
    now = (task.name, task.version, task.split, task.protocol.name)
    then = tuple(recorded[key] for key in ("name", "version", "split", "protocol"))
    if now != then:
        raise StoreError(
            f"run {run.folder.name}",
            expected=f"the task that it was made with, {_join_words(then)}",
            found=f"{_join_words(now)} installed",
        )
    return task


def metrics_for(
    run: Run, units: Sequence[UnitScore], *, name: str, data_root: Path | None = None
) -> tuple[Metric, ...]:
    """Return the metrics that metric `name` is derived from, and this metric last.

    If the task's module declares its protocols (`PROTOCOLS`), or the metric is a simple mean, they
    are found without the data, provided that they give the recorded number. Otherwise the task is
    built from the data.

    Raises:
        HarnessError: the task must be built, and cannot be.
    """
    simple_mean = Metric(name, better=run.results["better"][name])
    for metrics in (declared_metrics(run), (simple_mean,)):
        if any(metric.name == name for metric in metrics):
            chosen = dependencies_of(metrics, name)
            if _reproduces(chosen, units, name, run.results["metrics"][name]):
                return chosen
    return dependencies_of(task_of(run, data_root).protocol.metrics, name)


def declared_metrics(run: Run) -> tuple[Metric, ...]:
    """Return the metrics of a run's protocol as the task's module declares them; empty if not."""
    recorded = run.manifest["task"]
    try:
        function = plugins.load("tasks", recorded["name"])
    except HarnessError:
        return ()
    protocols = getattr(sys.modules.get(function.__module__), "PROTOCOLS", {})
    protocol = protocols.get(recorded["protocol"]) if isinstance(protocols, dict) else None
    return protocol.metrics if isinstance(protocol, Protocol) else ()


def _reproduces(
    metrics: tuple[Metric, ...], units: Sequence[UnitScore], name: str, recorded: float | None
) -> bool:
    """Return True if a run's scores merge to the recorded number by these metrics."""
    corpora = {metric.name for metric in metrics if metric.corpus is not None}
    names = {metric.name for metric in metrics}
    for unit in units:
        scores = ((key, score) for key, score in unit.scores.items() if key in names)
        if any(isinstance(score, Corpus) != (key in corpora) for key, score in scores):
            return False
    return _close(value_of(metrics, units, name), recorded)


def _close(computed: float | None, recorded: object) -> bool:
    """Return True if two numbers differ by rounding at most, or both are None."""
    if computed is None or not isinstance(recorded, (int, float)):
        return computed is recorded
    return math.isclose(computed, recorded, rel_tol=1e-12, abs_tol=1e-12)


def _join_words(words: Sequence[object]) -> str:
    name, version, split, protocol = words
    return f"{name} version {version} {split} by {protocol}"
