"""Protocols of TempCompass, which score each of its four formats of questions by its own rules.

A caption is scored by a multiple-choice question about the video's aspect: a judge answers it from
the caption alone, or (strictly) the caption must contain the words of the right option.
`tempcompass/rules` has no rule for captions: the task refuses to combine the two.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.judge import Judge
from harness.metrics import tempcompass
from harness.metrics.choices import strict_choice
from harness.run.judging import unjudged
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.options import LETTERED
from harness.tasks.tempcompass.records import Record
from harness.thoughts import after_thought
from harness.types import Prediction, Sample

RUBRIC = "tempcompass_caption"
UNREADABLE = Metric(
    "unreadable verdicts",
    better="lower",
    about="share of captions on which the judge neither chose an option, as `C. …`, nor said None",
)
WORD_PATTERN = re.compile(r"[a-z0-9]+")


def by_rules(record: Record, text: str) -> bool | None:
    """Return True if a response is right by the official rules; None if no rule fits it.

    For the three formats other than captioning.
    """
    if record.format == "multi-choice":
        return tempcompass.multiple_choice(text, record.answer)
    if record.format == "yes_no":
        return tempcompass.yes_no(text, record.answer)
    return tempcompass.caption_match(text, record.question, record.answer)


def strict_verdict(record: Record, text: str) -> bool | None:
    """Return True if the answer that a response states is right; None if it states none."""
    if record.format == "multi-choice":
        if text.strip() == record.answer:
            return True
        letter = strict_choice(text, letters="ABCDEFGH"[: len(record.options)])
        return None if letter is None else letter == record.answer.strip()[0]
    if record.format == "yes_no":
        letter = strict_choice(text, letters="AB", options=("yes", "no"))
        return None if letter is None else {"A": "yes", "B": "no"}[letter] == record.answer
    if record.format == "caption_matching":
        return tempcompass.caption_match(text, record.question, record.answer)
    return tells_only(
        text, right_caption(record), [option_text(option) for option in record.options]
    )


def option_text(option: str) -> str:
    """Return an option without its letter."""
    match = LETTERED.match(option)
    return match[2].strip() if match else option.strip()


def right_caption(record: Record) -> str:
    """Return the text of the option that a right caption supports."""
    assert record.judge_question is not None, "every caption has a question for the judge"
    return option_text(record.judge_question[1])


def tells_only(caption: str, right: str, options: Sequence[str]) -> bool:
    """Return True if a caption contains the right option's words in a row, and no wrong option's.

    Options whose words are part of the right option do not count as wrong.

    >>> options = ["walking slowly", "walking", "sitting"]
    >>> [tells_only(text, "walking", options) for text in ("A man is walking.", "He walks")]
    [True, False]
    >>> tells_only("Now walking, now sitting", "walking", options)
    False
    """
    response_words = _normalize(caption)
    wrong = [
        option
        for option in options
        if option != right and _normalize(option) not in _normalize(right)
    ]
    return _normalize(right) in response_words and not any(
        _normalize(option) in response_words for option in wrong
    )


def _normalize(text: str) -> str:
    """Return the words in lower case, with one blank before and behind each.

    >>> _normalize("It's red.")
    ' it s red '
    """
    return f" {' '.join(WORD_PATTERN.findall(text.lower()))} "


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores a question by one protocol."""

    protocol: str
    judge: Judge | None = None

    def __call__(self, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        """Return the score as `avg` and under the question's aspect, and a rate of the protocol.

        The rate is of unreadable verdicts if a judge is asked, else of responses that fit a rule;
        the strict protocol has no rate. A response without a verdict is wrong.
        """
        (sample,), (prediction,) = unit, predictions
        text, record = answer_text(prediction), _record(sample)
        judged = record.format == "captioning" and self.protocol != "tempcompass/strict"
        verdict, readable = None, True
        if text is not None and judged:
            verdict, readable = self._judged(record, text)
        elif text is not None:
            verdict = self.rule_verdict(sample, text)
        right = Mean(float(verdict is True))
        scores = {record.aspect: right, "avg": right}
        if judged:
            scores[UNREADABLE.name] = Mean(float(not readable))
        elif self.protocol != "tempcompass/strict":
            scores[tempcompass.MATCH_RATE.name] = Mean(float(verdict is not None))
        return scores

    def rule_verdict(self, sample: Sample, text: str) -> bool | None:
        """Return True if a response is right by the protocol's rules; None if no rule fits it.

        Only the strict protocol has a rule for captions; in the others, True means that a caption
        is not blank, so a judge can read it.
        """
        record = _record(sample)
        if self.protocol == "tempcompass/strict":
            return strict_verdict(record, text)
        if record.format == "captioning":
            return True if tempcompass.strip_marks(text) else None
        return by_rules(record, text)

    def _judged(self, record: Record, text: str) -> tuple[bool, bool]:
        """Return (True if the caption is right, True if the judge's verdict could be read)."""
        assert record.judge_question is not None, "every caption has a question for the judge"
        question, answer = record.judge_question
        if tempcompass.strip_marks(text) == right_caption(record):
            return True, True  # the right option itself: no judge is needed
        if self.judge is None:
            raise unjudged(RUBRIC)
        verdict = self.judge.judge(RUBRIC, question, tempcompass.strip_marks(text), answer)
        verdict_text = after_thought(verdict.text)
        is_right = tempcompass.captioning(verdict_text, answer) is True
        return is_right, tempcompass.chooses(verdict_text)


def _record(sample: Sample) -> Record:
    """Return the question that a sample was made from."""
    assert sample.target is not None, "the ground truth is public"
    record: Record = sample.target.extra["record"]
    return record


RULES = Protocol(
    name="tempcompass/rules",
    score=Scoring("tempcompass/rules"),
    reads=read_by(Scoring("tempcompass/rules").rule_verdict),
    metrics=(*tempcompass.METRICS, tempcompass.MATCH_RATE),
    headline="avg",
    beside=(tempcompass.MATCH_RATE.name,),
    ceiling=Ceiling(value=1.0),
    about="eval_*.py with --disable_llm: rules; a response that fits no rule is wrong",
)
PROTOCOLS = {
    "tempcompass/rules": RULES,
    "tempcompass/judged": replace(
        RULES,
        name="tempcompass/judged",
        score=Scoring("tempcompass/judged"),
        metrics=(*tempcompass.METRICS, tempcompass.MATCH_RATE, UNREADABLE),
        beside=(tempcompass.MATCH_RATE.name, UNREADABLE.name),
        rubric=RUBRIC,
        judged=lambda judge: Scoring("tempcompass/judged", judge),
        about="captions by a judge that sees only the caption; the other formats by rules",
    ),
    "tempcompass/strict": replace(
        RULES,
        name="tempcompass/strict",
        score=Scoring("tempcompass/strict"),
        reads=read_by(Scoring("tempcompass/strict").rule_verdict),
        metrics=tempcompass.METRICS,
        beside=(),
        about="ours: stated letters, whole words; a caption has the words of the right option only",
    ),
}
