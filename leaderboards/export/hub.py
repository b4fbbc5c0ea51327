"""Runs in the formats of the Hugging Face hub.

`.eval_results/*.yaml` and `model-index` as huggingface.co/docs/hub describes them. JSON is YAML, so
no YAML library is needed; numbers have at most four decimals, which YAML 1.1 reads too.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.leaderboards.row import Row, row
from harness.record import RESULTS, Run
from harness.spec import Spec, parse
from harness.version import __version__

PROJECT = "https://github.com/visual-reasoning-harness/harness"


def eval_results(
    runs: Sequence[Run], datasets: Mapping[str, str], source: str | None
) -> dict[str, str]:
    """Return the files of a model repository's `.eval_results/`, by name.

    Args:
        runs: Runs of one model.
        datasets: The hub's benchmark by task, `ORG/NAME` or `ORG/NAME:TASK_ID`.
        source: Address of the runs, for readers.
    """
    _one_model(runs)
    files: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        made = row(run)
        if made.value is None:
            continue
        name, _, task_id = _dataset(made, datasets).partition(":")
        entry: dict[str, Any] = {
            "dataset": {"id": name, "task_id": task_id or "default"},
            "value": round(made.value, 4),
            "date": time_of(run).isoformat(timespec="seconds"),
            "notes": _notes(made),
        }
        if source is not None:
            entry["source"] = {"url": source, "name": "harness runs"}
        files.setdefault(f"{made.task}.yaml", []).append(entry)
    return {name: json.dumps(entries, indent=2) + "\n" for name, entries in files.items()}


def model_card(runs: Sequence[Run], datasets: Mapping[str, str]) -> str:
    """Return the metadata of a model card, as its README begins with: `model-index`."""
    results = []
    for run in runs:
        made = row(run)
        dataset = _dataset(made, datasets).partition(":")[0]
        results.append(
            {
                "task": {"type": "image-text-to-text", "name": made.task},
                "dataset": {"type": dataset, "name": made.task, "split": made.split},
                "metrics": [
                    {"type": name, "value": round(value, 4), "name": f"{name} ({made.protocol})"}
                    for name, value in made.metrics.items()
                    if value is not None
                ],
                "source": {"url": PROJECT, "name": f"harness {__version__}"},
            }
        )
    index = [{"name": _one_model(runs), "results": results}]
    return f"---\nmodel-index: {json.dumps(index, indent=2)}\n---\n"


def _notes(made: Row) -> str:
    facts = [made.split, made.headline, made.protocol, made.subset or "all samples"]
    failed = [f"{made.n_failed} of {made.n_total} failed"] if made.n_failed else []
    return ", ".join([*facts, *failed, f"harness {__version__} @{(made.commit or '?')[:12]}"])


def time_of(run: Run) -> datetime:
    """Return the time at which a run's results were written."""
    return datetime.fromtimestamp((run.folder / RESULTS).stat().st_mtime, UTC)


def _one_model(runs: Sequence[Run]) -> str:
    names = sorted({row(run).name for run in runs})
    if len(names) != 1:
        raise UsageError("runs", expected="of one model", found=", ".join(names))
    return names[0]


def model_id(made: Row) -> str:
    """Return `ORG/NAME`, as the hub names a checkpoint; of other models `unknown/NAME`."""
    try:
        found = parse(made.model_spec).arguments.get("checkpoint")
    except HarnessError:
        found = None
    if isinstance(found, Spec) or str(found).count("/") != 1 or Path(str(found)).exists():
        found = f"unknown/{made.name}"
    return "/".join(
        "".join(c if c.isalnum() or c in "-_." else "-" for c in part).strip(".") or "-"
        for part in str(found).split("/", 1)
    )


def _dataset(made: Row, datasets: Mapping[str, str]) -> str:
    if made.task not in datasets:
        raise UsageError(
            f"dataset of {made.task} on the hub",
            expected=f"--dataset {made.task}=ORG/NAME",
            found="none",
        )
    return datasets[made.task]
