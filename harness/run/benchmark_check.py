"""Check a run's benchmark before `evaluate` predicts: its files and samples.

On resumption it must be the benchmark that the run began with.
"""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from harness.errors import ResumeMismatch
from harness.run.batching import Selection, select, shortage
from harness.run.options import Options, Progress
from harness.run.preflight import preflight
from harness.run.survey import Survey, conversion_text, odd_text, survey
from harness.task import Task


def check_benchmark(task: Task, options: Options, progress: Progress) -> tuple[Selection, Survey]:
    """Check the benchmark's files, unless that was done, and count and hash the run's samples.

    Raises:
        DataError: see `preflight` and `survey`.
        UsageError: see `select`.
    """
    preflight(task, progress, allow_missing=options.allow_missing)
    selection = select(task, options.subset)
    # A file for the organisers' server needs the sizes of all images.
    allow_missing = options.allow_missing and not task.submission
    return selection, survey(task, selection, allow_missing=allow_missing)


def survey_notes(selection: Selection, surveyed: Survey) -> Iterator[str]:
    """Yield notes for the user: too few samples, converted images, odd ground truth."""
    if short := shortage(selection.name, surveyed.n_total):
        yield short
    if converted := conversion_text(surveyed.conversions):
        yield converted
    if surveyed.odd:
        yield odd_text(surveyed.odd)


def refuse_change(before: Survey, now: Survey, task: Task, folder: Path) -> None:
    """Raise ResumeMismatch if the benchmark of the run in `folder` has changed since it began."""
    changed = [
        item.name for item in fields(now) if getattr(now, item.name) != getattr(before, item.name)
    ]
    if changed:
        raise ResumeMismatch(
            f"the benchmark of run {folder} has changed since the run began, in "
            f"{', '.join(changed)}: {', '.join(map(str, task.annotations[:1]))}. Put the "
            "data back, or pass --restart to rename the old run and start again"
        )
