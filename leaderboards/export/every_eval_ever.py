"""Runs as Every Eval Ever collects them: an aggregate a run, and its instances.

Version 0.3 of the schemas of github.com/evaleval/every_eval_ever. The instances are those of the
headline, one a sample.
"""

import json
from collections.abc import Callable, Iterator, Sequence
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
        note: Receives why a run has no instances: no responses, no data, or no score a sample.
    """
    for run in runs:
        made = row(run)
        model = model_id(made)
        moment = time_of(run)
        name = f"{made.task}/{model}/{moment.timestamp():.0f}"
        data: dict[str, object] = {"dataset_name": made.task, "source_type": "other"}
        results = [
            {
                "evaluation_name": f"{made.task} {made.split}, {metric}",
                "evaluation_result_id": f"{name}/{metric}",
                "source_data": data,
                "metric_config": {
                    "metric_id": f"{made.task}.{metric}",
                    "metric_name": metric,
                    "evaluation_description": made.about.get(metric, ""),
                    "lower_is_better": made.better[metric] == "lower",
                    "additional_details": {"protocol": made.protocol},
                },
                "score_details": {"score": value, **_uncertainty(made, metric)},
            }
            for metric, value in made.metrics.items()
            if value is not None
        ]
        plain = {
            "schema_version": EEE_VERSION,
            "evaluation_id": name,
            "evaluation_timestamp": moment.isoformat(),
            "retrieved_timestamp": f"{moment.timestamp():.0f}",
            "source_metadata": {
                "source_type": "evaluation_run",
                "source_organization_name": "harness",
                "source_organization_url": source or PROJECT,
                "evaluator_relationship": "other",
            },
            "eval_library": {"name": "visual-reasoning-harness", "version": __version__},
            "model_info": {
                "name": made.name,
                "id": model,
                "additional_details": {
                    "deployment_type": "unknown",
                    "model_availability": "unknown",
                    "spec": made.model_spec,
                },
            },
            "evaluation_results": results,
        }
        path = Path("data") / made.task / model / f"{UUID(made.config_hash, version=4)}.json"
        try:
            found = _scored(run, data_root)
        except HarnessError as error:
            note(f"{run.folder}: without instances: {error}")
        else:
            lines = [
                _instance(one, score, made, evaluation=name, model=model) for one, score in found
            ]
            text = "".join(f"{one}\n" for one in lines)
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


def _uncertainty(made: Row, metric: str) -> dict[str, object]:
    pair = made.intervals.get(metric)
    if pair is None:
        return {}
    interval = {"lower": pair[0], "upper": pair[1], "confidence_level": 0.95}
    return {"uncertainty": {"confidence_interval": interval, "num_samples": made.n_total}}


def _scored(run: Run, data_root: Path | None) -> list[tuple[Instance, float]]:
    """Return the samples of a run with their scores.

    Raises:
        UsageError: the headline has none for a sample, such as one of all samples together; and as
            `instances` does.
    """
    found = instances(run, data_root)
    scored = [(one, one.score) for one in found if one.score is not None]
    if len(scored) < len(found):
        raise UsageError(
            f"{run.results['headline']} of run {run.folder}",
            expected="a score a sample, which each instance has",
            found=f"{len(scored)} scores of {len(found)} samples",
        )
    return scored


def _instance(one: Instance, score: float, made: Row, *, evaluation: str, model: str) -> str:
    best = score >= 1 if made.better[made.headline] == "higher" else score <= 0
    responses = list(one.prediction.responses)
    plain = {
        "schema_version": EEE_VERSION,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": f"{made.task} {made.split}, {made.headline}",
        "evaluation_result_id": f"{evaluation}/{made.headline}",
        "sample_id": one.sample.id,
        "interaction_type": "single_turn",
        "input": {
            "raw": one.question,
            "reference": [one.ground_truth] if one.ground_truth else [],
            "choices": list(one.sample.query.options) or None,
        },
        "output": {"raw": responses},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": responses[-1] if responses else "",
                "extraction_method": made.protocol,
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": score, "is_correct": best},
        "error": one.error or None,
        "metadata": {name: str(value) for name, value in one.sample.categories.items()},
    }
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)
