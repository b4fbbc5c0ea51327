"""Scores of Video-MMMU's questions, as lmms-eval reads letters and free answers."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.metrics.averages import Numbers
from harness.metrics.letter_readers import mcq_choice
from harness.responses import MAX_TEXT
from harness.scores import Metric, Ratio, Scores
from harness.task import ground_truth, official_and_strict, single_answer
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.options import stated_letter, strict_accuracy
from harness.types import Prediction, Sample

TRACKS = ("perception", "comprehension", "adaptation")
KEYS = (
    *("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ", "are "),
    *("in total ", "total ", "identify ", "recognize ", "calculated as ", "counted as "),
    *("measured as ", "observed as ", "concluded as ", "found to be ", "equals "),
    *("determined to be ", "number of ", "value is ", "adds up to ", "have ", "has "),
)
"""Words before what a line says."""
NUMBERS = (
    r"-?\b\d{1,3}(?:,\d{3})+\b",
    r"-?\d+(?:\.\d+)?[eE][+-]?\d+",
    r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])",
)

MARKS = frozenset(":,.!?;'")


def is_free_answer(said: str, truth: str) -> bool:
    """Return True if a response that is not empty says a text (`parse_open_response`, `eval_open`).

    Of each line the shortest rest behind one of `KEYS` counts; of lines without, all of the
    response. One of these has the true text in it, or is its number or has it in it, to two places.

    >>> [is_free_answer(one, "12.5") for one in ("so x = 12.504", "12.5 or 13", "12.6")]
    [True, True, False]
    """
    whole = said[:MAX_TEXT].strip().strip(".").lower()
    lines, found = whole.split("\n"), []
    for number, line in enumerate(lines, start=1):
        keys = (*KEYS, "=") if number == len(lines) else KEYS
        shortest = ""
        for rest in (line.split(key)[-1].strip() for key in keys if key in line):
            if not shortest or len(rest) < len(shortest):
                shortest = rest
        if shortest and shortest not in MARKS:
            found.append(shortest)
    found = found or [whole]
    found += [one for rest in found for form in NUMBERS for one in re.findall(form, rest)]
    true = _normalized(truth)
    return any(
        any(isinstance(right, str) and right in one for right in true)
        if isinstance(one, str)
        else one in true
        for rest in found
        for one in _normalized(rest)
    )


def _normalized(text: str) -> list[str] | list[float]:
    """A number to two places; or a text, and where it is one character, with a blank beside it."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        text = text.lower()
        return [f" {text}", f"{text} "] if len(text) == 1 else [text]


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`videommmu_process_results`, which leaves an empty free answer out."""
    _, target, prediction = single_answer(unit, predictions)
    truth, said = target.answer.text, answer_text(prediction)
    if truth is None:
        found = None if said is None else mcq_choice(said, target.extra["letters"])
        return {"accuracy": Ratio(float(found == target.extra["letter"]), 1.0)}
    return {"accuracy": Ratio(float(bool(said) and is_free_answer(said or "", truth)), said != "")}


def read_answer(sample: Sample, text: str, *, strict: bool) -> object:
    """Return the answer that the rules find in a text; None where they find none."""
    given = ground_truth(sample).extra
    if strict or given["letter"] is None:
        return stated_letter(sample, text) if strict else text or None
    return mcq_choice(text, given["letters"])


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Accuracy, also of the sample's track; of a question without its lecture, of that alone."""
    track = unit[0].categories["track"]
    scores = (strict_accuracy if strict else score_official)(unit, predictions)
    only = {track: scores["accuracy"]}
    return only if track == "question_only" else {**scores, **only}


def knowledge_gain(after: Numbers, before: Numbers) -> Numbers:
    """The share of what was wrong before that is right after, less what became wrong; 0 where
    nothing was wrong.

    >>> float(knowledge_gain(0.75, 0.5)), float(knowledge_gain(1.0, 1.0))
    (0.5, 0.0)
    """
    wrong = 1 - np.asarray(before)
    gain: Any = np.where(wrong > 0, (after - before) / np.where(wrong > 0, wrong, 1), 0.0)
    found: Numbers = gain
    return found


METRICS = (
    Metric("accuracy", about="share of questions answered right, of the tracks that are run"),
    *(Metric(one, about=f"the same, of {one}") for one in TRACKS),
    Metric("question_only", about="the same, of adaptation without the lecture"),
    Metric(
        "knowledge_gain",
        inputs=("adaptation", "question_only"),
        derived=knowledge_gain,
        about="Δknowledge: share of what was wrong without the lecture that it puts right, net",
    ),
)


PROTOCOLS = official_and_strict(
    "videommmu",
    score,
    reads=read_by(read_answer),
    metrics=METRICS,
    headline="accuracy",
    official="lmms-eval: its letters, its rules for free answers, of which empty ones are left out",
    strict="a letter that the response states, or a text in the words of the ground truth",
)
