"""Finding finished runs, the tasks that they ran, and the metrics that their scores merge by."""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import plugins
from harness.errors import HarnessError, StoreError
from harness.provenance import is_rehearsal
from harness.record import RESCORE, RESULTS, Run, no_run, runs_below
from harness.scores import Corpus, Metric, UnitScore, value_of
from harness.spec import parse
from harness.statistics.paired import dependencies_of
from harness.task import Protocol, Task


def open_runs(
    folders: Path | Iterable[Path],
    *,
    skips_unfinished: bool = False,
    refused: dict[Path, StoreError] | None = None,
) -> list[Run]:
    """Every finished run at or below the folders, each once, in the order of the folders.

    Args:
        folders: Run folders, or folders that hold some.
        skips_unfinished: Leave out runs without `results.json`, which their evaluation had not
            written yet or which was lost; the caller names them (`record.unfinished_below`).
        refused: Receives the runs that cannot be believed, with the reason, and the others are
            returned; None: the first of them is raised.

    Raises:
        StoreError: a folder holds no finished run, or files of one were changed since.
    """
    runs: dict[Path, Run | None] = {}
    for folder in [folders] if isinstance(folders, Path) else folders:
        below = runs_below(folder)
        if skips_unfinished:
            below = [path for path in below if (path / RESULTS).exists()]
        if not below:
            raise no_run(folder)
        for path in below:
            resolved = path.resolve()
            if resolved not in runs:
                runs[resolved] = None
                with refusals(path, refused):
                    run = Run.open(path)
                    run.check_files()
                    refuse_rehearsal(run)
                    runs[resolved] = run
    return [run for run in runs.values() if run is not None]


def refuse_rehearsal(run: Run) -> None:
    """Raise StoreError for a run of stand-ins, or of what was trained from them.

    In the rehearsal that it belongs to, nothing is raised.
    """
    if is_rehearsal():
        return
    if run.manifest["provenance"].get("rehearsal") or _says_so(run.manifest["model"]):
        raise StoreError(
            f"run {run.folder}",
            expected="a real run",
            found="a rehearsal with random stand-ins instead of the networks",
            fix="Give a folder without it: boards, sites and gates refuse rehearsals.",
        )


def _says_so(described: object) -> bool:
    """Return True if a model's description, or a part of it, names a rehearsed training."""
    if not isinstance(described, Mapping):
        return False
    return described.get("rehearsal") is True or any(map(_says_so, described.values()))


@contextmanager
def refusals(folder: Path, refused: dict[Path, StoreError] | None) -> Iterator[None]:
    """Record why a run cannot be believed, and go on; raise it if there is no such record."""
    try:
        yield
    except Exception as error:
        fault = error if isinstance(error, StoreError) else odd_record(folder, error)
        if refused is None:
            raise fault from error
        refused[folder] = fault


def odd_record(folder: Path, error: Exception) -> StoreError:
    """Return the error of a run whose record holds something that no reader of it foresaw."""
    return StoreError(
        f"run {folder}",
        expected="a record as this version writes it",
        found=plugins.describe_error(error),
        fix=RESCORE,
    )


def check_numbers(run: Run, units: Sequence[UnitScore], metrics: Sequence[Metric]) -> None:
    """Compute a metric from a run's scores, over all and by category, and hold it to its record.

    Stored payloads of a corpus are merged and its function called; no network is run.

    The metric is the last of `metrics`, after those that it is derived from.

    Raises:
        StoreError: `results.json` says something else.
    """
    name = metrics[-1].name
    parts: dict[tuple[str, str] | None, list[UnitScore]] = {None: list(units)}
    for unit in units:
        for category in unit.categories.items():
            parts.setdefault(category, []).append(unit)
    recorded = _recorded_means(run, name)
    for part in dict.fromkeys([*parts, *recorded]):
        members = parts.get(part, [])
        now = sum(len(unit.samples) for unit in members), value_of(metrics, members, name)
        then = recorded.get(part, (0, None))
        if now[0] != then[0] or not _close(now[1], then[1]):
            where = "" if part is None else f" for {part[0]} {part[1]}"
            raise StoreError(
                f"file {run.folder / RESULTS}",
                expected=f"{name}{where} of its scores, {now[1]} over {now[0]} samples",
                found=f"{then[1]} over {then[0]}",
                fix=RESCORE,
            )


def _recorded_means(run: Run, name: str) -> dict[tuple[str, str] | None, tuple[int, float | None]]:
    """Samples and number of a metric by (category, value), and of all of them, as recorded."""
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
        HarnessError: no such plugin, no data, or a task of another version or protocol.
    """
    recorded = run.manifest["task"]
    root = data_root or Path(run.manifest["data"]["root"])
    with plugins.plugin_errors(f"task {recorded['spec']}"):
        task: Task = plugins.build("tasks", parse(recorded["spec"]), root)
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
    """Return metric `name` and the metrics it derives from, as at the time of scoring.

    The data is not needed where the task's module lists its protocols in `PROTOCOLS`, as ours do,
    or where the metric is a plain quotient. The metrics must give the recorded number.

    Raises:
        HarnessError: the task must be built, and cannot be.
    """
    plain = Metric(name, better=run.results["better"][name])
    for metrics in (declared_metrics(run), (plain,)):
        if any(metric.name == name for metric in metrics):
            chosen = dependencies_of(metrics, name)
            if _reproduces(chosen, units, name, run.results["metrics"][name]):
                return chosen
    return dependencies_of(task_of(run, data_root).protocol.metrics, name)


def declared_metrics(run: Run) -> tuple[Metric, ...]:
    """The metrics of the run's protocol in the installed task's module, found without its data."""
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
    """Return True if the recorded scores merge to the recorded number."""
    corpora = {metric.name for metric in metrics if metric.corpus is not None}
    names = {metric.name for metric in metrics}
    for unit in units:
        scores = ((key, score) for key, score in unit.scores.items() if key in names)
        if any(isinstance(score, Corpus) != (key in corpora) for key, score in scores):
            return False
    return _close(value_of(metrics, units, name), recorded)


def _close(computed: float | None, recorded: object) -> bool:
    if computed is None or not isinstance(recorded, (int, float)):
        return computed is recorded
    return math.isclose(computed, recorded, rel_tol=1e-12, abs_tol=1e-12)


def _join_words(parts: Sequence[object]) -> str:
    name, version, split, protocol = parts
    return f"{name} version {version} {split} by {protocol}"
