"""The manifest of a run (`manifest.json`): all that is needed to repeat or resume the run.

`evaluate` writes it before the first prediction, or compares it with the manifest in the folder.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import provenance
from harness.errors import ResumeMismatch, StoreError
from harness.papers import deviations
from harness.plain import json_scalar
from harness.plugin_code import code_changes
from harness.record import (
    MANIFEST,
    RESULTS,
    SCORES,
    VERSION,
    Run,
    changed_numbers,
    config_hash,
    differences,
    without_metrics,
    without_words,
)
from harness.run.batching import shortage
from harness.run.options import Progress
from harness.run.preflight import PROBLEMS_SHOWN
from harness.run.survey import Survey
from harness.store.atomic import write_json, writing
from harness.store.checksums import CHECKSUMS, changed_files
from harness.store.journal import Journal
from harness.store.lease import lease
from harness.task import Task
from harness.version import __version__

MAY_DIFFER = ("changed", "config_hash", "data.root", "data.images_before", "resumed_at")
"""Fields of a manifest that may differ when a run is resumed."""
REPLACED_FIELDS = ("deviations", "infrastructure_limit")
"""Fields that each attempt replaces."""
TEXT_OF_PLUGIN = re.compile(r"code of (?!__main__,).*\.(?!py\Z)\w+")
"""Pattern of a setting of `changed_code` that is a file of a plugin's package, but not a module:
`code of toys, prompts/ask.txt`, and not `code of toys, model.py`."""


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
    plugins: Mapping[str, object] | None = None,
    shuffle: bool = False,
    infrastructure_limit: float | None = None,
) -> dict[str, object]:
    """Return the content of manifest.json.

    Args:
        task: The task that is scored.
        task_spec: The task's SPEC as typed.
        subset: Name of the chosen part of its samples; None: all.
        survey: Counts and hashes of those samples.
        model: `spec`, `name` and `description` of the model.
        seed: Seed of sampling.
        batch_size: Number of queries in a batch; None if nothing is predicted.
        sort: True if the plan puts queries of similar length together.
        device: The device that the model computes on.
        data_root: Folder of the benchmarks; recorded, and left out of the hash, as are deviations.
        plugins: Code of the third-party plugins that the model consists of.
        shuffle: True if the plan takes groups in an order drawn by the seed.
        infrastructure_limit: Share of samples that may be lost to the infrastructure; None: nothing
            was predicted, and nothing can be lost.
    """
    data = {
        "fingerprint": survey.fingerprint,
        "images": survey.images,
        "n_total": survey.n_total,
        "ids": survey.ids,
        **({"conversions": dict(survey.conversions)} if survey.conversions else {}),
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
        "provenance": provenance.collect(device, plugins=plugins),
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
        "infrastructure_limit": infrastructure_limit,
        "deviations": [asdict(deviation) for deviation in differs],
    }


def repeatable(manifest: Mapping[str, Any]) -> dict[str, object]:
    """Return the part of a manifest that must be equal for a run to be resumed.

    The commit is not compared, because users commit unrelated files between two attempts. The
    code of plugins is compared by `changed_code`.
    Deviations follow from the other fields, and the limit changes no prediction.
    """
    code = provenance.repeatable(manifest["provenance"])
    noted = ("images", "ids", "conversions")  # files may be repaired; the others follow
    data = {name: value for name, value in manifest["data"].items() if name not in noted}
    compared = {name: value for name, value in manifest.items() if name not in REPLACED_FIELDS}
    return {**without_words(compared), "provenance": code, "data": data}


def changed_code(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """Return the changes in the code of two manifests' plugins, as `{setting, from, to}`.

    There are none if the old one was written by a version that did not record it.
    """
    before, after = (manifest["provenance"].get(provenance.PLUGINS) for manifest in (old, new))
    return [] if before is None else code_changes(before, after or {})


def change_lines(changes: Sequence[Mapping[str, object]]) -> list[str]:
    """Return one line for each change `{setting, from, to}`."""
    return [f"{change['setting']}: {change['from']} → {change['to']}" for change in changes]


def with_new_code(
    old: Mapping[str, Any], new: Mapping[str, Any], changes: Sequence[Mapping[str, object]]
) -> dict[str, Any]:
    """Return the old manifest with the new plugins' code, and `changes` listed in it."""
    plugins = new["provenance"].get(provenance.PLUGINS, {})
    return {
        **old,
        "provenance": {**old["provenance"], provenance.PLUGINS: plugins},
        "changed": [*old.get("changed", []), *changes],
    }


def begin_or_resume(
    folder: Path,
    manifest: dict[str, Any],
    progress: Progress,
    *,
    accept_code: bool = False,
    predicts: bool = True,
) -> dict[str, object] | None:
    """Write the manifest of a new run, or compare it with the manifest in `folder`.

    Images and commits may differ, and the code of plugins with `accept_code`; the manifest records
    it. The code of a finished run may differ only if it `predicts` samples again, such as failed
    ones: else the record would say that the new code made its score.

    Returns:
        For a finished run, the updated manifest, which `finish` must write, because the old one is
        protected by checksums; None otherwise.

    Raises:
        ResumeMismatch: the run was started with another configuration.
    """
    path = folder / MANIFEST
    if not path.exists():
        Journal(folder).check(manifest["config_hash"])  # left by another run, or copied
        write_json(path, manifest)
        return None
    old = Run(folder).manifest
    manifest = json.loads(json.dumps(manifest, default=json_scalar))  # as it is read again
    lines = differences(repeatable(old), repeatable(manifest))
    diff = [line for line in lines if not line.startswith(MAY_DIFFER)]
    changes = changed_code(old, manifest)
    can_go_on = not diff and (predicts or not (folder / RESULTS).exists())
    if changes and not (accept_code and can_go_on):
        diff += change_lines(changes)
    if diff or old["config_hash"] != manifest["config_hash"]:
        # Without `diff` the hash differs by fields that may differ: all lines are shown.
        differing = "\n  ".join(diff or lines)
        keeps = "; --accept-code goes on with the new code" if changes and can_go_on else ""
        if any(TEXT_OF_PLUGIN.fullmatch(str(change["setting"])) for change in changes):
            keeps += ". A file that a plugin writes itself belongs outside its package"
        if any(line.startswith("data.fingerprint") for line in diff):
            keeps += ". Corrected data is a new version of its task: `version =` in a table's TOML"
        raise ResumeMismatch(
            f"run folder {folder} was started with other settings (old → new)\n  {differing}\n"
            "Choose another --out or --name, or pass --restart to rename the old run and start "
            f"again{keeps}"
        )
    if changes:
        progress.note(f"plugins predict with new code from here on; {MANIFEST} lists the changes")
        old = with_new_code(old, manifest, changes)
    before, now_there = old["data"].get("images"), manifest["data"]["images"]
    if before != now_there:
        progress.note("images have changed since the run began; the record says so")
        old = {**old, "data": {**old["data"], "images": now_there, "images_before": before}}
    old |= {name: manifest[name] for name in REPLACED_FIELDS}
    code = [old["provenance"]["commit"], *old.get("resumed_at", [])]
    now = manifest["provenance"]["commit"]
    if now != code[-1]:
        progress.note(f"started at commit {code[0]}, resumed at {now}; both are recorded")
        old = {**old, "resumed_at": [*old.get("resumed_at", []), now]}
    if (folder / RESULTS).exists():
        return old
    write_json(path, old)
    return None


def keeps_its_numbers(
    folder: Path, results: dict[str, Any], *, rescore: bool, progress: Progress
) -> bool:
    """Compare the new results of a finished run with its stored ones.

    Returns:
        True if the stored results stay: they have all of the new ones, and further metrics.
        False if the new ones are written: they are equal, add metrics, replace unreadable
        records, or `rescore` is True.

    Raises:
        ResumeMismatch: predictions or scores have changed, because the scoring code or the journal
            has.
    """
    if rescore:
        return False
    try:
        stored = Run(folder).results
        outcome = changed_files(folder) if (folder / CHECKSUMS).is_file() else {}
    except StoreError as error:
        progress.note(f"{error}. It is written again")
        return False
    added = results["metrics"].keys() - stored["metrics"].keys()
    dropped = stored["metrics"].keys() - results["metrics"].keys()
    # If each side has metrics that the other lacks, no record has all: `dropped` are changes then.
    compared = stored if added else without_metrics(stored, dropped)
    diff = changed_numbers(compared, results)
    written = (MANIFEST,) if dropped else (MANIFEST, RESULTS, SCORES)
    diff += [
        f"{name}: {how} since it was scored" for name, how in outcome.items() if name not in written
    ]
    if diff:
        changes = "\n  ".join(diff[:PROBLEMS_SHOWN])
        raise ResumeMismatch(
            f"run {folder} is finished, and its predictions or their scores have changed "
            f"(old → new)\n  {changes}\nPass --rescore to replace its numbers"
        )
    if added:
        progress.note(f"run {folder.name} gets {', '.join(sorted(added))} beside its metrics")
    elif dropped:
        progress.note(f"run {folder.name} keeps {', '.join(sorted(dropped))} too")
    return bool(dropped)


def set_aside(folder: Path) -> None:
    """Rename an earlier run's folder to `<name>.old<number>`, so that nothing is lost."""
    if not folder.exists():
        return
    number = 1
    while (target := folder.with_name(f"{folder.name}.old{number}")).exists():
        number += 1
    with lease(folder), writing(target):
        folder.rename(target)
