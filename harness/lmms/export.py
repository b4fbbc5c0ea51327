"""`harness lmms export`: writes tasks of harness to a folder for `lmms-eval --include_path`.

A task becomes a YAML file, which also records the task's SPEC, data and pipeline, and a list of
samples (JSON lines). `utils.py` in the folder has the functions that lmms-eval calls; they call
`harness.lmms.tasks`.
"""

import json
import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import plugins
from harness.chosen.trained_settings import as_trained
from harness.cli.model_choice import model_spec
from harness.cli.output import tell, write_text
from harness.cli.spec_arguments import require, specs
from harness.errors import DataError, HarnessError, UsageError, printable
from harness.leaderboards.images import answer_words
from harness.models.pipeline import PromptedModel
from harness.run.batching import samples_of, select
from harness.run.sample_cache import read_once
from harness.run.survey import survey
from harness.run.workers import build_model
from harness.spec import Spec
from harness.task import Task

UTILS_SOURCE = '''"""What lmms-eval calls for the tasks in this folder, by `harness lmms export`."""

from pathlib import Path

from harness.lmms import tasks

FOLDER = Path(__file__).resolve().parent


def doc_to_text(doc, lmms_eval_specific_kwargs=None):
    return tasks.doc_to_text(FOLDER, doc)


def doc_to_visual(doc):
    return tasks.doc_to_visual(FOLDER, doc)


def doc_to_messages(doc, lmms_eval_specific_kwargs=None):
    return tasks.doc_to_messages(FOLDER, doc)


def process_results(doc, results):
    return tasks.process_results(FOLDER, doc, results)


def aggregate(items):
    return tasks.aggregate(FOLDER, items)
'''
METADATA_START = "metadata: "
"""Beginning of the line of a YAML file that has the record of the export, as JSON."""
UTILS_FUNCTIONS = ("doc_to_text", "doc_to_visual", "doc_to_messages", "process_results")
"""Functions of `UTILS_SOURCE` that lmms-eval's tasks name by their own names."""


def export(arguments: Namespace) -> int:
    """Write the files of each task that can be scored, and `utils.py`; return 0.

    Without `--tasks`, tasks that cannot be read or scored are left out with a note.
    """
    require(arguments, "data", out="a folder for the tasks")
    spec = as_trained(model_spec(arguments.pipeline))
    if "backend" not in spec.arguments:
        spec = Spec(spec.name, {**spec.arguments, "backend": Spec("stored")})
    pipeline = load_pipeline(str(spec))
    requested = specs(arguments.tasks, "--tasks") if arguments.tasks else None
    content_of_path: dict[str, str] = {}
    left_out: dict[str, str] = {}
    names = sorted(plugins.installed_plugins("tasks"))
    for task_spec in requested or map(Spec, names):
        try:
            task = read_once(plugins.build("tasks", task_spec, arguments.data))
            content_of_path[_write(arguments, str(task_spec), task, str(spec), pipeline)] = str(
                task_spec
            )
        except HarnessError as error:
            if requested is not None:
                raise
            left_out[str(task_spec)] = str(error)
    if not content_of_path:
        raise DataError(f"--data {arguments.data}", expected="a benchmark", found="none")
    write_text(arguments.out / "utils.py", UTILS_SOURCE)
    tell(
        arguments,
        {"out": str(arguments.out), "tasks": content_of_path, "left_out": left_out},
        *(printable(f"{name}: left out, {why}") for name, why in left_out.items()),
        f"lmms-eval --include_path {arguments.out} --tasks {','.join(content_of_path)}",
    )
    return 0


def load_pipeline(text: str) -> PromptedModel:
    """Build the model of a SPEC, whose requests lmms-eval's model will answer.

    Raises:
        UsageError: the model sends several requests for a question.
    """
    model = build_model(model_spec(text), 0)
    if not isinstance(model, PromptedModel) or type(model).generate is not PromptedModel.generate:
        raise UsageError(
            f"--pipeline {text}",
            expected="a model with one request a question, such as qwen_vl, vlm or dr2seg",
            found=model.name,
        )
    return model


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the record of an export in a task's YAML; raise DataError if it has none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        (line,) = (line for line in lines if line.startswith(METADATA_START))
        recorded: dict[str, Any] = json.loads(line.removeprefix(METADATA_START))["harness"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            str(path),
            expected=f"one line {METADATA_START}{{…}} as `harness lmms export` writes it",
            found=str(error),
            fix="Export the task again.",
        ) from error
    return recorded


def _rows(name: str, task: Task, pipeline: PromptedModel) -> Iterator[dict[str, str]]:
    """Yield a document for each form of each sample; raise UsageError if one cannot be scored."""
    obstacle = "answers that a judge grades" if task.protocol.rubric is not None else ""
    for sample in samples_of(task):
        if unsupported := set(sample.query.forms) - pipeline.forms:
            obstacle = f"answers as {', '.join(sorted(unsupported))}"
        elif sample.target is None:
            obstacle = "a hidden ground truth"
        if obstacle:
            raise UsageError(
                f"{task.name}, split {task.split}",
                expected="answers that the pipeline gives and the protocol scores by itself",
                found=obstacle,
            )
        target = answer_words(sample.target.answer) if sample.target else ""
        for form in sample.query.forms:
            yield {
                "task": name,
                "id": sample.id,
                "form": str(form),
                "question": sample.query.text,
                "target": target,
            }


def _write(
    arguments: Namespace, spec: str, task: Task, pipeline_spec: str, pipeline: PromptedModel
) -> str:
    """Write a task's files, and return its name in lmms-eval; raise UsageError as `_rows` does."""
    name = "harness_" + re.sub(r"\W+", "_", spec).strip("_")
    protocol = task.protocol
    rows = list(_rows(name, task, pipeline))
    metrics = [protocol.metric(protocol.headline), *protocol.metrics]
    recorded = {
        "task": spec,
        "data": str(arguments.data.resolve()),
        "split": task.split,
        "protocol": protocol.name,
        "headline": protocol.headline,
        "pipeline": pipeline_spec,
        "described": pipeline.describe(),
        "clips": arguments.clips,
        "fingerprint": survey(task, select(task, None)).fingerprint,
    }
    generation = {
        "max_new_tokens": pipeline.max_new_tokens,
        "temperature": 0,
        "do_sample": False,
        "until": [],
    }
    lines = [
        f"task: {name}",
        "dataset_path: json",
        f'dataset_kwargs: {{"data_files": {{"test": "{name}.jsonl"}}}}',
        "test_split: test",
        "output_type: generate_until",
        *(f"{function}: !function utils.{function}" for function in UTILS_FUNCTIONS),
        "doc_to_target: target",
        f"generation_kwargs: {json.dumps(generation)}",
        # Responses are read with their reasoning, which is part of the models' grammars.
        "reasoning_tags: none",
        "cluster_key: group",
        "metric_list:",
        *(
            f"  - {{metric: {json.dumps(metric.name)}, aggregation: !function utils.aggregate, "
            f"higher_is_better: {json.dumps(metric.better == 'higher')}}}"
            for metric in dict.fromkeys(metrics)
        ),
        # Below `metadata`: lmms-eval uses some keys at the top, such as "split", itself.
        METADATA_START + json.dumps({"version": task.version, "harness": recorded}),
    ]
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    write_text(arguments.out / f"{name}.jsonl", text)
    write_text(arguments.out / f"{name}.yaml", "\n".join(lines) + "\n")
    return name
