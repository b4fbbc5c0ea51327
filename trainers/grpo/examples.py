"""Turn samples into `Example`s: the request of evaluation, and the canvas of its responses.

`prepare_examples` does so for all samples of a training, and leaves out those without a ground
truth or with a prompt that is too long.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.chat import ChatRequest
from harness.errors import DataError, HarnessError, UsageError
from harness.models.backends.positions import saved_positions
from harness.models.backends.shown_media import frames_shown
from harness.models.backends.transformers import TransformersChat
from harness.models.pipeline import PromptedModel
from harness.models.prompted_requests import LOCATED
from harness.run.batching import samples_of
from harness.trainer import TrainingRun
from harness.trainers.grpo.method import GrpoMethod
from harness.trainers.sample_checks import SkippedSample, keep_usable
from harness.types import Sample

if TYPE_CHECKING:
    from transformers import ProcessorMixin


@dataclass(frozen=True, slots=True)
class Example:
    """A sample with its request."""

    task: str
    """Name of the sample's task."""
    sample: Sample
    request: ChatRequest
    canvas: tuple[int, int]
    """(width, height) of the coordinate frame of responses; see `Group`. (0, 0): no media."""

    @property
    def name(self) -> str:
        """Task and id of the sample."""
        return f"{self.task} {self.sample.id}"

    @property
    def frames(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the frames that are shown, one tuple a medium."""
        media = range(len(self.request.media))
        return tuple(frames_shown(self.request, medium) for medium in media)


def example_of(method: GrpoMethod, model: PromptedModel, task: str, sample: Sample) -> Example:
    """Return a sample with its request, and with the canvas by which evaluation reads responses.

    Raises:
        HarnessError: the model cannot ask about this sample, or it lacks the ground truth of the
            reward.
        UsageError: the model writes y before x, or TRL is to see a clip.
    """
    settings = method.settings
    if method.unlabelled:
        sample = replace(sample, target=None)  # hides the ground truth from the reward
    elif sample.target is None:
        raise DataError(f"sample {sample.id}", expected="a target", found="none")
    else:
        method.usable(sample)
    request = replace(method.request(model, sample), max_new_tokens=settings.max_completion_length)
    if settings.images_only is not None:
        refuse_clips(request, f"{settings.images_only}, sample {sample.id} of {task}")
    if not request.media:
        return Example(task, sample, request, (0, 0))
    canvas = model.canvas(request)
    if canvas.y_first and sample.query.form in LOCATED:
        raise UsageError(
            f"coordinates={model.meaning}",
            expected="x before y, which rewards read",
            found="y before x",
        )
    return Example(task, sample, request, canvas.extent)


def prepare_examples(
    method: GrpoMethod, model: PromptedModel, processor: "ProcessorMixin", run: TrainingRun
) -> tuple[list[Example], list[SkippedSample]]:
    """Return the examples to learn from, and the samples that are left out.

    Every prompt is encoded once here, to know its length.

    Raises:
        DataError: no example is left.
        UsageError: as in `example_of`.
    """
    from harness.trainers.rows import encode_prompt  # with torch

    second_tokens = 0 if method.second is None else method.second_tokens

    def length(example: Example) -> tuple[int, int, int]:
        """Return the tokens of the longest prompt of a rollout, of a response, and of `request`."""
        prompt = int(encode_prompt(processor, example.request)["input_ids"].shape[1])
        return prompt + second_tokens, example.request.max_new_tokens, prompt

    def name(example: Example) -> tuple[str, str]:
        return example.task, example.sample.id

    examples, longest = make_examples(method, model, run), method.settings.max_prompt_length
    assert isinstance(model.chat, TransformersChat)  # `trainable` refuses others
    positions = saved_positions(model.chat.folder)
    return keep_usable(examples, length, longest, positions, name, run)


def make_examples(
    method: GrpoMethod, model: PromptedModel, run: TrainingRun
) -> Iterator[Example | SkippedSample]:
    """Yield the example of every sample, or why the sample is left out; nothing is encoded."""
    for task in run.tasks:
        for sample in samples_of(task):
            try:
                yield example_of(method, model, task.name, sample)
            except UsageError:
                raise
            except HarnessError as error:
                yield SkippedSample(
                    task.name, sample.id, "no prompt or no ground truth", str(error)
                )


def refuse_clips(request: ChatRequest, what: str) -> None:
    """Raise UsageError if a request shows several frames of a medium, which TRL cannot pass on.

    `what` names setting and request, such as `engine=trl, sample 7 of mevis`.
    """
    media = range(len(request.media))
    longest = max((len(frames_shown(request, medium)) for medium in media), default=0)
    if longest > 1:
        raise UsageError(
            what,
            expected="single images, because TRL passes on no videos",
            found=f"a clip of {longest} frames",
            fix=f"Leave {what.partition('=')[0]} out: our loop shows them to transformers.",
        )
