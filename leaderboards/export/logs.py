"""Export runs as logs of inspect_ai and VLMEvalKit; `harness score --format` reads them again.

inspect_ai's log is version 2 of its JSON, which `inspect_ai.log.read_eval_log` opens; VLMEvalKit's
tables are those of August 2026 with `PRED_FORMAT=tsv`. Both hold question, ground truth (if it is a
text), responses and score of each sample.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from harness.formats.tables import FAILED, RECORDS
from harness.leaderboards.export.hub import model_id, time_of
from harness.leaderboards.export.instances import Instance, instances
from harness.leaderboards.row import Row, row
from harness.record import Run

Table: TypeAlias = Sequence[Mapping[str, object]]


def inspect_log(run: Run, data_root: Path | None = None) -> tuple[str, str]:
    """Return (file name, text) of inspect_ai's log of a run.

    Raises:
        UsageError, HarnessError: see `instances`.
    """
    run_row, all_instances = row(run), instances(run, data_root)
    model, moment = model_id(run_row), time_of(run).isoformat(timespec="seconds")
    metrics = {
        name: {"name": name, "value": value}
        for name, value in run_row.metrics.items()
        if value is not None
    }
    log = {
        "version": 2,
        "status": "success",
        "eval": {
            "run_id": run_row.config_hash,
            "created": moment,
            "task": run_row.task,
            "task_id": run_row.config_hash,
            "task_version": run_row.task_version,
            "dataset": {
                "name": f"{run_row.task} {run_row.split}",
                "samples": len(all_instances),
            },
            "model": model,
            "config": {},
            "metadata": {
                "model": run_row.model_spec,
                "subset": run_row.subset,
                "commit": run_row.commit,
            },
        },
        "results": {
            "total_samples": len(all_instances),
            "completed_samples": sum(not instance.error for instance in all_instances),
            "scores": [
                {
                    "name": run_row.protocol,
                    "scorer": run_row.protocol,
                    "metrics": metrics,
                }
            ],
        },
        "samples": [_inspect_sample(instance, run_row, model) for instance in all_instances],
    }
    name = f"{moment.replace(':', '-')}_{run_row.task}_{run_row.config_hash}.json"
    return name, json.dumps(log, ensure_ascii=False, allow_nan=False) + "\n"


def _inspect_sample(instance: Instance, run_row: Row, model: str) -> dict[str, object]:
    """Return a sample of a run as Inspect's logs have it."""
    responses = instance.prediction.responses
    replies = [{"role": "assistant", "content": text, "source": "generate"} for text in responses]
    sample: dict[str, object] = {
        "id": instance.sample.id,
        "epoch": 1,
        "input": instance.question,
        "choices": list(instance.sample.query.options) or None,
        "target": instance.ground_truth,
        "messages": [{"role": "user", "content": instance.question, "source": "input"}, *replies],
        "output": {
            "model": model,
            "choices": [{"message": message, "stop_reason": "stop"} for message in replies[-1:]],
        },
        "metadata": {"group": instance.sample.group, **instance.sample.categories},
    }
    if instance.score is not None:
        sample["scores"] = {run_row.protocol: {"value": instance.score}}
    if instance.error:
        sample["error"] = {"message": instance.error, "traceback": "", "traceback_ansi": ""}
    return sample


def vlmevalkit_tables(run: Run, data_root: Path | None = None) -> Iterator[tuple[Path, Table]]:
    """Yield (path, rows) of three tables of VLMEvalKit: predictions, these with scores, accuracies.

    Raises:
        UsageError, HarnessError: see `instances`.
    """
    run_row = row(run)
    rows: list[dict[str, object]] = []
    scores: list[float | None] = []
    for instance in instances(run, data_root):
        responses = instance.prediction.responses
        options = instance.sample.query.options
        scores.append(instance.score)
        rows.append(
            {
                **instance.sample.categories,
                "index": len(rows),
                "id": instance.sample.id,
                "question": instance.question,
                **{chr(65 + index): text for index, text in enumerate(options)},
                "answer": instance.ground_truth,
                "prediction": responses[-1] if responses else f"{FAILED}: {instance.error}",
                RECORDS: json.dumps(responses) if len(responses) > 1 else "",
            }
        )
    name = model_id(run_row).removeprefix("unknown/").replace("/", "-")
    stem = f"{name}_{run_row.run}"  # a run's folder names its split, subset and protocol
    yield Path(name) / f"{stem}.tsv", rows
    scored = [{**line, "hit": score} for line, score in zip(rows, scores, strict=True)]
    yield Path(name) / f"{stem}_result.tsv", scored
    accuracies: dict[str, object] = {"split": run_row.split, "Overall": run_row.value}
    uses = Counter([*accuracies, *chain.from_iterable(run_row.breakdowns.values())])
    for breakdown, cells in run_row.breakdowns.items():
        for value, cell in cells.items():
            key = value if uses[value] == 1 else f"{breakdown}/{value}"
            accuracies[key] = cell["metrics"].get(run_row.headline)
    yield Path(name) / f"{stem}_acc.csv", [accuracies]
