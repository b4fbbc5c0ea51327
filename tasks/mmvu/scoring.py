"""Scores of MMVU's two types of questions: by lmms-eval's rules, by a judge, and strictly."""

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
RAISED = str.maketrans({"²": "^2", "³": "^3", "¹": "^1", "⁰": "^0", "⁴": "^4", "⁵": "^5"})
RAISED |= str.maketrans({"⁶": "^6", "⁷": "^7", "⁸": "^8", "⁹": "^9"})
TOLERANCE = 0.01
ORDER = re.compile(r"O\s*\([^)]+\)", re.IGNORECASE)


def is_option(response: str, letter: str, options: Sequence[str]) -> bool:
    """Return True if a response names the right option by lmms-eval's lenient rules.

    Its letter stands alone anywhere, in either case; or its text is in the response; or its letter
    is in any word, and one of its longer words too.

    >>> options = ["red apple", "blue"]
    >>> [is_option(text, "A", options) for text in ("B or A", "a red apple", "an apple", "b")]
    [True, True, True, False]
    """
    response = response.strip()[:MAX_TEXT]
    if re.search(rf"\b{letter}\b", response, re.IGNORECASE):
        return True
    text, lower = options["ABCDE".index(letter)].strip().lower(), response.lower()
    words = [word.strip(string.punctuation) for word in text.split()]
    has_word = any(len(word) > 2 and word in lower for word in words)
    return text in lower or (letter in response.upper() and has_word)


def is_text(response: str, truth: str) -> bool:
    """Return True if a response says a text by lmms-eval's lenient rules.

    One of the two is in the other, which an empty response is; or their first numbers differ by
    less than 0.01; or all longer words of a text of two to five are in the response; or both have
    the same order, `O(n^2)`.

    >>> [is_text(text, "Depth-First Search") for text in ("search", "", "breadth")]
    [True, True, False]
    >>> is_text("In 3.001 s", "3 seconds"), is_text("3.1", "3")
    (True, True)
    """
    said, true = (
        text.strip().lower().translate(RAISED)[:MAX_TEXT] for text in (response, str(truth))
    )
    plain, true_plain = (" ".join(text.split()) for text in (said, true))
    if true_plain in plain or plain in true_plain:
        return True
    numbers = [re.findall(r"\d+\.?\d*", text)[:1] for text in (said, true)]
    if all(numbers) and abs(float(numbers[0][0]) - float(numbers[1][0])) < TOLERANCE:
        return True
    words, true_words = (
        [word for part in text.split() if (word := part.strip(string.punctuation))]
        for text in (plain, true_plain)
    )
    longer = [word for word in true_words if len(word) > 2]
    if 2 <= len(true_words) <= 5 and set(longer) <= set(words):
        return True
    orders = [ORDER.search(text) for text in (plain, true_plain)]
    return all(orders) and len({order[0] for order in orders if order}) == 1


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores a question by the rules and, with `is_judged`, what they refuse of a free answer by
    a judge.
    """

    is_judged: bool = False
    judge: Judge | None = None

    def __call__(self, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        """Accuracy; a prediction without a response is wrong."""
        sample, target, prediction = single_answer(unit, predictions)
        text = answer_text(prediction)
        return {"accuracy": Mean(float(text is not None and self._is_right(sample, target, text)))}

    def _is_right(self, sample: Sample, target: Target, text: str) -> bool:
        truth = target.answer.text
        if truth is None:
            return is_option(text, target.extra["letter"], sample.query.options)
        if is_text(text, truth) or not self.is_judged:
            return is_text(text, truth)
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
