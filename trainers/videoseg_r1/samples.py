"""Requests of a sample in training, the set that it belongs to, and its key."""

import hashlib
import re
from dataclasses import dataclass, replace

from harness.chat import ChatRequest
from harness.errors import DataError
from harness.models.pipeline import PromptedModel
from harness.models.videoseg_r1.drawing import Drawing, visible
from harness.models.videoseg_r1.model import VideoSegR1
from harness.task import Task
from harness.trainers.grpo.method import request_of
from harness.trainers.visionreasoner.objects import check
from harness.types import Sample

SET = "set"
"""Category that names a sample's set."""
AGAIN = re.compile(r"#\d+\Z")
"""Suffix of the id of an expression that is repeated in a mixture."""


def of_set(task: Task) -> Task:
    """Return the task whose samples name their set: a mixture's part, else the task."""
    named = {SET: task.name}
    return replace(
        task,
        samples=lambda: (
            replace(sample, categories=named | dict(sample.categories)) for sample in task.samples()
        ),
    )


def key_of(sample: Sample, frame: int = 0) -> str:
    """Return the key of a request, for files and lookups: its set, native id, question and frame.

    All of it hashed. An expression has one name in its own set and in a mixture, whose ids are
    `set/id`, and also where it comes again (`set/id#2`), as far as it is asked of the same frame of
    its video. Samples must be of an `of_set` task.
    """
    whole, native = sample.categories.get(SET, ""), sample.id
    if whole and native.startswith(f"{whole}/"):
        native = AGAIN.sub("", native.removeprefix(f"{whole}/"))
    text = f"{whole}\x00{native}\x00{sample.query.text}\x00{frame}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def check_sample(sample: Sample) -> None:
    """Raise a HarnessError for a sample whose reward has no ground truth.

    Raises:
        ParseError: the answer names no places.
        DataError: no frame shows a target.
    """
    check(sample)
    assert sample.target is not None, "`check` has looked"
    if not visible(sample.query, sample.target.answer):
        raise DataError(
            f"sample {sample.id}", expected="a frame that shows the target", found="none"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequests:
    """Requests of a sample in training: the reasoner's, for a place that is drawn."""

    drawing: Drawing

    def frame(self, sample: Sample) -> int:
        """The frame that is marked: the one that difficulty is rated of; 0 of an image."""
        assert sample.target is not None, "samples without targets are left out"
        if len(sample.query.media[0]) == 1:
            return 0
        return self.drawing.draw(sample.query, sample.target.answer)[0].target

    def __call__(self, model: PromptedModel, sample: Sample) -> ChatRequest:
        """The request; that for an image is the one that evaluation makes."""
        assert isinstance(model, VideoSegR1), "the trainer has made it one"
        assert sample.target is not None, "samples without targets are left out"
        request_of(model, sample)  # refuses what has several forms of answer
        (request,) = model.drawn_requests(sample.query, sample.target.answer, self.drawing)
        return request
