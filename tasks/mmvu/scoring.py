"""The protocols of MMVU: lmms-eval's rules without and with its judge, and a strict one.

Its questions have options, or ask for a free answer (a text).
"""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.judge import Judge
from harness.judging import Case, judgement, rubric
from harness.responses import MAX_TEXT
from harness.run.judging import unjudged
from harness.scores import Mean, Scores
from harness.task import single_answer
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.qa.letters import Reading, letter_protocols
from harness.types import Prediction, Sample, Target

RUBRIC = "same_meaning"
SUPERSCRIPTS = str.maketrans({"²": "^2", "³": "^3", "¹": "^1", "⁰": "^0", "⁴": "^4", "⁵": "^5"})
SUPERSCRIPTS |= str.maketrans({"⁶": "^6", "⁷": "^7", "⁸": "^8", "⁹": "^9"})
"""Superscripts and their spelling with `^`."""
TOLERANCE = 0.01  # numbers that differ by less count as equal
ORDER_PATTERN = re.compile(r"O\s*\([^)]+\)", re.IGNORECASE)  # an order of growth such as "O(n^2)"


def is_option(response: str, letter: str, options: Sequence[str]) -> bool:
    """Return True if a response names the right option by lmms-eval's lenient rules.

    The response must contain the option's letter as a word, in either case; or the option's text;
    or the letter anywhere, and one of the option's words of 3 letters or more.

    >>> options = ["red apple", "blue"]
    >>> [is_option(text, "A", options) for text in ("B or A", "a red apple", "an apple", "b")]
    [True, True, True, False]
    """
    response = response.strip()[:MAX_TEXT]
    if re.search(rf"\b{letter}\b", response, re.IGNORECASE):
        return True
    text, lower = options["ABCDE".index(letter)].strip().lower(), response.lower()
    option_words = [word.strip(string.punctuation) for word in text.split()]
    has_word = any(len(word) > 2 and word in lower for word in option_words)
    return text in lower or (letter in response.upper() and has_word)


def is_text(response: str, truth: str) -> bool:
    """Return True if a response agrees with the true text by lmms-eval's lenient rules.

    One of these must hold: one text contains the other (every text contains an empty response);
    their first numbers differ by less than TOLERANCE; the true text has two to five words, and the
    response has all of these with 3 letters or more; both name the same order of growth, `O(n^2)`.

    >>> [is_text(text, "Depth-First Search") for text in ("search", "", "breadth")]
    [True, True, False]
    >>> is_text("In 3.001 s", "3 seconds"), is_text("3.1", "3")
    (True, True)
    """
    text, true = _normalised(response), _normalised(str(truth))
    if true in text or text in true:
        return True
    number, true_number = (re.search(r"\d+\.?\d*", either_text) for either_text in (text, true))
    if number and true_number and abs(float(number[0]) - float(true_number[0])) < TOLERANCE:
        return True
    response_words, true_words = _words(text), _words(true)
    longer = [word for word in true_words if len(word) > 2]
    if 2 <= len(true_words) <= 5 and set(longer) <= set(response_words):
        return True
    order, true_order = ORDER_PATTERN.search(text), ORDER_PATTERN.search(true)
    return bool(order and true_order and order[0] == true_order[0])


def _normalised(text: str) -> str:
    """Return a text in lower case, with `^` for superscripts and single spaces."""
    return " ".join(text.strip().lower().translate(SUPERSCRIPTS)[:MAX_TEXT].split())


def _words(text: str) -> list[str]:
    """Return the words of a text without punctuation around them."""
    stripped = [word.strip(string.punctuation) for word in text.split()]
    return [word for word in stripped if word]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores a question by the rules; if `is_judged`, a judge decides on what they refuse."""

    is_judged: bool = False
    judge: Judge | None = None

    def __call__(self, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        """Return the accuracy; a prediction without a response is wrong."""
        sample, target, prediction = single_answer(unit, predictions)
        text = answer_text(prediction)
        return {"accuracy": Mean(float(text is not None and self._is_right(sample, target, text)))}

    def _is_right(self, sample: Sample, target: Target, text: str) -> bool:
        """Return True if the text of an answer is right; raise an error if a judge is needed."""
        truth = target.answer.text
        if truth is None:
            return is_option(text, target.extra["letter"], sample.query.options)
        by_rules = is_text(text, truth)
        if by_rules or not self.is_judged:
            return by_rules
        if self.judge is None:
            raise unjudged(RUBRIC)
        return judgement(self.judge, rubric(RUBRIC), Case(sample.query.text, text, truth)).correct


RULES, STRICT = letter_protocols(
    "mmvu",
    lmms=Reading(
        lambda text, _: text.strip() or None,
        "lmms-eval's rules without its judge: lenient; an empty free answer is right",
        score=Scoring(),
        accuracy="share of questions answered right",
    ),
    strict="a letter that the response states, or a text in the words of the ground truth",
).values()
PROTOCOLS = {
    "mmvu/rules": replace(RULES, name="mmvu/rules"),
    "mmvu/judged": replace(
        RULES,
        name="mmvu/judged",
        score=Scoring(is_judged=True),
        rubric=RUBRIC,
        judged=lambda judge: Scoring(is_judged=True, judge=judge),
        about="the same, and a judge on free answers that the rules refuse, as lmms-eval does",
    ),
    "mmvu/strict": STRICT,
}
