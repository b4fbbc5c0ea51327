"""Collect the trainings that a site shows: those below its folders, and those of its rows.

A row's training is the one whose checkpoint the row's model uses.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.leaderboards.board import Board
from harness.leaderboards.site.runs import curve_columns
from harness.record import folders_below
from harness.run.training_record import Training
from harness.trainer import CURVE

KEY = "trainings"
MALFORMED = (LookupError, TypeError, AttributeError, ValueError)
"""Errors of reading a manifest whose content is not a training's."""


def trainings_below(folders: Iterable[Path]) -> list[Path]:
    """Return the training folders at or below folders that have logged steps, each once."""
    below = (pair for folder in folders for pair in folders_below(folder))
    paths = [Path(training) for training, names in below if CURVE in names]
    by_path = {path.resolve(): path for path in paths}
    return sorted(path for path in by_path.values() if _opened(path) is not None)


def trainings(folders: Iterable[Path], board: Board) -> list[dict[str, Any]]:
    """Return the trainings below folders, and those of the checkpoints of a board's rows.

    Each has a unique name, its method, seed, tasks and numbers by step.
    """
    of_rows = {
        entry.row.training.place
        for table in board.tables
        for entry in table.entries
        if entry.row.training is not None and entry.row.training.place is not None
    }
    by_path = {path.resolve(): path for path in [*trainings_below(folders), *sorted(of_rows)]}
    opened = [training for training in map(_opened, by_path.values()) if training is not None]
    names = [training.folder.resolve().name for training in opened]
    described: list[dict[str, Any]] = []
    for training, name in zip(opened, names, strict=True):
        if names.count(name) > 1:
            name = f"{training.folder.resolve().parent.name}/{name}"
        while any(earlier["name"] == name for earlier in described):
            name = f"{name}'"
        with suppress(HarnessError, *MALFORMED):
            described.append({"name": name, **_described(training)})
    return described


def _opened(folder: Path) -> Training | None:
    """Return a training that has a curve; None for another folder."""
    try:
        return Training.open(folder) if (folder / CURVE).is_file() else None
    except (HarnessError, *MALFORMED):
        return None


def _described(training: Training) -> dict[str, Any]:
    manifest = training.manifest
    return {
        "method": str(manifest["method"]["spec"]),
        "tasks": [str(task["spec"]) for task in manifest["tasks"]],
        "seed": manifest["seed"],
        "finished": training.is_finished,
        "curve": curve_columns(training.curve.read()),
    }
