"""Scores of numeric answers by relative error, and readers of the number in a response.

Scorers of tasks read a number from a response (`first_number`, `only_number`; None: it has none)
and score it against the ground truth in the same unit (`mean_relative_accuracy`,
`relative_accuracy`).
"""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.errors import DataError, ParseError
from harness.stated.numbers import stated_number

# 0.50, 0.55, …, 0.95, computed as in the official code, so that every bit is the same.
CONFIDENCES = np.linspace(0.5, 0.95, 10)
TOLERANCES: tuple[float, ...] = tuple((1 - CONFIDENCES).tolist())
"""Largest relative error that passes each of the ten thresholds of MRA."""

_DIGIT_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[a-z]+")
_ONES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_WORDS: Mapping[str, int] = MappingProxyType(
    {word: value for value, word in enumerate(_ONES)}
    | {word: 10 * value for value, word in enumerate(_TENS, 2)}
    | {"hundred": 100, "thousand": 1000}
)


def mean_relative_accuracy(predicted: float | None, ground_truth: float) -> float:
    """Return MRA, the share of ten thresholds that the relative error passes: 0, 0.1, …, 1.

    The mean over t = 0.50, 0.55, …, 0.95 of `|p - y| / |y| <= 1 - t`; the VSI-Bench paper prints
    `<`, its code says `<=`. Where y is 0 the absolute error is compared. Equal bit for bit to
    `mean_relative_accuracy` in `lmms_eval/tasks/vsibench/utils.py` (thinking-in-space, commit
    51e089c) for the positive numbers that VSI-Bench asks for, and in
    `lmms_eval/tasks/sparbench/utils.py` (spar, commit 1679885) for any.

    Args:
        predicted: The predicted number; None and not-a-number score 0.
        ground_truth: A finite number.

    Raises:
        DataError: the ground truth is not finite.

    >>> [mean_relative_accuracy(said, 3) for said in (3, 2, 2.9, 6, None)]
    [1.0, 0.4, 1.0, 0.0, 0.0]
    """
    if not math.isfinite(ground_truth):
        raise DataError("true number", expected="a finite one", found=repr(ground_truth))
    if predicted is None:
        return 0.0
    error = (
        abs(predicted - ground_truth)
        if ground_truth == 0
        else abs((predicted - ground_truth) / ground_truth)
    )
    return sum(error <= tolerance for tolerance in TOLERANCES) / len(TOLERANCES)


def relative_accuracy(predicted: float | None, ground_truth: float) -> float:
    """Return `max(0, 1 - |p - y| / |y|)`, the numeric score of Video-STR; 1 where both are 0.

    The paper's section 3 leaves y = 0 open; here only an exact 0 scores then.

    Raises:
        DataError: the ground truth is not finite.

    >>> [relative_accuracy(said, 4) for said in (4, 3, 5, 9, None)]
    [1.0, 0.75, 0.75, 0.0, 0.0]
    """
    if not math.isfinite(ground_truth):
        raise DataError("true number", expected="a finite one", found=repr(ground_truth))
    if predicted is None or not math.isfinite(predicted):
        return 0.0
    if ground_truth == 0:
        return float(predicted == 0)
    return max(0.0, 1 - abs(predicted - ground_truth) / abs(ground_truth))


def first_number(response: str) -> float | None:
    """Return the first number anywhere in a response, in digits or in English words, or None.

    lmms-eval's scorer of VSI-Bench reads it since 2026 (`vsi/lmms2026`): "There are 3" is 3 and
    "twenty-one" is 21, where the paper's own code reads nothing. Equal to `extract_number` in
    `lmms_eval/tasks/vsibench/utils.py` (lmms-eval, commit 75571cf); "two, three" is 5 for both.

    >>> responses = ("There are 3", "Three hundred and five", "one apple, room 2", "-0.5 m", "none")
    >>> [first_number(response) for response in responses]
    [3.0, 305.0, 1.0, -0.5, None]
    """
    text = response.strip().lower()
    digits = _DIGIT_NUMBER.search(text)
    words_start, words = _number_words(text)
    if digits and (not words or digits.start() < words_start):
        return float(digits[0])
    return float(_value_of_words(words)) if words else None


def _number_words(text: str) -> tuple[int, list[str]]:
    """Return (index of the first run of number words, its words without "and"); [] for no run."""
    run_start = 0
    run: list[str] = []
    for word in _WORD.finditer(text):
        if word[0] in NUMBER_WORDS:
            run_start = run_start if run else word.start()
            run.append(word[0])
        elif run and word[0] != "and":
            break
    return run_start, run


def _value_of_words(words: list[str]) -> int:
    """Return the number that number words make: 2005 for "two", "thousand", "five"."""
    thousands = below_thousand = 0
    for word in words:
        value = NUMBER_WORDS[word]
        if value == 1000:
            thousands += max(below_thousand, 1) * 1000
            below_thousand = 0
        elif value == 100:
            below_thousand = max(below_thousand, 1) * 100
        else:
            below_thousand += value
    return thousands + below_thousand


def only_number(response: str, question: str = "") -> float | None:
    """Return the one number that a response states (`harness.stated.numbers`), or None.

    `strict` protocols use it: digits inside a word and the 2 of "m^2" are not numbers; "3 or 4"
    does not state one number, "3 (3.0)" states 3. `question` may name the unit of the number.

    >>> responses = "about 1,250.5 m^2", "-3m", "3 or 4", "3 (3.0)", "four"
    >>> [only_number(response) for response in responses]
    [1250.5, -3.0, None, 3.0, 4.0]
    """
    try:
        return stated_number(response, question)
    except ParseError:
        return None
