"""Runs as the logs that inspect_ai and VLMEvalKit write: `harness score --format` reads them again.

inspect_ai's log is version 2 of its JSON, which `inspect_ai.log.read_eval_log` opens; VLMEvalKit's
tables are those of August 2026 with `PRED_FORMAT=tsv`. Both hold texts: the question, the ground
truth where it is one, the responses, and a score a sample.
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
    """Return inspect_ai's log of a run, after the name that it would give it.

    Raises:
        UsageError, HarnessError: as `instances` does.
    """
    made, found = row(run), instances(run, data_root)
    model, moment = model_id(made), time_of(run).isoformat(timespec="seconds")
    metrics = {
        name: {"name": name, "value": value}
        for name, value in made.metrics.items()
        if value is not None
    }
    log = {
        "version": 2,
        "status": "success",
        "eval": {
            "run_id": made.config_hash,
            "created": moment,
            "task": made.task,
            "task_id": made.config_hash,
            "task_version": made.task_version,
            "dataset": {
                "name": f"{made.task} {made.split}",
                "samples": len(found),
            },
            "model": model,
            "config": {},
            "metadata": {"model": made.model_spec, "subset": made.subset, "commit": made.commit},
        },
        "results": {
            "total_samples": len(found),
            "completed_samples": sum(not one.error for one in found),
            "scores": [
                {
                    "name": made.protocol,
                    "scorer": made.protocol,
                    "metrics": metrics,
                }
            ],
        },
        "samples": [_inspect_sample(one, made, model) for one in found],
    }
    name = f"{moment.replace(':', '-')}_{made.task}_{made.config_hash}.json"
    return name, json.dumps(log, ensure_ascii=False, allow_nan=False) + "\n"


def _inspect_sample(one: Instance, made: Row, model: str) -> dict[str, object]:
    responses = one.prediction.responses
    said = [{"role": "assistant", "content": text, "source": "generate"} for text in responses]
    sample: dict[str, object] = {
        "id": one.sample.id,
        "epoch": 1,
        "input": one.question,
        "choices": list(one.sample.query.options) or None,
        "target": one.ground_truth,
        "messages": [{"role": "user", "content": one.question, "source": "input"}, *said],
        "output": {
            "model": model,
            "choices": [{"message": message, "stop_reason": "stop"} for message in said[-1:]],
        },
        "metadata": {"group": one.sample.group, **one.sample.categories},
    }
    if one.score is not None:
        sample["scores"] = {made.protocol: {"value": one.score}}
    if one.error:
        sample["error"] = {"message": one.error, "traceback": "", "traceback_ansi": ""}
    return sample


def vlmevalkit_tables(run: Run, data_root: Path | None = None) -> Iterator[tuple[Path, Table]]:
    """Yield VLMEvalKit's predictions of a run, the same with scores, and the accuracies.

    Each is the rows of a table, after the path that VLMEvalKit would give it.

    Raises:
        UsageError, HarnessError: as `instances` does.
    """
    made = row(run)
    rows: list[dict[str, object]] = []
    scores: list[float | None] = []
    for one in instances(run, data_root):
        responses = one.prediction.responses
        options = one.sample.query.options
        scores.append(one.score)
        rows.append(
            {
                **one.sample.categories,
                "index": len(rows),
                "id": one.sample.id,
                "question": one.question,
                **{chr(65 + place): text for place, text in enumerate(options)},
                "answer": one.ground_truth,
                "prediction": responses[-1] if responses else f"{FAILED}: {one.error}",
                RECORDS: json.dumps(responses) if len(responses) > 1 else "",
            }
        )
    name = model_id(made).removeprefix("unknown/").replace("/", "-")
    stem = f"{name}_{made.run}"  # a run's folder names its split, subset and protocol
    yield Path(name) / f"{stem}.tsv", rows
    scored = [{**one, "hit": score} for one, score in zip(rows, scores, strict=True)]
    yield Path(name) / f"{stem}_result.tsv", scored
    accuracies: dict[str, object] = {"split": made.split, "Overall": made.value}
    uses = Counter([*accuracies, *chain.from_iterable(made.breakdowns.values())])
    for breakdown, cells in made.breakdowns.items():
        for value, cell in cells.items():
            key = value if uses[value] == 1 else f"{breakdown}/{value}"
            accuracies[key] = cell["metrics"].get(made.headline)
    yield Path(name) / f"{stem}_acc.csv", [accuracies]
