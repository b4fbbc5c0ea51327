"""The manifest that a training goes on with, and what may change before it is resumed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import provenance
from harness.errors import ResumeMismatch, UsageError
from harness.record import differences
from harness.run.contamination import MANIFEST, SAMPLES, TrainedSample, Training, write_samples
from harness.run.manifest import set_aside
from harness.store.atomic import forget, write_json
from harness.trainer import CHECKPOINT, CURVE, EVALUATIONS, STATE, Trainer

NOT_COMPARED = (
    *("config_hash", "data_root", "base_is_folder", "devices", "eval_model", "seconds", "result"),
    "changed",
)
NOT_COMPARED_OF_PROVENANCE = ("commit", "dirty", "device")
"""Fields of the provenance that are recorded, and may differ when a training is resumed."""
NOT_COMPARED_OF_TASKS = ("images", "faults")
SHOWN = 10  # lost samples that are named


def repeatable(manifest: Mapping[str, Any]) -> dict[str, object]:
    """Return the part of a manifest that must be equal for a training to be resumed."""
    kept = {name: value for name, value in manifest.items() if name not in NOT_COMPARED}
    made_with = provenance.repeatable(kept["provenance"], without=NOT_COMPARED_OF_PROVENANCE)
    tasks = [
        {name: value for name, value in task.items() if name not in NOT_COMPARED_OF_TASKS}
        for task in kept["tasks"]
    ]
    return {**kept, "provenance": made_with, "tasks": tasks}


def refuse_used(out: Path, *, resume: bool) -> None:
    """Raise UsageError for a file or a folder with something in it, unless a training resumes."""
    if resume or not out.exists():
        return
    if not out.is_dir() or any(not path.name.startswith(".") for path in out.iterdir()):
        raise UsageError(
            f"--out {out}",
            expected="a new or empty folder",
            found="a folder that is not empty" if out.is_dir() else "a file",
            fix="Choose another, or pass --resume to go on with the training in it.",
        )


def forget_unbegun(out: Path) -> None:
    """Remove the record of a training without a step, which would refuse the one that is meant."""
    if not any((out / name).exists() for name in (CURVE, STATE, CHECKPOINT)):
        for name in (MANIFEST, SAMPLES):
            forget(out / name)


def start_or_resume(
    trainer: Trainer,
    out: Path,
    manifest: dict[str, object],
    listed: Sequence[Sequence[TrainedSample]],
    *,
    main: bool,
) -> tuple[dict[str, object], bool]:
    """Return the manifest to go on with, and True if the training is finished."""
    path = out / MANIFEST
    if not main:  # a manifest with a result is not from the process that writes now
        if not path.exists():
            return manifest, False
        there, own = Training.open(out).manifest, json.loads(json.dumps(manifest))
        before, now = (recorded["method"]["settings"] for recorded in (there, own))
        same = all(before.get(name) == now.get(name) for name in LARGER_TOTALS)
        return manifest, "result" in there and same  # with larger totals the first process goes on
    if not path.exists():
        write_samples(out / SAMPLES, [row for rows in listed for row in rows])
        write_json(path, manifest)
        return manifest, False
    old = Training.open(out).manifest
    if old["config_hash"] == manifest["config_hash"]:
        return old, "result" in old
    changes = _allowed_changes(trainer, out, old, manifest, listed)
    is_larger = any(change["setting"] in LARGER_TOTALS for change in changes)
    if is_larger and "result" in old and not (out / STATE).is_dir():
        raise UsageError(
            f"training folder {out}",
            expected="the state of the finished training, to make more steps from",
            found="none",
            fix="--keep-state keeps it. Begin a new training with this checkpoint as its model.",
        )
    goes_on = is_larger and "result" in old
    if "result" in old and not goes_on:  # nothing is left that the changes have an effect on
        return old, True
    manifest = {**old, **{name: manifest[name] for name in ("method", "config_hash")}}
    manifest["changed"] = [*old.get("changed", []), *changes]
    if goes_on:
        del manifest["result"]
        set_aside(out / EVALUATIONS)  # they are of the checkpoint before
    write_json(path, manifest)
    return manifest, False


LARGER_TOTALS = frozenset({"max_steps", "num_train_epochs"})
"""Settings by which a finished training goes on."""


def _allowed_changes(
    trainer: Trainer,
    out: Path,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    listed: Sequence[Sequence[TrainedSample]],
) -> list[dict[str, object]]:
    """Return the settings that were changed, `{setting, from, to}`, if all of them may be.

    Raises:
        ResumeMismatch: something else was changed; only that is named.
    """
    (before, after) = (
        json.loads(json.dumps(repeatable(configuration))) for configuration in (old, new)
    )
    settings = [configuration["method"].pop("settings") for configuration in (before, after)]
    for configuration in (before, after):
        configuration["method"].pop("spec")  # the settings, as typed
    names = sorted(settings[0].keys() | settings[1].keys())
    pairs = {name: (settings[0].get(name), settings[1].get(name)) for name in names}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    refused = [name for name, pair in changed.items() if not trainer.may_change(name, *pair)]
    lines = differences(before, after)
    if gone := _gone_samples(out, listed):
        more = f" and {len(gone) - SHOWN} more" if gone[SHOWN:] else ""
        lines.append(f"samples that are no longer there: {', '.join(gone[:SHOWN])}{more}")
    lines += [f"{name}: {changed[name][0]!r} → {changed[name][1]!r}" for name in refused]
    if lines:
        shown = "\n  ".join(lines)
        raise ResumeMismatch(
            f"training folder {out} was begun with something else (old → new)\n  {shown}\n"
            "Choose another --out, or give what it was begun with"
        )
    return [{"setting": name, "from": a, "to": b} for name, (a, b) in changed.items()]


def _gone_samples(out: Path, listed: Sequence[Sequence[TrainedSample]]) -> list[str]:
    """Return the samples of the training's tasks that are no longer there."""
    there = {(row.task, row.id) for rows in listed for row in rows}
    tasks = {task for task, _ in there}
    rows = [row for row in Training(out).samples() if row.task in tasks]
    return [f"{row.task} {row.id}" for row in rows if (row.task, row.id) not in there]
