"""The manifest, written before a run: everything that is needed to repeat it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harness import provenance
from harness.papers import deviations
from harness.record import VERSION, config_hash
from harness.run.batching import Survey, shortage
from harness.task import Task
from harness.version import __version__


def manifest_of(
    task: Task,
    *,
    task_spec: str,
    subset: str | None,
    survey: Survey,
    model: Mapping[str, Any],
    seed: int,
    batch_size: int | None,
    sort: bool,
    device: str,
    data_root: str,
    shuffle: bool = False,
) -> dict[str, object]:
    """Return the content of manifest.json.

    Args:
        task: The task that is scored.
        task_spec: The task's SPEC as typed.
        subset: Name of the chosen part of its samples; None: all.
        survey: Counts and hashes of those samples.
        model: `spec`, `name` and `description` of the model.
        seed: Seed of sampling.
        batch_size: Queries in a batch of the plan; None where nothing is predicted.
        sort: True if the plan puts queries of similar length together.
        device: The device that the model computes on.
        data_root: Folder of the benchmarks; recorded, and left out of the hash, as are deviations.
        shuffle: True if the plan takes groups in an order drawn by the seed.
    """
    data = {
        "fingerprint": survey.fingerprint,
        "images": survey.images,
        "n_total": survey.n_total,
        "ids": survey.ids,
    }
    plain: dict[str, object] = {
        "version": VERSION,
        "harness": __version__,
        "task": {
            "spec": task_spec or task.name,
            "name": task.name,
            "version": task.version,
            "split": task.split,
            "protocol": task.protocol.name,
            "arguments": dict(task.arguments),
        },
        "subset": subset,
        "model": dict(model),
        "data": data,
        "seed": seed,
        "batch_size": batch_size,
        "sorted": sort,
        "provenance": provenance.collect(device),
    }
    if shuffle:
        plain["shuffled"] = True
    if short := shortage(subset, survey.n_total):
        plain["subset_short"] = short
    hashed = config_hash(repeatable(plain))
    differs = deviations(model["spec"], model["description"], task.forms, task.name)
    return {
        **plain,
        "config_hash": hashed,
        "data": {"root": data_root, **data},
        "deviations": [asdict(one) for one in differs],
    }


def repeatable(manifest: Mapping[str, Any]) -> dict[str, object]:
    """Return the part of a manifest that must be equal for a run to be resumed.

    The commit is recorded, not compared: between two attempts people commit their notes.
    Deviations follow from the rest.
    """
    kept = provenance.repeatable(manifest["provenance"])
    data = {name: one for name, one in manifest["data"].items() if name not in ("images", "ids")}
    rest = {name: one for name, one in manifest.items() if name != "deviations"}
    return {**rest, "provenance": kept, "data": data}
