"""Make SFT examples of samples: the request of evaluation, and the perfect response to it.

The model builds both: requests as in evaluation, responses by its `write` from the ground truth. A
model that searches for frames before its request builds the requests of a training itself
(`AsksInTraining`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from harness.chat import ChatRequest
from harness.errors import HarnessError, ParseError, UsageError
from harness.models.pipeline import PromptedModel
from harness.models.prompted_requests import LOCATED
from harness.models.response_writer import training_answer
from harness.run.batching import samples_of
from harness.task import Task
from harness.trainers.sample_checks import SkippedSample
from harness.trainers.sft.descriptions import Complete, as_written
from harness.trainers.sft.reasoning import about_objects, with_thought
from harness.types import Answer, AnswerForm, Query, Sample, Target

Reasoning: TypeAlias = Literal["none", "short"]


@dataclass(frozen=True, slots=True)
class Example:
    """A request and the response to learn."""

    task: str
    sample: str
    """The benchmark's own id."""
    request: ChatRequest
    response: str


@runtime_checkable
class AsksInTraining(Protocol):
    """A model whose evaluation searches for frames; in training they are drawn at random."""

    def training_requests(
        self, query: Query, answer: Answer, *, seed: int
    ) -> tuple[ChatRequest, ...]:
        """Return the requests of a training, one for each form of answer, equal for equal seed and
        query.
        """

    def training_responses(
        self, query: Query, answer: Answer, requests: Sequence[ChatRequest]
    ) -> tuple[str, ...]:
        """Return the responses for `answer` to these requests."""


def examples_of(
    model: PromptedModel,
    tasks: Sequence[Task],
    *,
    reasoning: Reasoning = "none",
    seed: int = 0,
    complete: Complete = as_written,
) -> Iterator[Example | SkippedSample]:
    """Yield one example for each form of answer of each sample, or why the sample is skipped.

    Args:
        model: Builds requests and responses.
        tasks: The samples, in this order.
        reasoning: `short`: write a reasoning into the responses.
        seed: Seed of the frames that are drawn in place of a model's search.
        complete: Adds further texts to a response.

    Raises:
        UsageError: the model does not give the forms of answer of a task.
    """
    for task in tasks:
        for sample in samples_of(task):
            yield from _examples(model, task.name, sample, reasoning, seed, complete)


def _examples(
    model: PromptedModel,
    task: str,
    sample: Sample,
    reasoning: Reasoning,
    seed: int,
    complete: Complete,
) -> Iterator[Example | SkippedSample]:
    """Yield the examples of one sample, or the one reason why there are none."""
    target, query = sample.target, sample.query
    if target is None:
        yield SkippedSample(task, sample.id, "no target")
        return
    try:
        requests, responses = _prompt_and_response(model, query, target.answer, seed)
        pairs = []
        for request, form, response in zip(requests, query.forms, responses, strict=True):
            reasoned = _response(model, request, form, response, target, reasoning)
            pairs.append((request, complete(sample, request, reasoned)))
    except UsageError:
        raise
    except HarnessError as error:
        why = "no response says its answer" if isinstance(error, ParseError) else "unreadable"
        yield SkippedSample(task, sample.id, why, str(error))
        return
    if not all(response.strip() for _, response in pairs):
        yield SkippedSample(task, sample.id, "an empty answer")
        return
    for request, response in pairs:
        yield Example(task, sample.id, request, response)


def _prompt_and_response(
    model: PromptedModel, query: Query, answer: Answer, seed: int
) -> tuple[tuple[ChatRequest, ...], tuple[str, ...]]:
    """Return the requests of a query, and the responses for `answer` without specks of its masks.

    Both have one entry for each form of answer.
    """
    searching = model if isinstance(model, AsksInTraining) else None
    if searching:
        requests = searching.training_requests(query, answer, seed=seed)
    else:
        requests = model.requests(query)
    frames = {frame for request in requests for frame in _first_frames(request)}
    answer = training_answer(answer, frames)
    if searching:
        return requests, searching.training_responses(query, answer, requests)
    return requests, model.write(query, answer)


def _first_frames(request: ChatRequest) -> Sequence[int]:
    """Return the frames that are shown of the first image or video, which answers are about."""
    if request.frames:
        return request.frames[0]
    return range(len(request.media[0])) if request.media else ()


def _response(
    model: PromptedModel,
    request: ChatRequest,
    form: AnswerForm,
    response: str,
    target: Target,
    reasoning: Reasoning,
) -> str:
    """Return a response with its reasoning: the target's rationale, or places of its objects."""
    if reasoning == "none":
        return response
    rationale = target.extra.get("rationale")
    if isinstance(rationale, str) and rationale.strip():
        thought = rationale.strip()
    elif form in LOCATED:
        canvas = model.canvas(request)
        items = [canvas.x_first(item) for item in model.prompt.parse(response).items]
        thought = about_objects(items, canvas.extent)
    else:
        thought = ""
    return with_thought(response, thought)
