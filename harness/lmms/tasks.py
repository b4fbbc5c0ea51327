"""lmms-eval's functions for a folder of `harness lmms export`; its `utils.py` hands them on.

The text and images of a document are a request of the pipeline: a model's SPEC, in which
lmms-eval's model takes the network's place. Responses are read, segmented and scored as
`harness score` does.
"""

import atexit
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from PIL import Image

from harness.chat import ChatRequest
from harness.errors import DataError, UsageError, counted
from harness.lmms.export import load_pipeline, read_metadata
from harness.models.backends.clip_files import ClipPath, clip_files
from harness.models.backends.lmms import frame_images, messages
from harness.models.pipeline import PromptedModel
from harness.plugins import build
from harness.run.batching import samples_of, select, units
from harness.run.preflight import read_once, survey
from harness.run.scoring import score_unit
from harness.scores import Mean
from harness.spec import parse
from harness.summary import values
from harness.task import Task
from harness.types import AnswerForm, Prediction, Sample

Document: TypeAlias = Mapping[str, Any]
Item: TypeAlias = dict[str, Any]
"""A response and its sample, as lmms-eval hands them from `process_results` to `aggregate`."""

STACK = ExitStack()
"""Folders of clips, which are removed when the process ends."""
atexit.register(STACK.close)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExportedTask:
    """One exported task: its samples, and the pipeline that asks and reads."""

    name: str
    task: Task
    pipeline: PromptedModel
    path_of: ClipPath | None
    """Writes several frames of a medium as a video file; None: they are shown as images."""
    lock: Lock
    """Segmenters are used by one thread at a time."""

    @cached_property
    def samples(self) -> dict[str, Sample]:
        """Samples by their official ids, in the task's order."""
        return {sample.id: sample for sample in samples_of(self.task)}

    def request(self, document: Document) -> ChatRequest:
        """Return the request for one form of a sample's answer."""
        query = self.samples[document["id"]].query
        return self.pipeline.requests(query)[query.forms.index(AnswerForm(document["form"]))]

    @cache  # noqa: B019 - a task lives as long as lmms-eval's process
    def read(self, sample: str, responses: tuple[str, ...]) -> Prediction:
        """Read and segment a sample's responses, one a form of its answer."""
        with self.lock:
            return self.pipeline.read(self.samples[sample].query, responses)

    def means(self, sample: Sample, response: str) -> dict[str, float]:
        """Return the numbers of a sample that metrics average, each counted once."""
        if len(sample.query.forms) > 1 or sample.unit != sample.id:
            return {}
        unit = score_unit(self.task, [sample], [self.read(sample.id, (response,))])
        return {
            name: mean.value
            for name, mean in unit.scores.items()
            if isinstance(mean, Mean) and mean.weight == 1
        }

    @lru_cache(maxsize=4)  # noqa: B019 - called for every metric with the same responses
    def numbers(self, given: tuple[tuple[str, str, str], ...]) -> dict[str, float | None]:
        """Return every metric over (id, form, response).

        Units of which some responses are lacking, as `--limit` may cut them, are left out.
        """
        responses = {(name, form): response for name, form, response in given}
        done, cut = [], 0
        for unit in units(iter(self.samples.values())):
            keys = [[(sample.id, form) for form in sample.query.forms] for sample in unit]
            there = {key in responses for several in keys for key in several}
            if there == {True}:
                read = [
                    self.read(several[0][0], tuple(responses[key] for key in several))
                    for several in keys
                ]
                done.append(score_unit(self.task, unit, read))
            cut += len(there) > 1
        if cut:
            warnings.warn(
                f"{self.name}: {counted(cut, 'unit')} without all responses left out", stacklevel=2
            )
        return values(self.task, done)


@cache
def exported_task(folder: Path, name: str) -> ExportedTask:
    """Open an exported task.

    Raises:
        DataError: the benchmark is not what was exported, or the YAML lacks what the export wrote.
    """
    recorded = read_metadata(folder / f"{name}.yaml")
    task = read_once(build("tasks", parse(recorded["task"]), Path(recorded["data"])))
    fingerprint = survey(task, select(task, None)).fingerprint
    if fingerprint != recorded["fingerprint"]:
        raise DataError(
            f"{recorded['task']} below {recorded['data']}",
            expected=f"the data that {name} was exported from",
            found="other data",
            fix="Export it again.",
        )
    return ExportedTask(
        name=name,
        task=task,
        pipeline=load_pipeline(recorded["pipeline"]),
        path_of=STACK.enter_context(clip_files()) if recorded["clips"] == "file" else None,
        lock=Lock(),
    )


def doc_to_text(folder: Path, doc: Document) -> str:
    """Return the text of the request."""
    return exported_task(folder, doc["task"]).request(doc).text


def doc_to_visual(folder: Path, doc: Document) -> list[Image.Image | str]:
    """Return the images of the request, for lmms-eval's older (simple) models.

    Raises:
        UsageError: the pipeline has a system message, which these models are not given.
    """
    task = exported_task(folder, doc["task"])
    request = task.request(doc)
    if request.system is not None:
        raise UsageError(
            f"{task.name}: a system message",
            expected="a chat model of lmms-eval",
            found="a simple one",
            fix="Export with a pipeline without system=…, or leave out --force_simple.",
        )
    return frame_images(task.path_of, request)


def doc_to_messages(folder: Path, doc: Document) -> list[dict[str, object]]:
    """Return the request as messages, for lmms-eval's chat models."""
    task = exported_task(folder, doc["task"])
    request = task.request(doc)
    return messages(frame_images(task.path_of, request), request.text, request.system)


def process_results(folder: Path, doc: Document, results: Sequence[str]) -> dict[str, Item]:
    """Return an item for each metric; "score" is the sample's own number where one is averaged."""
    task = exported_task(folder, doc["task"])
    sample, response = task.samples[doc["id"]], results[0]
    item = {"task": task.name, "id": sample.id, "form": doc["form"], "group": sample.group}
    item["response"] = response
    means = task.means(sample, response)
    return {
        metric.name: {
            **item,
            "metric": metric.name,
            **({"score": means[metric.name]} if metric.name in means else {}),
        }
        for metric in task.task.protocol.metrics
    }


def aggregate(folder: Path, items: Sequence[Item]) -> float:
    """Return the metric of the items over all responses; NaN where nothing counts."""
    first = items[0]
    given = tuple((item["id"], item["form"], item["response"]) for item in items)
    number = exported_task(folder, first["task"]).numbers(given)[first["metric"]]
    return math.nan if number is None else number
