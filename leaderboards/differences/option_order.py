"""Options of a question in another order, and whether two answers are the same option."""

import re
from dataclasses import replace
from string import ascii_uppercase

import numpy as np

from harness.task import Task
from harness.types import Prediction, Sample

LISTED = re.compile(r"(?m)^\s*\(?A[.):]\s")
"""A line of a question's text that begins a list of its options."""


def shuffled_options(task: Task) -> Task:
    """Return a task whose options are in another order, the right letter in another place.

    The order depends on the sample's id alone. Questions without options, or whose text names
    their options itself, stay as they are.
    """
    return replace(task, samples=lambda: map(shuffled_sample, task.samples()))


def shuffled_sample(sample: Sample) -> Sample:
    """Return a sample with its options in another order; the sample itself if none can be had."""
    query, target = sample.query, sample.target
    letter = None if target is None else target.answer.choice
    number = len(query.options)
    if target is None or letter is None or number < 2 or LISTED.search(query.text):
        return sample
    seed = int(query.id[:8], 16) if set(query.id[:8]) <= set("0123456789abcdef") else 0
    turn = int(np.random.default_rng(seed).integers(1, number))
    place = ascii_uppercase.index(letter)
    options = tuple(query.options[(index + turn) % number] for index in range(number))
    turned = ascii_uppercase[(place - turn) % number]
    extra = target.extra
    if extra.get("letter") == letter:  # the scorers of questions compare with this one
        extra = {**extra, "letter": turned}
    target = replace(target, answer=replace(target.answer, choice=turned), extra=extra)
    return replace(sample, query=replace(query, options=options), target=target)


def is_same_option(
    original: Sample, shuffled: Sample, before: Prediction, after: Prediction
) -> bool | None:
    """Return whether two answers to a question are the same option; None: neither is one."""
    chosen = [
        sample.query.options[place]
        if said.answer is not None
        and (place := ascii_uppercase.find(said.answer.choice or " "))
        in range(len(original.query.options))
        else None
        for sample, said in ((original, before), (shuffled, after))
    ]
    return None if chosen == [None, None] else chosen[0] == chosen[1]
