"""Baselines of a gate: runs without predictions and without paths of this machine."""

import shutil
from collections.abc import Collection, Sequence
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
"""Task, split and subset of a run, which its counterpart has too."""


def keep(run: Run, place: Path, *, files: Sequence[str] = ()) -> None:
    """Copy scores and record of a run to a new folder, without the data root.

    Journals of predictions among the further `files` count as the run's.
    """
    run.check_files()
    refuse_rehearsal(run)
    with writing(place):
        place.mkdir(parents=True)
        for name in files:
            shutil.copyfile(run.folder / name, place / name)
    manifest = {**run.manifest, "data": {**run.manifest["data"], "root": ""}}
    scores = run.units() if (run.folder / SCORES).exists() else None
    finish(place, scores, run.results, manifest=manifest, journal=bool(files))
    if (contamination := read_contamination(run.folder)) is not None:
        write_contamination(place, contamination)
    copy_origins(run.folder, place)


def blind_tasks(runs: Sequence[Run], *, level: float = 0.95) -> list[tuple[str, int, int]]:
    """Return the tasks of a baseline on which no drop can be significant: it has too few groups.

    Returns:
        Task and split, the number of groups (images or videos), and the number that is needed
        where all these tasks are compared together.
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
    for folder in runs_below(candidate):
        run = Run.open(folder)
        refuse_rehearsal(run)
        if tasks is None or run.manifest["task"]["name"] in tasks:
            new[task_key(run)] = run
    for key in new.keys() & old.keys():
        if [*journal.files(old[key])]:
            raise UsageError(
                f"baseline {old[key]}",
                expected="a copy that `harness board keep` made",
                found="a run with predictions, which would be lost",
            )
    written = []
    for key, run in new.items():
        below = run.folder.relative_to(candidate)
        place = old.get(key, baseline / (below if below.parts else run.folder.name))
        fresh, aside = (place.with_name(f"{place.name}.{word}") for word in ("new", "before"))
        for left in (fresh, aside):
            shutil.rmtree(left, ignore_errors=True)  # of an update that was killed
        keep(run, fresh)
        if key in old:
            place.rename(aside)
        fresh.rename(place)
        shutil.rmtree(aside, ignore_errors=True)
        written.append(place)
    return written


def task_key(run: Run) -> Key:
    """Return task, split and subset of a run."""
    task = run.manifest["task"]
    return task["name"], task["split"], run.manifest["subset"] or ""
