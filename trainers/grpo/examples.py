"""From samples to prompts: the request that evaluation makes."""

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
    """A sample, its request, and the frame that the numbers of responses are in."""

    task: str
    sample: Sample
    request: ChatRequest
    canvas: tuple[int, int]

    @property
    def name(self) -> str:
        """Task and id of the sample."""
        return f"{self.task} {self.sample.id}"

    @property
    def frames(self) -> tuple[tuple[int, ...], ...]:
        """The frames that are shown, one tuple a medium."""
        return tuple(frames_shown(self.request, place) for place in range(len(self.request.media)))


def example_of(method: GrpoMethod, model: PromptedModel, task: str, sample: Sample) -> Example:
    """Return a sample as a prompt; the canvas is the one by which evaluation reads responses.

    Raises:
        HarnessError: there is no prompt of it, or no ground truth for the reward.
        UsageError: rewards would read places wrongly, or vLLM is to see a clip.
    """
    settings = method.settings
    if method.unlabelled:
        sample = replace(sample, target=None)  # it is not seen
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
    """Return what is learned from, and what is left out. Every prompt was encoded once.

    Raises:
        DataError: nothing is left.
        UsageError: as of `example_of`.
    """
    from harness.trainers.rows import encode_prompt  # with torch

    def length(example: Example) -> tuple[int, int, int]:
        prompt = int(encode_prompt(processor, example.request)["input_ids"].shape[1])
        return prompt + further, example.request.max_new_tokens, prompt

    further = 0 if method.second is None else method.second_tokens
    made, longest = make_examples(method, model, run), method.settings.max_prompt_length
    assert isinstance(model.chat, TransformersChat)  # `trainable` refuses others
    positions = saved_positions(model.chat.folder)
    return keep_usable(made, length, longest, positions, lambda one: (one.task, one.sample.id), run)


def make_examples(
    method: GrpoMethod, model: PromptedModel, run: TrainingRun
) -> Iterator[Example | SkippedSample]:
    """Yield `example_of` every sample, or why there is none; nothing is encoded."""
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
    """Raise UsageError if a request shows a clip that TRL is to hand on.

    `what` begins with the setting, as `NAME=…`, and names the request.
    """
    longest = max((len(frames_shown(request, at)) for at in range(len(request.media))), default=0)
    if longest > 1:
        raise UsageError(
            what,
            expected="single images, since TRL hands on no videos",
            found=f"a clip of {longest} frames",
            fix=f"Leave {what.partition('=')[0]} out: our loop shows them to transformers.",
        )
