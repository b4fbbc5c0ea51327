"""Put the options of questions in another order, and compare answers by their option."""

import re
from dataclasses import replace
from string import ascii_uppercase

import numpy as np

from harness.task import Task
from harness.types import Prediction, Sample

LISTED = re.compile(r"(?m)^\s*\(?A[.):]\s")
"""Matches the first line of a list of options in a question's text."""


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
    if target is None or letter is None or number < 2 or LISTED.search(query.text):
        return sample
    seed = int(query.id[:8], 16) if set(query.id[:8]) <= set("0123456789abcdef") else 0
    turn = int(np.random.default_rng(seed).integers(1, number))
    place = ascii_uppercase.index(letter)
    options = tuple(query.options[(index + turn) % number] for index in range(number))
    shuffled_letter = ascii_uppercase[(place - turn) % number]
    extra = target.extra
    if extra.get("letter") == letter:  # the scorers of questions compare with this one
        extra = {**extra, "letter": shuffled_letter}
    target = replace(target, answer=replace(target.answer, choice=shuffled_letter), extra=extra)
    return replace(sample, query=replace(query, options=options), target=target)


def is_same_option(
    original: Sample, shuffled: Sample, before: Prediction, after: Prediction
) -> bool | None:
    """Return True if two answers are the same option; None if neither answer is an option."""
    options = [
        sample.query.options[place]
        if said.answer is not None
        and (place := ascii_uppercase.find(said.answer.choice or " "))
        in range(len(original.query.options))
        else None
        for sample, said in ((original, before), (shuffled, after))
    ]
    return None if options == [None, None] else options[0] == options[1]
