"""Baselines of a gate: copies of runs without predictions and without the path of the data.

A baseline is small and can be committed to a repository. `harness board keep` copies a run (`keep`)
or renews a baseline's runs from a candidate's (`update`); `gate` compares candidates with it.
"""

import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from harness.errors import HarnessError, UsageError
from harness.leaderboards.runs import metrics_for, refuse_rehearsal
from harness.record import SCORES, Run, finish, runs_below
from harness.run.checkpoint_provenance import copy_origins
from harness.run.contamination import read_contamination, write_contamination
from harness.statistics.clusters import of_corpora
from harness.statistics.paired import groups_to_show
from harness.store import journal
from harness.store.atomic import writing

Key: TypeAlias = tuple[str, str, str]
"""Task, split and subset, by which a run of a candidate is matched with one of the baseline."""


def keep(run: Run, folder: Path, *, files: Sequence[str] = ()) -> None:
    """Copy scores and record of a run to the new folder `folder`, without the data root.

    Args:
        run: A finished run.
        folder: Folder to make.
        files: Names of further files of the run to copy, such as journals of predictions, which
            then belong to the copy.

    Raises:
        StoreError: a file of the run changed since it finished, or it is a rehearsal.
    """
    run.check_files()
    refuse_rehearsal(run)
    with writing(folder):
        folder.mkdir(parents=True)
        for name in files:
            shutil.copyfile(run.folder / name, folder / name)
    manifest = {**run.manifest, "data": {**run.manifest["data"], "root": ""}}
    scores = run.units() if (run.folder / SCORES).exists() else None
    finish(folder, scores, run.results, manifest=manifest, journal=bool(files))
    if (contamination := read_contamination(run.folder)) is not None:
        write_contamination(folder, contamination)
    copy_origins(run.folder, folder)


def blind_tasks(runs: Sequence[Run], *, level: float = 0.95) -> list[tuple[str, int, int]]:
    """Return the tasks of a baseline that have too few groups for any drop to be significant.

    Returns:
        For each such task: task and split, the number of groups (images or videos), and the number
        that is needed if all tasks of the baseline are compared together.
    """
    tasks = []
    for run in runs:
        if not (run.folder / SCORES).exists():
            continue  # the ground truth is hidden
        units = tuple(run.units())
        groups, name = len({unit.group for unit in units}), run.results["headline"]
        try:
            is_of_corpora = name in of_corpora(metrics_for(run, units, name=name))
        except HarnessError:  # needs the data; nearly all headlines are not of corpora
            is_of_corpora = False
        needed = 2 if is_of_corpora else groups_to_show(level, tests=len(runs))
        if groups < needed:
            task = run.manifest["task"]
            tasks.append((f"{task['name']} {task['split']}", groups, needed))
    return tasks


def update(baseline: Path, candidate: Path, *, tasks: Collection[str] | None = None) -> list[Path]:
    """Replace a baseline's runs by a candidate's, task by task, and add those that it lacks.

    Args:
        baseline: A folder of kept runs; the only place that is written to.
        candidate: A run folder, or a folder of them.
        tasks: Names of the tasks to replace; None: all that the candidate has.

    Returns:
        The folders that were written.

    Raises:
        UsageError: a run of the baseline holds predictions, which would be lost.
    """
    old = {task_key(run): run.folder for run in map(Run.open, runs_below(baseline))}
    new = {}
    for run_folder in runs_below(candidate):
        run = Run.open(run_folder)
        refuse_rehearsal(run)
        if tasks is None or run.manifest["task"]["name"] in tasks:
            new[task_key(run)] = run
    for key in new.keys() & old.keys():
        if [*journal.files(old[key])]:
            raise UsageError(
                f"baseline {old[key]}",
                expected="a copy that `harness board keep` made",
                found="a run with predictions, which would be deleted",
            )
    written = []
    for key, run in new.items():
        below = run.folder.relative_to(candidate)
        folder = old.get(key, baseline / (below if below.parts else run.folder.name))
        fresh, aside = (folder.with_name(f"{folder.name}.{suffix}") for suffix in ("new", "before"))
        for leftover in (fresh, aside):
            shutil.rmtree(leftover, ignore_errors=True)  # of an update that was killed
        keep(run, fresh)
        if key in old:
            folder.rename(aside)  # a renaming is atomic: the old run is never half replaced
        fresh.rename(folder)
        shutil.rmtree(aside, ignore_errors=True)
        written.append(folder)
    return written


def by_task(runs: Iterable[Run], side: str) -> dict[Key, Run]:
    """Return the runs of a baseline or candidate by task; `side` names it in errors.

    Raises:
        UsageError: two are of the same task.
    """
    of_task: dict[Key, Run] = {}
    for run in runs:
        first = of_task.setdefault(task_key(run), run)
        if first is not run:
            raise UsageError(
                f"the {side}",
                expected=f"one run of {task_text(task_key(run))}",
                found=f"{first.folder} and {run.folder}",
                fix="Name the folders of the runs, or of one model.",
            )
    return of_task


def task_text(key: Key) -> str:
    """Return a task, split and subset as text: `reason_seg val (first200)`."""
    task, split, subset = key
    return f"{task} {split}" + (f" ({subset})" if subset else "")


def task_key(run: Run) -> Key:
    """Return task, split and subset of a run."""
    task = run.manifest["task"]
    return task["name"], task["split"], run.manifest["subset"] or ""
