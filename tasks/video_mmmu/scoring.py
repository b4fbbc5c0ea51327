"""Scores of Video-MMMU's questions, as its authors and lmms-eval read letters and free answers."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from harness.metrics.author_readers import API_ERROR, videommmu_author_choice
from harness.metrics.averages import Numbers
from harness.metrics.letter_readers import mcq_choice
from harness.responses import MAX_TEXT
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol, ground_truth, single_answer
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.qa.options import stated_letter, strict_accuracy
from harness.types import Prediction, Sample

Rule: TypeAlias = Literal["official", "lmms", "strict"]
"""The authors' own code, lmms-eval's, or ours."""

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

    >>> [is_free_answer(text, "12.5") for text in ("so x = 12.504", "12.5 or 13", "12.6")]
    [True, True, False]
    """
    whole = said[:MAX_TEXT].strip().strip(".").lower()
    lines, answers = whole.split("\n"), []
    for number, line in enumerate(lines, start=1):
        keys = (*KEYS, "=") if number == len(lines) else KEYS
        shortest = ""
        for rest in (line.split(key)[-1].strip() for key in keys if key in line):
            if not shortest or len(rest) < len(shortest):
                shortest = rest
        if shortest and shortest not in MARKS:
            answers.append(shortest)
    answers = answers or [whole]
    answers += [match for rest in answers for form in NUMBERS for match in re.findall(form, rest)]
    true = _normalized(truth)
    return any(
        any(isinstance(right, str) and right in value for right in true)
        if isinstance(value, str)
        else value in true
        for rest in answers
        for value in _normalized(rest)
    )


def _normalized(text: str) -> list[str] | list[float]:
    """A number to two places; or a text, and where it is one character, with a blank beside it."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        text = text.lower()
        return [f" {text}", f"{text} "] if len(text) == 1 else [text]


def read_letter(sample: Sample, text: str, rule: Rule) -> str | None:
    """Return the letter that a text has for a question with options; None where it has none."""
    extra = ground_truth(sample).extra
    if rule == "strict":
        return stated_letter(sample, text)
    if rule == "lmms":
        return mcq_choice(text, extra["letters"])
    return videommmu_author_choice(text, extra["letters"], extra["options"])


def is_left_out(sample: Sample, text: str | None, rule: Rule) -> bool:
    """Return True of a text that stands for a failed request: it counts nowhere.

    Officially those are an empty response and "API Error"; in lmms-eval, of a free answer alone.
    """
    is_free = ground_truth(sample).extra["letter"] is None
    return rule != "strict" and text in ("", API_ERROR) and (is_free or rule == "official")


def read_answer(sample: Sample, prediction: Prediction, rule: Rule) -> bool:
    """Return True if the rules find an answer in a response."""
    text = answer_text(prediction)
    if text is None or is_left_out(sample, text, rule):
        return False
    if ground_truth(sample).extra["letter"] is None:
        return bool(text.strip() if rule == "strict" else text)
    return read_letter(sample, text, rule) is not None


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], rule: Rule) -> Scores:
    """Accuracy, also of the sample's track; of a question without its lecture, of that alone."""
    sample, target, prediction = single_answer(unit, predictions)
    truth, said = target.answer.text, answer_text(prediction)
    if rule == "strict":
        right = strict_accuracy(unit, predictions)["accuracy"] == Mean(1.0)
    elif target.extra["letter"] is None:
        right = bool(said) and is_free_answer(said or "", truth or "")
    else:
        right = said is not None and read_letter(sample, said, rule) == target.extra["letter"]
    counted = 0.0 if is_left_out(sample, said, rule) else 1.0
    accuracy, track = Ratio(float(right) * counted, counted), sample.categories["track"]
    return (
        {track: accuracy} if track == "question_only" else {"accuracy": accuracy, track: accuracy}
    )


def knowledge_gain(after: Numbers, before: Numbers) -> Numbers:
    """The share of what was wrong before that is right after, less what became wrong; 0 where
    nothing was wrong.

    >>> float(knowledge_gain(0.75, 0.5)), float(knowledge_gain(1.0, 1.0))
    (0.5, 0.0)
    """
    wrong = 1 - np.asarray(before)
    gain: Any = np.where(wrong > 0, (after - before) / np.where(wrong > 0, wrong, 1), 0.0)
    numbers: Numbers = gain
    return numbers


METRICS = (
    Metric("accuracy", about="share of questions answered right, of the tracks that are run"),
    *(Metric(track, about=f"the same, of {track}") for track in TRACKS),
    Metric("question_only", about="the same, of adaptation without the lecture"),
    Metric(
        "knowledge_gain",
        inputs=("adaptation", "question_only"),
        derived=knowledge_gain,
        about="Δknowledge: share of what was wrong without the lecture that it puts right, net",
    ),
)


ABOUT: Mapping[Rule, str] = {
    "official": "its own code: letters, rules for free answers; empty answers are left out",
    "lmms": "lmms-eval: other letters, the same rules; empty free answers are left out",
    "strict": "a letter that the response states, or a text in the words of the ground truth",
}
PROTOCOLS = {
    f"videommmu/{rule}": Protocol(
        name=f"videommmu/{rule}",
        score=partial(score, rule=rule),
        reads=partial(read_answer, rule=rule),
        metrics=METRICS,
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about=about,
    )
    for rule, about in ABOUT.items()
}
