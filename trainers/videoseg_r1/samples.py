"""The frame, the request and the key of a sample in VideoSeg-R1's training.

`key_of` names a sample in the file of difficulty ratings; `TrainingRequests` draws the frame that
is to be marked, and builds the request about it.
"""

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
"""Name of the category that holds the name of a sample's data set."""
REPEAT_SUFFIX = re.compile(r"#\d+\Z")
"""Suffix, such as `#2`, of the id of an expression that is repeated in a mixture."""


def of_set(task: Task) -> Task:
    """Return the task with samples that name their data set (`SET`).

    The data set is the part of a mixture that the sample comes from, or else the task itself.
    """

    def named(sample: Sample) -> Sample:
        # The part of a mixture has named itself already.
        return replace(sample, categories={SET: task.name, **dict(sample.categories)})

    return replace(task, samples=lambda: map(named, task.samples()))


def key_of(sample: Sample, frame: int = 0) -> str:
    """Return the key of a rated sample: a hash of its data set, native id, question and frame.

    An expression has the same key in its own data set, in a mixture (`set/id`), and repeated in a
    mixture (`set/id#2`). Samples must be of an `of_set` task.
    """
    dataset, native = sample.categories.get(SET, ""), sample.id
    if dataset and native.startswith(f"{dataset}/"):
        native = REPEAT_SUFFIX.sub("", native.removeprefix(f"{dataset}/"))
    text = f"{dataset}\x00{native}\x00{sample.query.text}\x00{frame}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def check_sample(sample: Sample) -> None:
    """Check that a sample has the ground truth of the reward.

    Raises:
        ParseError: the answer has neither masks nor boxes.
        DataError: no frame shows a target.
    """
    check(sample)
    assert sample.target is not None, "`check` refuses a sample without one"
    if not visible(sample.query, sample.target.answer):
        raise DataError(
            f"sample {sample.id}", expected="a frame that shows the target", found="none"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequests:
    """Builds the reasoner's request in training, for frames that are drawn at random."""

    drawing: Drawing

    def frame(self, sample: Sample) -> int:
        """Return the target frame, which is marked, and rated for its difficulty; 0: an image."""
        assert sample.target is not None, "samples without targets are left out"
        if len(sample.query.media[0]) == 1:
            return 0
        return self.drawing.draw(sample.query, sample.target.answer)[0].target

    def __call__(self, model: PromptedModel, sample: Sample) -> ChatRequest:
        """Return the request of a sample; for an image it is evaluation's."""
        assert isinstance(model, VideoSegR1), "`as_videoseg` has made it one"
        assert sample.target is not None, "samples without targets are left out"
        request_of(model, sample)  # refuses samples with several forms of answer
        (request,) = model.drawn_requests(sample.query, sample.target.answer, self.drawing)
        return request
