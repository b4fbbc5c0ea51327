"""lmms-eval's tasks as tasks of harness: `--tasks lmms:videomme,lmms:mvbench`.

A sample is a document: its text is lmms-eval's prompt, its media are the result of `doc_to_visual`.
lmms-eval's filters and `process_results` score a response, and the task's own aggregation gives the
metric. Only its aggregation `mean` is replaced by harness's mean, which is exactly rounded.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError, HarnessError, MissingDependency, UsageError
from harness.image_file import rgb
from harness.lmms.visuals import medium
from harness.media import Frame
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.plugins import plugin_errors
from harness.scores import Corpus, Mean, Metric, Scores
from harness.task import Ceiling, Protocol, Task, check_by_reading
from harness.types import (
    Answer,
    AnswerForm,
    GenerationSettings,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

YAML_FOLDER = "lmms_eval"
"""Folder below ROOT with the user's own YAML tasks, whose code runs when one of them is named."""
BLANK_LINE = "\n\n"
OFFICIAL_VALUES = ("response", "task")
"""Values of `read` and `generation` with which scores are lmms-eval's own (see `lmms`)."""
REASONING_TAGS = '[["<think>", "</think>"], ["<analysis>", "</analysis>"]]'
"""The default of `lmms-eval --reasoning_tags`: tags whose text is removed from responses."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A loaded task of lmms-eval, or the loaded tasks of a group."""

    tasks: Mapping[str, Any]
    """`ConfigurableTask`s by name."""
    files: tuple[Path, ...]
    """Code and data that decide samples and scores."""
    group: Any
    """The configuration of a group; None: a single task."""

    def name_of(self, task: str, metric: str) -> str:
        """Return the name in harness of a task's metric."""
        return metric if self.group is None else f"{task}/{metric}"


@cache
def load_benchmark(data: Path, name: str) -> Benchmark:
    """Load a task or group, of lmms-eval or of `ROOT/lmms_eval`.

    Raises:
        MissingDependency: lmms-eval is not installed.
        UsageError: there is no such task, or it does not ask for responses.
        DataError: it cannot be loaded.
    """
    try:
        ensure_torchvision()
        from lmms_eval.evaluator_utils import get_task_list
        from lmms_eval.tasks import TaskManager, get_task_dict
        from loguru import logger
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"lmms(name={name})",
            expected="the package lmms-eval",
            found=f"no {error.name}",
            fix='Install it: pip install "visual-reasoning-harness[lmms]"',
        ) from error
    logger.disable("")  # lmms-eval's tasks log each call of an aggregation
    folder = data / YAML_FOLDER
    manager = TaskManager()
    if name not in manager.all_tasks and folder.is_dir():
        # YAML tasks run code: a data root may add tasks, but not replace those of lmms-eval.
        manager = TaskManager(include_path=[str(folder)])
    if name not in manager.all_tasks:
        from difflib import get_close_matches

        raise UsageError(
            f"lmms(name={name})",
            expected=f"a task of lmms-eval or of {folder}",
            found="none of that name",
            fix=f"Near it: {', '.join(get_close_matches(name, manager.all_tasks))}.",
        )
    with plugin_errors(f"task {name} of lmms-eval"):
        loaded = get_task_dict([name], manager)
        tasks = {entry.task_name: entry.task for entry in get_task_list(loaded)}
    kinds = {task.OUTPUT_TYPE for task in tasks.values()} - {"generate_until"}
    if kinds:
        raise UsageError(
            f"lmms(name={name})", expected="output_type: generate_until", found=kinds.pop()
        )
    folders = {Path(manager.task_index[task_name]["yaml_path"]).parent for task_name in tasks}
    code = {path for folder in folders for path in folder.iterdir() if path.is_file()}
    cached = {
        Path(file["filename"]) for task in tasks.values() for file in task.eval_docs.cache_files
    }
    first = next(iter(loaded))
    group = None if len(tasks) == 1 and name in tasks else getattr(first, "config", {})
    return Benchmark(tasks, tuple(sorted(code | cached)), group)


@dataclass(frozen=True, slots=True)
class DocumentImage:
    """Decodes one image of a document; see `harness.frame_cache.Loader`."""

    data: Path
    name: str
    """Name of the loaded task or group, to which `task` belongs."""
    task: str
    document: int
    """Number of the document in the task, from 0."""
    index: int
    """Number of the image in the document, from 0."""

    @property
    def key(self) -> str:
        """Name of the image in the cache."""
        return f"lmms:{self.data}:{self.task}:{self.document}:{self.index}"

    def __call__(self) -> Frame:
        """Decode the image."""
        task = load_benchmark(self.data, self.name).tasks[self.task]
        return rgb(task.doc_to_visual(task.eval_docs[self.document])[self.index])


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A task's aggregation of the items of `process_results`; see `Metric.corpus`."""

    metric: str
    function: Callable[[list[Any]], float]

    def __call__(self, items: Sequence[Any]) -> float:
        """Return the number over all items."""
        with plugin_errors(f"lmms-eval's aggregation of {self.metric}"):
            return float(self.function(list(items)))

    def over(self, blocks: Sequence[Sequence[Any]], is_kept: NDArray[np.bool_]) -> list[float]:
        """Return the number over the marked blocks for each row of `is_kept` (resamples × blocks).

        NaN stands for a number that cannot be computed.
        """
        return [
            self._over([block for block, mark in zip(blocks, row, strict=True) if mark])
            for row in is_kept
        ]

    def _over(self, blocks: Sequence[Sequence[Any]]) -> float:
        try:
            return self([item for items in blocks for item in items])
        except HarnessError:
            return np.nan


def lmms(
    data: Path,
    *,
    name: str,
    read: Literal["response", "answer"] = "response",
    generation: Literal["task", "model"] = "task",
) -> Task:
    """A task or group of lmms-eval, by its own prompts, data and scores.

    Args:
        data: The folder that holds one folder a benchmark; YAML tasks in its `lmms_eval` count too.
        name: Name of the task, as in `lmms-eval --tasks`.
        read: What lmms-eval's code reads: the model's whole `response`, or the `answer` that the
            model's own parser takes from it.
        generation: Which settings of length, sampling and stop strings are used: the `task`'s
            `generation_kwargs`, or the `model`'s own.
    """
    benchmark = load_benchmark(data.resolve(), name)
    metrics = tuple(_metrics(benchmark))
    if not metrics:
        raise UsageError(f"lmms(name={name})", expected="a metric", found="only files for a server")
    headline = next(metric.name for metric in metrics if benchmark.group is None or metric.inputs)
    arguments = {"name": name, "read": read, "generation": generation}
    # Scores that differ from lmms-eval's have another protocol.
    deviations = [
        f"{key}={arguments[key]}"
        for key in ("read", "generation")
        if arguments[key] not in OFFICIAL_VALUES
    ]

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        (sample,), (prediction,) = unit, predictions
        assert sample.target is not None, "every document has one"
        task, document = sample.target.extra["task"], sample.target.extra["document"]
        return _score(benchmark, task, document, _text(prediction, read))

    def samples() -> Iterator[Sample]:
        for task in benchmark.tasks:
            settings = request_settings(benchmark.tasks[task]) if generation == "task" else None
            yield from _read_samples(benchmark, data.resolve(), name, task, settings)

    first = next(iter(benchmark.tasks.values()))
    return Task(
        name=f"lmms_{name}",
        version=1,
        split=first.config.test_split or first.config.validation_split,
        forms=(AnswerForm.TEXT,),
        protocol=Protocol(
            name="/".join(["lmms-eval", version("lmms-eval"), *deviations]),
            score=score,
            metrics=metrics,
            headline=headline,
            ceiling=Ceiling(value=None, why="lmms-eval's targets need not be responses"),
            about=f"lmms-eval's task {name}",
        ),
        samples=samples,
        annotations=benchmark.files,
        check=lambda: check_by_reading(samples, data / YAML_FOLDER),
        arguments=arguments,
    )


def request_settings(task: Any) -> GenerationSettings:
    """Return the settings of a task's `generation_kwargs`, as lmms-eval's models understand them.

    `do_sample: false` and `top_p: 0` mean greedy decoding. A blank line as stop string (`until`) is
    left out, as by lmms-eval's `qwen2_5_vl`: it is only lmms-eval's default.
    """
    settings = task.config.generation_kwargs or {}
    until, top_p = settings.get("until") or (), settings.get("top_p")
    until = [until] if isinstance(until, str) else until
    greedy = settings.get("do_sample") is False or top_p == 0
    return GenerationSettings(
        max_new_tokens=settings.get("max_new_tokens"),
        temperature=0.0 if greedy else settings.get("temperature"),
        top_p=top_p or None,
        stop=tuple(string for string in until if string and string != BLANK_LINE),
    )


def _read_samples(
    benchmark: Benchmark, data: Path, name: str, task: str, generation: GenerationSettings | None
) -> Iterator[Sample]:
    """Yield a sample for each document of one task, in their order."""
    loaded = benchmark.tasks[task]
    loaded.set_fewshot_seed(seed=1234)  # lmms-eval's default
    shots, cluster = loaded.config.num_fewshot or 0, loaded.config.cluster_key
    # `plain` is the document without its media, which texts and targets do not need.
    for number, (document, plain) in enumerate(
        zip(loaded.eval_docs, loaded.eval_docs_no_media, strict=True)
    ):
        sample = f"{task}/{number}"
        visuals = loaded.doc_to_visual(document) or []
        media = [
            medium(visual, DocumentImage(data, name, task, number, index))
            for index, visual in enumerate(visuals)
        ]
        paths = [visual for visual in visuals if isinstance(visual, str)]
        yield Sample(
            id=sample,
            query=Query(
                id=query_id(sample),
                text=loaded.fewshot_context(plain, shots),
                media=tuple(media),
                forms=(AnswerForm.TEXT,),
                generation=generation,
            ),
            target=Target(
                answer=Answer(text=str(loaded.doc_to_target(plain))),
                extra={"task": task, "document": number},
            ),
            group=_group(plain, cluster, paths),
        )


def _group(document: Mapping[str, Any], cluster_key: str, paths: Sequence[str]) -> str:
    """Return a sample's group: the task's cluster, else the name of its first file, else ""."""
    if cluster_key in document:
        return str(document[cluster_key])
    return Path(paths[0]).name if paths else ""


def _metrics(benchmark: Benchmark) -> Iterator[Metric]:
    """Yield the metrics of each task; in a group, then those that are means over its tasks."""
    parts: dict[str, list[tuple[str, int]]] = {}  # (name in harness, documents) of each task
    for task, loaded in benchmark.tasks.items():
        for metric, aggregation in _aggregations(loaded).items():
            name = benchmark.name_of(task, metric)
            parts.setdefault(metric, []).append((name, len(loaded.eval_docs)))
            is_lower_better = loaded.higher_is_better()[metric] is False
            corpus = None if _is_mean(aggregation) else Aggregation(name, aggregation)
            yield Metric(name, better="lower" if is_lower_better else "higher", corpus=corpus)
    if benchmark.group is None:
        return
    group_entries = benchmark.group and benchmark.group["aggregate_metric_list"]
    for metric, metrics_of_tasks in parts.items():
        # lmms-eval finds the entry by a part of the metric's name, and the last one counts.
        entries = [entry for entry in group_entries or () if entry["metric"] in metric]
        entry = entries[-1] if entries else None
        if entry is not None and entry["aggregation"] != "mean":
            raise UsageError(
                f"group {benchmark.group['group']} of lmms-eval, metric {metric}",
                expected="aggregation: mean over its tasks",
                found=f"the function {getattr(entry['aggregation'], '__name__', '')}",
                fix="Name its tasks one by one.",
            )
        is_weighted = entry is not None and entry["weight_by_size"]
        weights = np.array([size if is_weighted else 1 for _, size in metrics_of_tasks])
        yield Metric(
            metric,
            inputs=tuple(name for name, _ in metrics_of_tasks),
            derived=partial(_weighted_mean, weights),
            about=""
            if entry is not None
            else "plain mean of its tasks, which lmms-eval leaves out",
        )


def _weighted_mean(weights: NDArray[np.int64], *values: Any) -> Any:
    """Return the weighted mean of `values`: numbers, or arrays of one length over resamples."""
    return sum(map(np.multiply, values, weights)) / weights.sum()


def _aggregations(task: Any) -> dict[str, Callable[[list[Any]], float]]:
    """Return a task's aggregations by metric, without those that write files (parameter `args`)."""
    return {
        metric: aggregation
        for metric, aggregation in task.aggregation().items()
        if "args" not in inspect.signature(aggregation).parameters
    }


def _is_mean(aggregation: object) -> bool:
    from lmms_eval.api.registry import get_aggregation

    return aggregation is get_aggregation("mean")


def _text(prediction: Prediction, part: str) -> str:
    """Return the last response, or, for `part` "answer", the parsed answer if there is one."""
    answer = None if prediction.answer is None else prediction.answer.text
    if part == "answer" and answer is not None:
        return answer
    return prediction.responses[-1] if prediction.responses else answer or ""


def _score(benchmark: Benchmark, name: str, document: int, text: str) -> Scores:
    """Score a response as lmms-eval does: filters, reasoning tags, `process_results`."""
    from lmms_eval.api.instance import Instance
    from lmms_eval.api.reasoning import parse_reasoning_tags_config, strip_reasoning_tags

    task = benchmark.tasks[name]
    about = {"task": name, "doc_id": document, "repeats": 1}
    instance = Instance("generate_until", (text,), 0, about, resps=[text])
    task._filters[0].apply([instance], None)
    (response,) = instance.filtered_resps.values()
    tags = parse_reasoning_tags_config(REASONING_TAGS, task.config.reasoning_tags)
    if tags is not None and isinstance(response, str):
        response = strip_reasoning_tags(response, tags)
    row = dict(task.eval_docs_no_media[document])  # some tasks write into it
    aggregations = _aggregations(task)
    return {
        benchmark.name_of(name, metric): Mean(float(value))
        if _is_mean(aggregations[metric])
        else Corpus((_as_plain(metric, value),))
        for metric, value in task.process_results(row, [response]).items()
        if metric in aggregations
    }


def _as_plain(metric: str, value: object) -> object:
    """Return a value of `process_results` as plain JSON; raise DataError if that cannot hold it."""
    try:  # NumPy's scalars have `item`
        return json.loads(json.dumps(value, default=lambda number: number.item()))
    except (TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"metric {metric} of lmms-eval",
            expected="results that can be kept as JSON",
            found=f"{type(value).__name__}: {error}",
        ) from error
