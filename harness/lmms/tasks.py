"""Functions that lmms-eval calls for tasks in a folder of `harness lmms export`.

The folder's `utils.py` calls the functions at the end of the module. The pipeline is a model of
harness: it turns a document into a request (text and images), which lmms-eval's model answers, and
reads and segments the response, which is scored as by `harness score`.
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
from harness.run.sample_cache import read_once
from harness.run.scoring import score_unit
from harness.run.survey import survey
from harness.scores import Mean
from harness.spec import parse
from harness.summary import values
from harness.task import Task
from harness.types import AnswerForm, Prediction, Sample

Document: TypeAlias = Mapping[str, Any]
Item: TypeAlias = dict[str, Any]
"""A response and its sample, which lmms-eval passes from `process_results` to `aggregate`."""

CLIP_FOLDERS = ExitStack()
"""Temporary folders of video files, which are removed when the process ends."""
atexit.register(CLIP_FOLDERS.close)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExportedTask:
    """One exported task: its samples, and the pipeline that makes requests and reads responses."""

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
        """Return the sample's values of metrics that are means over samples of weight 1.

        It is empty for a sample of several forms or of a larger unit: one response is not all.
        """
        if len(sample.query.forms) > 1 or sample.unit != sample.id:
            return {}
        unit = score_unit(self.task, [sample], [self.read(sample.id, (response,))])
        return {
            name: mean.value
            for name, mean in unit.scores.items()
            if isinstance(mean, Mean) and mean.weight == 1
        }

    @lru_cache(maxsize=4)  # noqa: B019 - called for every metric with the same responses
    def numbers(self, triples: tuple[tuple[str, str, str], ...]) -> dict[str, float | None]:
        """Return every metric over triples (id of the sample, form, response).

        Units with only a part of their responses, as `--limit` cuts them, are left out with a
        warning.
        """
        responses = {(name, form): response for name, form, response in triples}
        scores, n_incomplete = [], 0
        for unit in units(iter(self.samples.values())):
            keys_by_sample = [[(sample.id, form) for form in sample.query.forms] for sample in unit]
            has_response = [key in responses for keys in keys_by_sample for key in keys]
            if all(has_response):
                predictions = [
                    self.read(sample.id, tuple(responses[key] for key in keys))
                    for sample, keys in zip(unit, keys_by_sample, strict=True)
                ]
                scores.append(score_unit(self.task, unit, predictions))
            elif any(has_response):
                n_incomplete += 1
        if n_incomplete:
            warnings.warn(
                f"{self.name}: {counted(n_incomplete, 'unit')} without all responses left out",
                stacklevel=2,
            )
        return values(self.task, scores)


@cache
def exported_task(folder: Path, name: str) -> ExportedTask:
    """Open an exported task.

    Raises:
        DataError: the data are not those of the export, or the YAML lacks the export's record.
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
        path_of=CLIP_FOLDERS.enter_context(clip_files()) if recorded["clips"] == "file" else None,
        lock=Lock(),
    )


def doc_to_text(folder: Path, doc: Document) -> str:
    """Return the text of the request."""
    return exported_task(folder, doc["task"]).request(doc).text


def doc_to_visual(folder: Path, doc: Document) -> list[Image.Image | str]:
    """Return the images of the request, for lmms-eval's older (simple) models.

    Raises:
        UsageError: the pipeline has a system message, which these models do not receive.
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
    """Return an item for each metric, with the sample's own number as "score" if it has one."""
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
    """Return the value of the items' metric over all their responses; NaN if it has none."""
    first = items[0]
    triples = tuple((item["id"], item["form"], item["response"]) for item in items)
    number = exported_task(folder, first["task"]).numbers(triples)[first["metric"]]
    return math.nan if number is None else number
