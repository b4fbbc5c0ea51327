"""Put the options of questions in another order, and compare answers by their option."""

import re
from dataclasses import replace
from string import ascii_uppercase

import numpy as np

from harness.task import Task
from harness.types import Prediction, Sample

OPTION_A = re.compile(r"(?m)^\s*\(?A[.):]\s")
"""First line of a list of options in a question's text: `A. `, `(A) ` or `A: `."""


def shuffled_options(task: Task) -> Task:
    """Return a task with the options in another order and the correct letters changed to match.

    The order depends only on the sample's id. Questions without options, or with a list of options
    in their text, stay as they are.
    """
    return replace(task, samples=lambda: map(shuffled_sample, task.samples()))


def shuffled_sample(sample: Sample) -> Sample:
    """Return a sample with its options in another order, or the unchanged sample."""
    query, target = sample.query, sample.target
    letter = None if target is None else target.answer.choice
    number = len(query.options)
    if target is None or letter is None or number < 2 or OPTION_A.search(query.text):
        return sample
    # Ids of loaded samples are hashes; an id of another form gets seed 0.
    seed = int(query.id[:8], 16) if set(query.id[:8]) <= set("0123456789abcdef") else 0
    shift = int(np.random.default_rng(seed).integers(1, number))
    true_index = ascii_uppercase.index(letter)
    options = tuple(query.options[(index + shift) % number] for index in range(number))
    shuffled_letter = ascii_uppercase[(true_index - shift) % number]
    extra = target.extra
    if extra.get("letter") == letter:  # scorers of multiple-choice questions read this letter
        extra = {**extra, "letter": shuffled_letter}
    target = replace(target, answer=replace(target.answer, choice=shuffled_letter), extra=extra)
    return replace(sample, query=replace(query, options=options), target=target)


def is_same_option(
    original: Sample, shuffled: Sample, before: Prediction, after: Prediction
) -> bool | None:
    """Return True if two answers are the same option; None if neither answer is an option."""
    old_option, new_option = _chosen_option(original, before), _chosen_option(shuffled, after)
    if old_option is None and new_option is None:
        return None
    return old_option == new_option


def _chosen_option(sample: Sample, prediction: Prediction) -> str | None:
    """Return the text of the option whose letter was predicted; None if it is not an option."""
    if prediction.answer is None or not prediction.answer.choice:
        return None
    index = ascii_uppercase.find(prediction.answer.choice)
    return sample.query.options[index] if 0 <= index < len(sample.query.options) else None
