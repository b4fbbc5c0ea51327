"""Resumption of a run: its manifest compared, its unfinished batches, its numbers refused."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import ResumeMismatch, StoreError
from harness.record import MANIFEST, RESULTS, SCORES, Run, changed_numbers, differences
from harness.run.batching import Batch
from harness.run.manifest import repeatable
from harness.run.options import Progress
from harness.run.preflight import PROBLEMS_SHOWN
from harness.store.atomic import write_json
from harness.store.checksums import CHECKSUMS, changed_files
from harness.store.journal import Journal, JournalPosition
from harness.types import FailureKind

NOT_HELD = ("config_hash", "data.root", "data.images_before", "resumed_at")
"""Fields of a manifest that may differ in a run that is resumed."""


def begin_or_resume(
    folder: Path, manifest: dict[str, Any], progress: Progress
) -> dict[str, object] | None:
    """Write the manifest of a new run, or compare it with that of the run in `folder`.

    Images and commits may differ: that is recorded. A finished run keeps its manifest, which is
    under its checksums, until it is finished anew: the manifest that `finish` has to write then is
    returned, and None otherwise.

    Raises:
        ResumeMismatch: the run was begun with another configuration.
    """
    path = folder / MANIFEST
    if not path.exists():
        Journal(folder).check(manifest["config_hash"])  # left by another run, or copied
        write_json(path, manifest)
        return None
    old = Run(folder).manifest
    manifest = _as_stored(manifest)
    lines = differences(repeatable(old), repeatable(manifest))
    diff = [line for line in lines if not line.startswith(NOT_HELD)]
    if diff or old["config_hash"] != manifest["config_hash"]:
        shown = "\n  ".join(diff or lines)
        raise ResumeMismatch(
            f"run folder {folder} was begun with something else (old → new)\n  {shown}\n"
            "Choose another --out, or pass --restart to set the old run aside and begin anew"
        )
    before, now_there = old["data"].get("images"), manifest["data"]["images"]
    if before != now_there:
        progress.note("images have changed since the run began; that is recorded")
        old = {**old, "data": {**old["data"], "images": now_there, "images_before": before}}
    old["deviations"] = manifest["deviations"]  # they follow from the rest
    code = [old["provenance"]["commit"], *old.get("resumed_at", [])]
    now = manifest["provenance"]["commit"]
    if now != code[-1]:
        progress.note(f"begun at commit {code[0]}, goes on at {now}: both are recorded")
        old = {**old, "resumed_at": [*old.get("resumed_at", []), now]}
    if (folder / RESULTS).exists():
        return old
    write_json(path, old)
    return None


def _as_stored(plain: dict[str, object]) -> dict[str, Any]:
    """Return plain data as it is read again from JSON."""
    return dict(json.loads(json.dumps(plain)))


def remaining_batches(
    plan: Iterable[Batch],
    places: Mapping[str, JournalPosition],
    *,
    retry_failed: bool,
    by_sample: bool,
) -> Iterator[Batch]:
    """Yield the plan's batches that have unfinished samples.

    A batch is done again whole, because what a network computes for one of its samples may
    depend, in the last bits, on the others. For a model that answers by the sample only the
    missing samples are done again: there a batch is many times what the network takes at once.

    Args:
        plan: All batches of the run.
        places: The journal's entry of each prediction, by query id.
        retry_failed: Failed samples count as unfinished. Lost ones always do.
        by_sample: The model answers by the sample.
    """
    for batch in plan:
        left = tuple(
            query
            for query in batch.queries
            if not is_done(places.get(query.id), retry_failed=retry_failed)
        )
        if left:
            yield replace(batch, queries=left) if by_sample else batch


def is_done(place: JournalPosition | None, *, retry_failed: bool) -> bool:
    """Return True if a sample is finished: one that was lost to the infrastructure never is."""
    if place is None or place.failure == FailureKind.INFRASTRUCTURE:
        return False
    return place.failure is None or not retry_failed


def refuse_other_numbers(
    folder: Path, results: dict[str, object], *, rescore: bool, progress: Progress
) -> None:
    """Raise ResumeMismatch if a finished run's predictions or their scores have changed.

    The scoring code, --metrics or the journal has changed then, which must not go unnoticed. With
    `rescore` nothing is raised. Records that cannot be read are noted and written again.
    """
    try:
        stored = Run(folder).results
        outcome = changed_files(folder) if (folder / CHECKSUMS).is_file() else {}
    except StoreError as error:
        progress.note(f"{error}. It is written again")
        return
    diff = changed_numbers(stored, results)
    diff += [
        f"{name}: {how} since it was scored"
        for name, how in outcome.items()
        if name not in (MANIFEST, RESULTS, SCORES)
    ]
    if diff and not rescore:
        shown = "\n  ".join(diff[:PROBLEMS_SHOWN])
        raise ResumeMismatch(
            f"run {folder} is finished, and its predictions or what they score are other ones now "
            f"(old → new)\n  {shown}\nPass --rescore to replace its numbers"
        )
