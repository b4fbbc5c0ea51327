"""Find the training that made a checkpoint, and record it with a run that evaluates it.

`write_origins` writes it beside a run's scores; boards and model cards read it (`read_origins`).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import StoreError, raised_as
from harness.plain import from_plain
from harness.store.atomic import json_bytes, read_json
from harness.store.checksums import TRAININGS, write_later
from harness.trainer import CHECKPOINT

MANIFEST = "manifest.json"
INSIDE = "harness.json"
"""Name of a training's manifest inside the checkpoint that it has made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProvenance:
    """One training, identified by its `config_hash`, wherever its folder is."""

    name: str
    """Name of its folder, or of the checkpoint's folder if that was copied."""
    folder: str
    """Path of the folder, relative to the run's; empty in published copies of a run, which name no
    folders of this machine."""
    method: str
    """The trainer with its settings."""
    tasks: tuple[str, ...]
    """SPECs of the tasks that it was trained on."""
    seed: int
    steps: int | None
    """Number of its training steps; None if the trainer counts none."""
    config_hash: str


def origin_of(checkpoint: Path, *, run: Path) -> CheckpointProvenance | None:
    """Return the training that made a checkpoint; None if it has no manifest of a training.

    Args:
        checkpoint: A training's folder, the checkpoint in it, or a copy of either.
        run: The run folder; the training's folder is given relative to it.
    """
    folder = checkpoint.resolve()
    for path in (folder / CHECKPOINT / INSIDE, folder / INSIDE, folder / MANIFEST):
        if (plain := training_record(path)) is None:
            continue
        # The checkpoint in a training's folder stands for this folder.
        parent = training_record(folder.parent / MANIFEST) if path == folder / INSIDE else None
        if parent is not None and parent["config_hash"] == plain["config_hash"]:
            folder = folder.parent
        return _origin(plain, folder, run)
    return None


def write_origins(run: Path, checkpoints: Iterable[Path]) -> None:
    """Write the trainings of a model's checkpoints beside a run's scores, if any are known."""
    _write(
        run,
        [origin for folder in checkpoints if (origin := origin_of(folder, run=run)) is not None],
    )


def copy_origins(run: Path, copy: Path) -> None:
    """Write the trainings of a run into its published copy, without folders of this machine."""
    _write(copy, [replace(origin, folder="") for origin in read_origins(run)])


def _write(run: Path, origins: Sequence[CheckpointProvenance]) -> None:
    if origins:
        content = json_bytes({"trainings": [asdict(origin) for origin in origins]})
        write_later(run, TRAININGS, content)


def read_origins(run: Path) -> tuple[CheckpointProvenance, ...]:
    """Read the trainings that `write_origins` wrote; empty if there is no such file.

    Raises:
        StoreError: the file has another content.
    """
    path = run / TRAININGS
    if not path.is_file():
        return ()
    plain = read_json(path)
    expected = "trainings, as a run records them"
    with raised_as(StoreError, f"file {path}", expected, KeyError, TypeError, ValueError):
        return tuple(from_plain(CheckpointProvenance, entry) for entry in plain["trainings"])


def training_record(path: Path) -> dict[str, object] | None:
    """Read a training's manifest; None if the file is missing or is not a training's."""
    try:
        plain = read_json(path)
    except StoreError:  # missing, or a file of another program
        return None
    if not isinstance(plain, dict) or not isinstance(plain.get("config_hash"), str):
        return None
    return plain if "method" in plain else None


def _origin(plain: Mapping[str, Any], folder: Path, run: Path) -> CheckpointProvenance | None:
    """Return the training of a manifest; None if the manifest is malformed."""
    result = plain.get("result")
    steps = result.get("steps") if isinstance(result, dict) else None
    try:
        return from_plain(
            CheckpointProvenance,
            {
                "name": folder.name,
                "folder": Path(os.path.relpath(folder, run.resolve())).as_posix(),
                "method": plain["method"]["spec"],
                "tasks": [task["spec"] for task in plain["tasks"]],
                "seed": plain["seed"],
                "steps": steps if type(steps) is int else None,
                "config_hash": plain["config_hash"],
            },
        )
    except (KeyError, TypeError, ValueError):
        return None
