"""Start or resume a training: write its manifest, or decide which changes of it are allowed.

`harness.run.train` calls `start_or_resume`; a dry run calls `resumed_manifest`, which only reads.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import provenance
from harness.errors import ResumeMismatch, UsageError
from harness.record import differences, without_words
from harness.run.manifest import change_lines, changed_code, set_aside, with_new_code
from harness.run.training_record import MANIFEST, SAMPLES, TrainedSample, Training, write_samples
from harness.store.atomic import forget, write_json
from harness.trainer import CHECKPOINT, CURVE, EVALUATIONS, STATE, Trainer

NOT_COMPARED = (
    "config_hash",
    "data_root",
    "base_is_folder",
    "devices",
    "eval_model",
    "seconds",
    "result",
    "changed",
)
"""Fields of the manifest that are not compared when a training is resumed."""
NOT_COMPARED_OF_PROVENANCE = ("commit", "dirty", "device")
"""Fields of the manifest's provenance that are not compared."""
NOT_COMPARED_OF_TASKS = ("images", "faults")
"""Fields of each task in the manifest that are not compared."""
LARGER_TOTALS = frozenset({"max_steps", "num_train_epochs"})
"""Settings that continue a finished training if they are increased."""
MAX_NAMED = 10
"""Largest number of lost samples whose ids a message names."""


def repeatable(manifest: Mapping[str, Any]) -> dict[str, object]:
    """Return the part of a manifest that must be equal for a training to be resumed."""
    compared = {name: value for name, value in manifest.items() if name not in NOT_COMPARED}
    code = provenance.repeatable(compared["provenance"], without=NOT_COMPARED_OF_PROVENANCE)
    tasks = [
        {name: value for name, value in task.items() if name not in NOT_COMPARED_OF_TASKS}
        for task in compared["tasks"]
    ]
    return {**without_words(compared), "provenance": code, "tasks": tasks}


def refuse_used(out: Path, *, resume: bool) -> None:
    """Raise UsageError if `out` is a file or a folder that is not empty, unless `resume`."""
    if resume or not out.exists():
        return
    if not out.is_dir() or any(not path.name.startswith(".") for path in out.iterdir()):
        raise UsageError(
            f"--out {out}",
            expected="a new or empty folder",
            found="a folder that is not empty" if out.is_dir() else "a file",
            fix="Choose another folder, or pass --resume to continue its training.",
        )


def forget_unbegun(out: Path) -> None:
    """Remove the manifest of a training that made no step, so that another can start there."""
    if not any((out / name).exists() for name in (CURVE, STATE, CHECKPOINT)):
        for name in (MANIFEST, SAMPLES):
            forget(out / name)


def start_or_resume(
    trainer: Trainer,
    out: Path,
    manifest: dict[str, object],
    samples_by_task: Sequence[Sequence[TrainedSample]],
    *,
    main: bool,
    accept_code: bool = False,
) -> tuple[dict[str, object], bool]:
    """Return the manifest to train with, and True if the training is finished.

    Args:
        trainer: The trainer, which decides the settings that may change.
        out: The training's folder.
        manifest: The new manifest.
        samples_by_task: The training samples of each task.
        main: True for the process that writes the folder.
        accept_code: Go on although the code of plugins has changed.

    Raises:
        ResumeMismatch: the folder has a training of another configuration.
        UsageError: a finished training without its state is to be continued.
    """
    path = out / MANIFEST
    if not main:
        # The main process writes a result only when it ends, so a stored one is of an earlier,
        # finished training. That goes on only if its totals are now larger.
        if not path.exists():
            return manifest, False
        stored, new = Training.open(out).manifest, json.loads(json.dumps(manifest))  # as stored
        before, now = stored["method"]["settings"], new["method"]["settings"]
        same_totals = all(before.get(name) == now.get(name) for name in LARGER_TOTALS)
        return manifest, "result" in stored and same_totals
    if not path.exists():
        write_samples(out / SAMPLES, [row for rows in samples_by_task for row in rows])
        write_json(path, manifest)
        return manifest, False
    old = Training.open(out).manifest
    resumed = resumed_manifest(trainer, out, manifest, samples_by_task, accept_code=accept_code)
    if resumed != old:
        if "result" in old:
            set_aside(out / EVALUATIONS)  # they are of the earlier checkpoint
        write_json(path, resumed)
    return resumed, "result" in resumed


def resumed_manifest(
    trainer: Trainer,
    out: Path,
    manifest: Mapping[str, object],
    samples_by_task: Sequence[Sequence[TrainedSample]],
    *,
    accept_code: bool = False,
) -> dict[str, object]:
    """Return the manifest with which the training in a folder goes on; write nothing.

    It has a `result` if the training is finished. The arguments are those of `start_or_resume`.

    Raises:
        ResumeMismatch: the folder has a training of another configuration.
        UsageError: a finished training without its state is to be continued.
    """
    old = Training.open(out).manifest
    code = changed_code(old, manifest)
    if code and not accept_code:
        raise _mismatch(out, change_lines(code), ", or --accept-code to go on with the new code")
    if old["config_hash"] == manifest["config_hash"]:
        return with_new_code(old, manifest, code) if code and "result" not in old else old
    changes = _allowed_changes(trainer, out, old, manifest, samples_by_task)
    is_larger = any(change["setting"] in LARGER_TOTALS for change in changes)
    if is_larger and "result" in old and not (out / STATE).is_dir():
        raise UsageError(
            f"training folder {out}",
            expected="the state of the finished training, from which more steps can be made",
            found="none",
            fix="--keep-state keeps it. Begin a new training with this checkpoint as its model.",
        )
    if "result" in old and not is_larger:  # the changes have no effect on a finished training
        return old
    resumed = {**old, **{name: manifest[name] for name in ("method", "config_hash")}}
    resumed["changed"] = [*old.get("changed", []), *changes]
    resumed.pop("result", None)
    return with_new_code(resumed, manifest, code) if code else resumed


def _allowed_changes(
    trainer: Trainer,
    out: Path,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    samples_by_task: Sequence[Sequence[TrainedSample]],
) -> list[dict[str, object]]:
    """Return the changed settings as `{setting, from, to}`, if all changes are allowed.

    Raises:
        ResumeMismatch: other changes; the text names only those.
    """
    before, after = (json.loads(json.dumps(repeatable(manifest))) for manifest in (old, new))
    old_settings, new_settings = (copy["method"].pop("settings") for copy in (before, after))
    for copy in (before, after):
        copy["method"].pop("spec")  # the settings, as typed
    names = sorted(old_settings.keys() | new_settings.keys())
    pairs = {name: (old_settings.get(name), new_settings.get(name)) for name in names}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    refused = [name for name, pair in changed.items() if not trainer.may_change(name, *pair)]
    lines = differences(before, after)
    if missing_ids := _gone_samples(out, samples_by_task):
        more_text = f" and {len(missing_ids) - MAX_NAMED} more" if missing_ids[MAX_NAMED:] else ""
        lines.append(
            f"samples that are no longer there: {', '.join(missing_ids[:MAX_NAMED])}{more_text}"
        )
    lines += [f"{name}: {changed[name][0]!r} → {changed[name][1]!r}" for name in refused]
    if lines:
        raise _mismatch(out, lines)
    return [{"setting": name, "from": a, "to": b} for name, (a, b) in changed.items()]


def _mismatch(out: Path, lines: Sequence[str], other_way: str = "") -> ResumeMismatch:
    """Return the error for a training folder whose settings or code differ as `lines` say."""
    changes = "\n  ".join(lines)
    return ResumeMismatch(
        f"training folder {out} was started with other settings (old → new)\n  {changes}\n"
        f"Choose another --out, or give the first settings{other_way}"
    )


def _gone_samples(out: Path, samples_by_task: Sequence[Sequence[TrainedSample]]) -> list[str]:
    """Return ids of recorded training samples that `samples_by_task` does not have any more."""
    present = {(row.task, row.id) for rows in samples_by_task for row in rows}
    tasks = {task for task, _ in present}
    rows = [row for row in Training(out).samples() if row.task in tasks]
    return [f"{row.task} {row.id}" for row in rows if (row.task, row.id) not in present]
