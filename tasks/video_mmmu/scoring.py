"""Score Video-MMMU's questions: letters of options, and free answers (words or numbers).

Responses are read as by the authors' code, as by lmms-eval, or strictly.
"""

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
ANSWER_PHRASES = (
    *("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ", "are "),
    *("in total ", "total ", "identify ", "recognize ", "calculated as ", "counted as "),
    *("measured as ", "observed as ", "concluded as ", "found to be ", "equals "),
    *("determined to be ", "number of ", "value is ", "adds up to ", "have ", "has "),
)
"""Phrases that precede an answer in a line, such as "so " and "is " in "so x is 12"."""
NUMBER_PATTERNS = (
    r"-?\b\d{1,3}(?:,\d{3})+\b",
    r"-?\d+(?:\.\d+)?[eE][+-]?\d+",
    r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])",
)
"""Patterns of "1,200", of "1.2e3", and of "12.5" or "12"."""

PUNCTUATION = frozenset(":,.!?;'")
"""Marks that are not an answer if nothing else follows the phrase."""


def is_free_answer_right(response: str, truth: str) -> bool:
    """Return True if a response that is not empty gives a free answer.

    As in `parse_open_response` and `eval_open` of the official code, one of the answers in the
    response, or a number in such an answer, must contain the true text, or equal the true number to
    two decimals.

    >>> [is_free_answer_right(text, "12.5") for text in ("so x = 12.504", "12.5 or 13", "12.6")]
    [True, True, False]
    """
    answers = _answers_in(response)
    answers += [
        number
        for answer in answers
        for pattern in NUMBER_PATTERNS
        for number in re.findall(pattern, answer)
    ]
    true_values = _normalized(truth)
    for answer in answers:
        for value in _normalized(answer):
            if isinstance(value, str):
                if any(isinstance(true, str) and true in value for true in true_values):
                    return True
            elif value in true_values:
                return True
    return False


def _answers_in(response: str) -> list[str]:
    """Return, for each line with ANSWER_PHRASES, the shortest text after one of them.

    In the last line "=" counts as a phrase too. Without such a line, the only answer is the whole
    response.
    """
    text = response[:MAX_TEXT].strip().strip(".").lower()
    lines, answers = text.split("\n"), []
    for number, line in enumerate(lines, start=1):
        phrases = (*ANSWER_PHRASES, "=") if number == len(lines) else ANSWER_PHRASES
        shortest = ""
        for tail in (line.split(phrase)[-1].strip() for phrase in phrases if phrase in line):
            if not shortest or len(tail) < len(shortest):
                shortest = tail
        if shortest and shortest not in PUNCTUATION:
            answers.append(shortest)
    return answers or [text]


def _normalized(text: str) -> list[str] | list[float]:
    """Return the values that stand for a text in comparisons.

    A number is rounded to two decimals. A single character gives two texts, with a blank before or
    after it, so that it only matches at the edge of a word. Other texts are in lower case.

    >>> _normalized("1,200.123"), _normalized("Two"), _normalized("b")
    ([1200.12], ['two'], [' b', 'b '])
    """
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        text = text.lower()
        return [f" {text}", f"{text} "] if len(text) == 1 else [text]


def read_letter(sample: Sample, text: str, rule: Rule) -> str | None:
    """Return the letter that a text gives for a question with options; None if it gives none."""
    extra = ground_truth(sample).extra
    if rule == "strict":
        return stated_letter(sample, text)
    if rule == "lmms":
        return mcq_choice(text, extra["letters"])
    return videommmu_author_choice(text, extra["letters"], extra["options"])


def is_left_out(sample: Sample, text: str | None, rule: Rule) -> bool:
    """Return True if a text stands for a failed request, so that the sample counts nowhere.

    Officially an empty response and "API Error" do. In lmms-eval they do for questions without
    options only; strictly they do not.
    """
    is_free = ground_truth(sample).extra["letter"] is None
    return rule != "strict" and text in ("", API_ERROR) and (is_free or rule == "official")


def has_answer(sample: Sample, prediction: Prediction, rule: Rule) -> bool:
    """Return True if the rule finds an answer in a response."""
    text = answer_text(prediction)
    if text is None or is_left_out(sample, text, rule):
        return False
    if ground_truth(sample).extra["letter"] is None:
        return bool(text.strip() if rule == "strict" else text)
    return read_letter(sample, text, rule) is not None


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], rule: Rule) -> Scores:
    """Return a sample's accuracy, as `accuracy` and under the name of its track.

    The track without the lecture, `question_only`, does not count in `accuracy`.
    """
    sample, target, prediction = single_answer(unit, predictions)
    truth, text = target.answer.text, answer_text(prediction)
    if rule == "strict":
        right = strict_accuracy(unit, predictions)["accuracy"] == Mean(1.0)
    elif target.extra["letter"] is None:
        right = bool(text) and is_free_answer_right(text or "", truth or "")
    else:
        right = text is not None and read_letter(sample, text, rule) == target.extra["letter"]
    weight = 0.0 if is_left_out(sample, text, rule) else 1.0
    accuracy, track = Ratio(float(right) * weight, weight), sample.categories["track"]
    if track == "question_only":
        return {track: accuracy}
    return {"accuracy": accuracy, track: accuracy}


def knowledge_gain(after: Numbers, before: Numbers) -> Numbers:
    """Return (after - before) / (1 - before): the net share of wrong answers that became right.

    It is 0 if no answer was wrong before.

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
        about="Δknowledge: net share of questions, wrong without the lecture, that are right "
        "with it",
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
        reads=partial(has_answer, rule=rule),
        metrics=METRICS,
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about=about,
    )
    for rule, about in ABOUT.items()
}
