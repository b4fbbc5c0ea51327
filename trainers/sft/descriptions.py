"""Reasoning and descriptions beside the answer of a perfect response.

Where a benchmark has no reasoning, a plugin of the group `harness.text_sources` can supply it: a
function of task and sample that returns `rationale`, `description`, or neither. A grammar with a
place for a description leaves it empty, since an answer holds no name of its objects.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from harness import plugins
from harness.chat import ChatRequest
from harness.errors import ParseError
from harness.task import Task
from harness.trainers.sample_checks import with_extra
from harness.types import Sample

DATASET = "dataset"
"""The text source of what the benchmark's own targets hold."""
Complete: TypeAlias = Callable[[Sample, ChatRequest, str], str]
"""Function that completes the response to a sample's request beyond the answer."""

DESCRIPTION = "description"
EMPTY = {tag: f"<{tag}></{tag}>" for tag in ("description", "target_desc")}


def as_written(sample: Sample, request: ChatRequest, response: str) -> str:
    """The response as it was."""
    del sample, request
    return response


def fill_description(sample: Sample, request: ChatRequest, response: str) -> str:
    """The response with its empty description filled: by the target's own, else by the question.

    Raises:
        ParseError: the model's grammar has no description, or the text holds a tag.
    """
    del request
    tag = next((tag for tag, empty in EMPTY.items() if empty in response), None)
    if tag is None:
        raise ParseError(
            "response to complete", expected=" or ".join(EMPTY.values()), found=response[:60]
        )
    own = sample.target.extra.get(DESCRIPTION) if sample.target is not None else None
    output = own if isinstance(own, str) and own.strip() else sample.query.text
    if "<" in output:
        raise ParseError("description to write", expected="no tag", found=output[:60])
    return response.replace(EMPTY[tag], f"<{tag}>{output.strip()}</{tag}>", 1)


def with_descriptions(source: str, task: Task) -> Task:
    """Add reasoning and descriptions to the `extra` of a task's targets, where they lack them.

    Raises:
        UnknownPlugin: no text source of this name is installed.
    """
    if source == DATASET:
        return task
    texts = plugins.load("text_sources", source)

    def described(sample: Sample) -> Sample:
        return sample if sample.target is None else with_extra(sample, texts(task, sample))

    return replace(task, samples=lambda: map(described, task.samples()))
