"""Contamination: the share of a run's samples that its model was trained on. `--strict-split`
refuses it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from harness.errors import UsageError
from harness.run.plan import select
from harness.run.trained import Overlap, overlap, read_overlap, trained_by
from harness.spec import Spec
from harness.task import Task


def overlap_of(
    model: Spec, task: Task, subset: str | None, *, folder: Path, anew: bool, strict: bool
) -> Overlap | None:
    """Return the overlap of a run's samples with its model's training data; None if it is not
    known.

    Args:
        model: The SPEC; its checkpoints record their training data.
        task: The task of the run.
        subset: The name of the part of it.
        folder: The run's folder, which stores the overlap.
        anew: Compute the overlap again, as an earlier run is set aside.
        strict: Refuse an overlap.

    Raises:
        UsageError: there is some, and that is refused.
    """
    found = None if anew else read_overlap(folder)
    if found is None and (rows := trained_by(model)) is not None:
        found = overlap(rows, task, select(task, subset))
    if strict and found is None:
        print(
            f"note: {model} does not say what it was trained on: {task.name} cannot be compared "
            "with it",
            file=sys.stderr,
        )
    if strict and found is not None:
        refuse_overlap({f"{model} on {task.name}, split {task.split}": found})
    return found


def refuse_overlap(overlaps: Mapping[str, Overlap]) -> None:
    """Raise UsageError if some evaluated samples are in the training data."""
    for name, found in overlaps.items():
        if found.found:
            raise UsageError(
                f"--strict-split: {name}",
                expected="nothing that is trained on",
                found=str(found),
                fix="Name another split or task, or leave --strict-split out to have it flagged.",
            )


def tell_overlap(overlaps: Mapping[str, Overlap]) -> None:
    """Print on standard error the evaluated samples that were trained on."""
    for name, found in overlaps.items():
        if found.found:
            print(f"note: {name}: {found}", file=sys.stderr)
