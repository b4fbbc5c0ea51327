"""Whether what is evaluated was trained on: said of every run, and refused by `--strict-split`."""

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
    """How much of what a run evaluates its model was trained on; None if that is not known.

    Args:
        model: The SPEC, whose checkpoints say what they were trained on.
        task: What is evaluated.
        subset: The name of the part of it.
        folder: The run's; what was found before is kept in it.
        anew: Look again, as an earlier run is set aside.
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
    """Raise UsageError if some of what is evaluated is trained on."""
    for name, found in overlaps.items():
        if found.found:
            raise UsageError(
                f"--strict-split: {name}",
                expected="nothing that is trained on",
                found=str(found),
                fix="Name another split or task, or leave --strict-split out to have it flagged.",
            )


def tell_overlap(overlaps: Mapping[str, Overlap]) -> None:
    """Say on standard error what was trained on."""
    for name, found in overlaps.items():
        if found.found:
            print(f"note: {name}: {found}", file=sys.stderr)
