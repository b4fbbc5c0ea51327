"""From samples to what a network is to learn: the request that evaluation makes, and its reply.

Nothing here words a prompt or scales a coordinate: requests come from the model's own
composition, replies from its own `write`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import HarnessError, ParseError, UsageError
from harness.model import ChatRequest
from harness.models.compose import LOCATED, PromptedModel
from harness.models.truth import taught
from harness.run.plan import samples_of
from harness.task import Task
from harness.trainers.sft.reasoning import about_objects, with_thought
from harness.trainers.sft.telling import Complete, as_written
from harness.types import AnswerForm, Sample, Target

Reasoning: TypeAlias = Literal["none", "short"]


@dataclass(frozen=True, slots=True)
class Example:
    """A request and the reply to learn."""

    task: str
    sample: str
    """The benchmark's own id."""
    request: ChatRequest
    reply: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A sample that cannot be learned from."""

    task: str
    sample: str
    why: str
    """A few words that are the same for all such samples."""
    detail: str = ""


def examples_of(
    model: PromptedModel, tasks: Sequence[Task], *, reasoning: Reasoning = "none",
    complete: Complete = as_written,
) -> Iterator[Example | Dropped]:  # fmt: skip
    """One example a form of answer of every sample, in the tasks' order.

    `complete` adds to each reply what its answer alone does not say.

    Raises:
        UsageError: the model cannot be asked what a task asks.
    """
    for task in tasks:
        for sample in samples_of(task):
            yield from _examples(model, task.name, sample, reasoning, complete)


def _examples(
    model: PromptedModel, task: str, sample: Sample, reasoning: Reasoning, complete: Complete
) -> Iterator[Example | Dropped]:
    target, query = sample.target, sample.query
    if target is None:
        yield Dropped(task, sample.id, "no target")
        return
    try:
        requests = model.requests(query)
        frames = {frame for request in requests for frame in _first(request)}
        replies = model.write(query, taught(target.answer, frames))
        pairs = [
            (
                request,
                complete(sample, request, _reply(model, request, form, reply, target, reasoning)),
            )
            for request, form, reply in zip(requests, query.forms, replies, strict=True)
        ]
    except UsageError:
        raise
    except HarnessError as error:
        why = "no reply says its answer" if isinstance(error, ParseError) else "unreadable"
        yield Dropped(task, sample.id, why, str(error))
        return
    if not all(reply.strip() for _, reply in pairs):
        yield Dropped(task, sample.id, "an empty answer")
        return
    for request, reply in pairs:
        yield Example(task, sample.id, request, reply)


def _first(request: ChatRequest) -> Sequence[int]:
    """The frames of the first picture or video that a request shows, which answers are about."""
    if request.frames:
        return request.frames[0]
    return range(len(request.media[0])) if request.media else ()


def _reply(
    model: PromptedModel, request: ChatRequest, form: AnswerForm, reply: str, target: Target,
    reasoning: Reasoning,
) -> str:  # fmt: skip
    if reasoning == "none":
        return reply
    rationale = target.extra.get("rationale")
    if isinstance(rationale, str) and rationale.strip():
        thought = rationale.strip()
    elif form in LOCATED:
        thousandths = model.chat.coordinates == "thousandths"
        canvas = (1000, 1000) if thousandths else model.chat.canvas(request)
        thought = about_objects(model.prompt.parse(reply).items, canvas)
    else:
        thought = ""
    return with_thought(reply, thought)
