"""Export runs in the format of Every Eval Ever: a JSON aggregate and its instances for each run.

Version 0.3 of the schemas of github.com/evaleval/every_eval_ever. Instances are the samples with
their score on the headline. `formats.exported` calls it for `--to every-eval-ever`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from harness.errors import HarnessError, UsageError
from harness.leaderboards.export.hub import PROJECT, model_id, time_of
from harness.leaderboards.export.instances import Instance, instances
from harness.leaderboards.row import Row, row
from harness.record import Run
from harness.version import __version__

EEE_VERSION = "0.3.0"


def every_eval_ever(
    runs: Sequence[Run],
    source: str | None,
    data_root: Path | None = None,
    note: Callable[[str], None] = print,
) -> Iterator[tuple[Path, str]]:
    """Yield the aggregate of each run, and its instances, with the paths of the collection.

    Args:
        runs: Finished runs.
        source: Address of the runs, for readers.
        data_root: Folder of the benchmarks; None: where the runs read them.
        note: Receives the reason if a run has no instances: no responses, data or sample scores.
    """
    for run in runs:
        run_row = row(run)
        model = model_id(run_row)
        moment = time_of(run)
        name = f"{run_row.task}/{model}/{moment.timestamp():.0f}"
        plain = _aggregate(run_row, name, model, moment, source or PROJECT)
        path = Path("data") / run_row.task / model / f"{UUID(run_row.config_hash, version=4)}.json"
        try:
            scored = _scored(run, data_root)
        except HarnessError as error:
            note(f"{run.folder}: without instances: {error}")
        else:
            lines = [
                _instance(instance, score, run_row, evaluation=name, model=model)
                for instance, score in scored
            ]
            text = "".join(f"{line}\n" for line in lines)
            sidecar = path.with_name(f"{path.stem}_samples.jsonl")
            plain["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": sidecar.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": sha256(text.encode()).hexdigest(),
                "total_rows": len(lines),
            }
            yield sidecar, text
        yield path, json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _aggregate(
    run_row: Row, name: str, model: str, moment: datetime, source: str
) -> dict[str, object]:
    """Return the aggregate of a run; `name` and `model` are ids, `moment` is the end of the run."""
    data: dict[str, object] = {"dataset_name": run_row.task, "source_type": "other"}
    results = [
        {
            "evaluation_name": f"{run_row.task} {run_row.split}, {metric}",
            "evaluation_result_id": f"{name}/{metric}",
            "source_data": data,
            "metric_config": {
                "metric_id": f"{run_row.task}.{metric}",
                "metric_name": metric,
                "evaluation_description": run_row.about.get(metric, ""),
                "lower_is_better": run_row.better[metric] == "lower",
                "additional_details": {"protocol": run_row.protocol},
            },
            "score_details": {"score": value, **_uncertainty(run_row, metric)},
        }
        for metric, value in run_row.metrics.items()
        if value is not None
    ]
    return {
        "schema_version": EEE_VERSION,
        "evaluation_id": name,
        "evaluation_timestamp": moment.isoformat(),
        "retrieved_timestamp": f"{moment.timestamp():.0f}",
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "harness",
            "source_organization_url": source,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "visual-reasoning-harness", "version": __version__},
        "model_info": {
            "name": run_row.name,
            "id": model,
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                "spec": run_row.model_spec,
            },
        },
        "evaluation_results": results,
    }


def _uncertainty(run_row: Row, metric: str) -> dict[str, object]:
    pair = run_row.intervals.get(metric)
    if pair is None:
        return {}
    interval = {"lower": pair[0], "upper": pair[1], "confidence_level": 0.95}
    return {"uncertainty": {"confidence_interval": interval, "num_samples": run_row.n_total}}


def _scored(run: Run, data_root: Path | None) -> list[tuple[Instance, float]]:
    """Return the samples of a run with their scores.

    Raises:
        UsageError: the headline has no score of a sample, such as one of all samples together.
        HarnessError: see `instances`.
    """
    all_instances = instances(run, data_root)
    scored = [
        (instance, instance.score) for instance in all_instances if instance.score is not None
    ]
    if len(scored) < len(all_instances):
        raise UsageError(
            f"{run.results['headline']} of run {run.folder}",
            expected="a score a sample, which each instance has",
            found=f"{len(scored)} scores of {len(all_instances)} samples",
        )
    return scored


def _instance(
    instance: Instance, score: float, run_row: Row, *, evaluation: str, model: str
) -> str:
    """Return a sample of a run as one JSON line of the format."""
    best = score >= 1 if run_row.better[run_row.headline] == "higher" else score <= 0
    responses = list(instance.prediction.responses)
    plain = {
        "schema_version": EEE_VERSION,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": f"{run_row.task} {run_row.split}, {run_row.headline}",
        "evaluation_result_id": f"{evaluation}/{run_row.headline}",
        "sample_id": instance.sample.id,
        "interaction_type": "single_turn",
        "input": {
            "raw": instance.question,
            "reference": [instance.ground_truth] if instance.ground_truth else [],
            "choices": list(instance.sample.query.options) or None,
        },
        "output": {"raw": responses},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": responses[-1] if responses else "",
                "extraction_method": run_row.protocol,
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": score, "is_correct": best},
        "error": instance.error or None,
        "metadata": {name: str(value) for name, value in instance.sample.categories.items()},
    }
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)
