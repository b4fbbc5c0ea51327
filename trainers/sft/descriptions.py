"""Texts of perfect responses beyond the answer: reasoning and descriptions of objects.

They come from a sample's target (`extra`), or from a plugin of the group `harness.text_sources`: a
function of task and sample that returns a dict with `rationale`, `description`, both or neither.
`SftLearner`'s examples are completed by the functions here.
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
"""Name of the text source that adds nothing: the benchmark's own targets have the texts."""
Complete: TypeAlias = Callable[[Sample, ChatRequest, str], str]
"""Function (sample, request, response) that returns the response with further texts."""

DESCRIPTION = "description"
EMPTY = {tag: f"<{tag}></{tag}>" for tag in ("description", "target_desc")}
"""Empty descriptions of the two grammars that have one; an answer alone cannot fill them."""


def as_written(sample: Sample, request: ChatRequest, response: str) -> str:
    """Return the response unchanged."""
    del sample, request
    return response


def fill_description(sample: Sample, request: ChatRequest, response: str) -> str:
    """Fill the empty description of a response with the target's own, or else the question.

    Raises:
        ParseError: the model's grammar has no description, or the text holds a tag.
    """
    del request
    tags = [tag for tag, empty in EMPTY.items() if empty in response]
    if not tags:
        raise ParseError(
            "response to complete", expected=" or ".join(EMPTY.values()), found=response[:60]
        )
    description = sample.target.extra.get(DESCRIPTION) if sample.target is not None else None
    has_text = isinstance(description, str) and description.strip()
    text = str(description) if has_text else sample.query.text
    if "<" in text:
        raise ParseError("description to write", expected="no tag", found=text[:60])
    tag = tags[0]
    return response.replace(EMPTY[tag], f"<{tag}>{text.strip()}</{tag}>", 1)


def with_descriptions(source: str, task: Task) -> Task:
    """Return the task with a source's texts in the `extra` of its targets; existing texts stay.

    Raises:
        UnknownPlugin: no text source of this name is installed.
    """
    if source == DATASET:
        return task
    text_source = plugins.load("text_sources", source)

    def described(sample: Sample) -> Sample:
        return sample if sample.target is None else with_extra(sample, text_source(task, sample))

    return replace(task, samples=lambda: map(described, task.samples()))
