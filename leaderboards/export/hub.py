"""Export runs in the formats of the Hugging Face hub.

`.eval_results/*.yaml`, `eval.yaml` and `model-index` as huggingface.co/docs/hub/eval-results and
/model-cards describe them. They are written as JSON, which is YAML, so that no YAML library is
needed; numbers have at most four decimals, which YAML 1.1 reads too.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.leaderboards.row import Row, row
from harness.plugins import find_card
from harness.record import RESULTS, Run
from harness.spec import Spec, parse
from harness.version import __version__

PROJECT = "https://github.com/visual-reasoning-harness/harness"
"""Our address in exported records, which need one; it is not public yet (docs/hub.md)."""
FRAMEWORK = "visual-reasoning-harness"
"""Our identifier as `evaluation_framework` of a benchmark; the hub keeps a list of identifiers."""
BOARD_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?::([\w./-]+))?", re.ASCII)
"""A leaderboard of the hub: `org/name` or `org/name:task_id`."""


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
    files: dict[str, list[dict[str, object]]] = {}
    for run, run_row, (name, task_id) in _on_boards(runs, datasets):
        if run_row.value is None:
            continue
        entry = {
            "dataset": {"id": name, "task_id": task_id},
            "value": round(run_row.value, 4),
            "date": time_of(run).isoformat(timespec="seconds"),
            **({"source": {"url": source, "name": "harness runs"}} if source else {}),
            "notes": _notes(run_row),
        }
        files.setdefault(f"{run_row.task}.yaml", []).append(entry)
    return {name: json.dumps(entries, indent=2) + "\n" for name, entries in files.items()}


def benchmarks(runs: Sequence[Run], datasets: Mapping[str, str]) -> dict[Path, str]:
    """Return `eval.yaml` of each dataset repository, by its path below the repository's name.

    It declares the leaderboards to which `eval_results` of the same runs and datasets refer. The
    hub accepts it only if its list of frameworks has `FRAMEWORK`. Name and description are those of
    all tasks of the repository, joined.
    """
    files: dict[str, dict[str, dict[Any, Any]]] = {}
    for _, run_row, (name, task_id) in _on_boards(runs, datasets):
        card = find_card(run_row.task)
        title = run_row.task if card is None else card.title
        about = run_row.about.get(run_row.headline) or run_row.headline
        # Dicts without values are sets in the order of insertion.
        repository = files.setdefault(name, {"titles": {}, "descriptions": {}, "tasks": {}})
        repository["titles"][title] = None
        description = f"{title}, by {run_row.headline} ({about}), protocol {run_row.protocol}."
        repository["descriptions"][description] = None
        repository["tasks"][task_id, run_row.split] = {"id": task_id, "split": run_row.split}
    file_texts = {}
    for name, repository in files.items():
        content = {
            "name": ", ".join(repository["titles"]),
            "description": " ".join(repository["descriptions"]),
            "evaluation_framework": FRAMEWORK,
            "tasks": [*repository["tasks"].values()],
        }
        text = json.dumps(content, indent=2, ensure_ascii=False)
        file_texts[Path(name, "eval.yaml")] = f"{text}\n"
    return file_texts


def model_index(
    name: str, runs: Sequence[Run], datasets: Mapping[str, str]
) -> list[dict[str, object]]:
    """Return every metric of runs as the `model-index` of a model's card."""
    results = [
        {
            "task": {"type": "image-text-to-text", "name": run_row.task},
            "dataset": {
                "type": _dataset(run_row, datasets)[0],
                "name": run_row.task,
                "split": run_row.split,
            },
            "metrics": [
                {"type": metric, "value": round(value, 4), "name": f"{metric} ({run_row.protocol})"}
                for metric, value in run_row.metrics.items()
                if value is not None
            ],
            "source": {"url": PROJECT, "name": f"harness {__version__}"},
        }
        for run_row in map(row, runs)
    ]
    return [{"name": name, "results": [result for result in results if result["metrics"]]}]


def model_card(runs: Sequence[Run], datasets: Mapping[str, str]) -> str:
    """Return the metadata at the top of a model card's README, with a `model-index`."""
    return metadata({"model-index": model_index(_one_model(runs), runs, datasets)})


def metadata(fields: Mapping[str, object]) -> str:
    """Return the YAML that a card begins with; fields without a value are left out."""
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if value
    ]
    return "\n".join(["---", *lines, "---", ""])


def _notes(run_row: Row) -> str:
    facts = [run_row.split, run_row.headline, run_row.protocol, run_row.subset or "all samples"]
    failed = [f"{run_row.n_failed} of {run_row.n_total} failed"] if run_row.n_failed else []
    return ", ".join([*facts, *failed, f"harness {__version__} @{(run_row.commit or '?')[:12]}"])


def time_of(run: Run) -> datetime:
    """Return the time at which a run's results were written."""
    return datetime.fromtimestamp((run.folder / RESULTS).stat().st_mtime, UTC)


def _one_model(runs: Sequence[Run]) -> str:
    names = sorted({row(run).name for run in runs})
    if len(names) != 1:
        raise UsageError("runs", expected="of one model", found=", ".join(names))
    return names[0]


def model_id(run_row: Row) -> str:
    """Return `ORG/NAME` of a checkpoint on the hub; `unknown/NAME` for other models.

    Characters that the hub does not allow become hyphens.
    """
    try:
        checkpoint = parse(run_row.model_spec).arguments.get("checkpoint")
    except HarnessError:
        checkpoint = None
    if (
        isinstance(checkpoint, Spec)
        or str(checkpoint).count("/") != 1
        or Path(str(checkpoint)).exists()
    ):
        checkpoint = f"unknown/{run_row.name}"
    return "/".join(
        "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".") or "-"
        for name in str(checkpoint).split("/", 1)
    )


def _on_boards(
    runs: Sequence[Run], datasets: Mapping[str, str]
) -> list[tuple[Run, Row, tuple[str, str]]]:
    """Return the runs with their rows, and (repository, task id) of their hub leaderboards.

    Raises:
        UsageError: the dataset of a task is missing or malformed, or runs of another task, split,
            protocol or subset have the same leaderboard.
    """
    rows = ((run, row(run)) for run in runs)
    placed = [(run, run_row, _dataset(run_row, datasets)) for run, run_row in rows]
    owners: dict[tuple[str, str], tuple[str, ...]] = {}
    for _, run_row, board in placed:
        ranked = (run_row.task, run_row.split, run_row.protocol, run_row.subset or "")
        if owners.setdefault(board, ranked) != ranked:
            raise UsageError(
                f"leaderboard {':'.join(board)}",
                expected="runs of one task, split, protocol and subset",
                found=f"{' '.join(owners[board])} and {' '.join(ranked)}",
                fix="Give each its own TASK_ID, or export them one by one.",
            )
    return placed


def _dataset(run_row: Row, datasets: Mapping[str, str]) -> tuple[str, str]:
    """Return repository and task id of a task's leaderboard; the id is `default` if not given."""
    text = datasets.get(run_row.task, "")
    board = BOARD_NAME.fullmatch(text)
    if board is None:
        raise UsageError(
            f"dataset of {run_row.task} on the hub",
            expected=f"--dataset {run_row.task}=ORG/NAME or ORG/NAME:TASK_ID",
            found=text or "none",
        )
    return board[1], board[2] or "default"
