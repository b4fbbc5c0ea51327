"""Find, refuse and print contamination: evaluated samples that the model was trained on."""

from collections.abc import Mapping
from pathlib import Path

from harness.cli.output import note
from harness.errors import StoreError
from harness.record import RESTART_HINT
from harness.run.batching import select
from harness.run.contamination import (
    Contamination,
    measure_contamination,
    read_contamination,
    refuse_contamination,
    samples_of_model,
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
        subset: The subset of the task that the run evaluates; None: all samples.
        folder: The run's folder, which stores the overlap.
        anew: Ignore the stored overlap, as `--restart` sets the earlier run aside.
        strict: Refuse an overlap (`--strict-split`).

    Raises:
        StoreError: the stored overlap was edited, and cannot be computed again.
        UsageError: there is an overlap, and `strict` refuses it.
    """
    edited = not anew and is_changed(folder, TRAINED_ON)
    overlap = None if anew or edited else read_contamination(folder)
    if overlap is None and (rows := samples_of_model(model)) is not None:
        overlap = measure_contamination(rows, task, select(task, subset))
    if edited and overlap is None:
        raise StoreError(
            f"file {folder / TRAINED_ON}",
            expected="the file that the run wrote",
            found="missing or changed; the model no longer records its training samples",
            fix=RESTART_HINT,
        )
    if strict and overlap is None:
        note(f"{model} does not say what it was trained on: {task.name} cannot be compared with it")
    if strict and overlap is not None:
        refuse_contamination({f"{model} on {task.name}, split {task.split}": overlap})
    return overlap


def print_contamination(overlaps: Mapping[str, Contamination]) -> None:
    """Print a note on standard error for each run with samples that its model was trained on."""
    for name, overlap in overlaps.items():
        if overlap.is_any:
            note(f"{name}: {overlap}")
