"""Contamination: the share of a run's samples that its model was trained on."""

from collections.abc import Mapping
from pathlib import Path

from harness.cli.output import note
from harness.errors import StoreError
from harness.record import SET_ASIDE
from harness.run.batching import select
from harness.run.contamination import (
    Contamination,
    measure_contamination,
    read_contamination,
    refuse_contamination,
    trained_by,
)
from harness.spec import Spec
from harness.store.checksums import TRAINED_ON, is_changed
from harness.task import Task


def contamination_of(
    model: Spec, task: Task, subset: str | None, *, folder: Path, anew: bool, strict: bool
) -> Contamination | None:
    """Return the overlap of a run's samples with its model's training data; None if it is unknown.

    Args:
        model: The SPEC; its checkpoints record their training data.
        task: The task of the run.
        subset: The name of the part of it.
        folder: The run's folder, which stores the overlap.
        anew: Compute the overlap again, as an earlier run is set aside.
        strict: Raise UsageError if there is an overlap.

    Raises:
        StoreError: the stored one was edited, and cannot be computed again.
    """
    edited = not anew and is_changed(folder, TRAINED_ON)
    overlap = None if anew or edited else read_contamination(folder)
    if overlap is None and (rows := trained_by(model)) is not None:
        overlap = measure_contamination(rows, task, select(task, subset))
    if edited and overlap is None:
        raise StoreError(
            f"file {folder / TRAINED_ON}",
            expected="the file that the run wrote",
            found="missing or changed; the model no longer records its training samples",
            fix=SET_ASIDE,
        )
    if strict and overlap is None:
        note(f"{model} does not say what it was trained on: {task.name} cannot be compared with it")
    if strict and overlap is not None:
        refuse_contamination({f"{model} on {task.name}, split {task.split}": overlap})
    return overlap


def print_contamination(overlaps: Mapping[str, Contamination]) -> None:
    """Print on standard error the evaluated samples that were trained on."""
    for name, overlap in overlaps.items():
        if overlap.is_any:
            note(f"{name}: {overlap}")
