"""Protocols for each form of answer, for benchmarks that have no scorer of their own."""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from string import ascii_uppercase
from unicodedata import normalize

from harness import plugins
from harness.errors import DataError, ParseError, UsageError
from harness.judge import Judge
from harness.judging import Case, judgement, rubric, same_words
from harness.metrics.letter_readers import mcq_choice
from harness.metrics.numeric import mean_relative_accuracy, only_number
from harness.metrics.point_readers import share_points
from harness.run.judging import unjudged
from harness.scores import Mean, Metric, Scores
from harness.stated.corrections import own_turn
from harness.stated.intervals import refuse_beyond, refuse_unit, stated_interval
from harness.stated.letters import stated_letter
from harness.stated.markup import without_end_tokens, without_envelope, without_latex
from harness.stated.presence import present
from harness.stated.yes_no import (
    concluded_yes_no,
    foreign_yes_no,
    plainly,
    restated,
    says_opposite,
)
from harness.task import Ceiling, Protocol, choose, ground_truth, single_answer
from harness.tasks.charades_sta.task import PROTOCOLS as CHARADES
from harness.tasks.charades_sta.task import interval_protocol
from harness.tasks.counting.task import PROTOCOLS as COUNT
from harness.tasks.grefcoco.scoring import PROTOCOLS as GENERALISED
from harness.tasks.pointing.task import Forms, share_protocols, white
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.letters import Reading, letter_protocols
from harness.tasks.refer.scoring import PROTOCOLS as REFER
from harness.tasks.rvos.scoring import by_expressions
from harness.tasks.rvtbench.text import by_text
from harness.tasks.segmentation.protocols import PROTOCOLS as SEGMENTATION
from harness.types import Answer, Interval, Prediction, Sample

RUBRIC = "same_meaning"
RELAXED = 0.05
"""Relative error that ChartQA's relaxed accuracy allows."""
EQUAL = 1e-9
TRUE_FALSE = re.compile(r"(?=.*\btrue\b).*\bfalse\b", re.IGNORECASE | re.DOTALL)
"""A question that asks for the one of "true" and "false"."""
YES_NO: Mapping[str, str] = {"A": "yes", "B": "no"}
"""Letters by which the reader of options reads yes and no."""
EXACT = COUNT["count/exact"]
SPACED = r"[^\W_\u0e00-\u109f\u1780-\u17ff\u3000-\u9fff\uac00-\ud7af]"
"""A letter or digit of a script that has blanks between words."""
BOX = re.compile(r"<\|begin_of_box\|>(?!.*<\|begin)(.*?)(?:<\|end_of_box\|>|\Z)", re.DOTALL)
"""The last answer between marks that GLM writes around it."""
THOUSANDS = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])")
TYPED = str.maketrans("‐‑‒–−‘’“”", "-----''\"\"")
"""Typographic dashes and quotes, and the keys of a keyboard for them."""
BITS: Mapping[str, str] = {
    **{"1": "yes", "0": "no", "true": "yes", "false": "no", "y": "yes", "n": "no"},
}
"""Yes and no as tables write them besides, in small letters."""


def score_number(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score the number that a response states, by equality, relaxed accuracy and MRA.

    Without a number each is 0.
    """
    sample, target, prediction = single_answer(unit, predictions)
    truth, text = target.answer.number, answer_text(prediction)
    assert truth is not None, "the reader gives one"
    predicted = None if text is None else only_number(text, sample.query.text)
    error = float("inf") if predicted is None else abs(predicted - truth)
    return {
        "accuracy": Mean(float(error <= EQUAL * abs(truth))),
        "relaxed_accuracy": Mean(float(error <= RELAXED * abs(truth))),
        "MRA": Mean(mean_relative_accuracy(predicted, truth)),
    }


def score_count(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score a count as `count/exact` does; a failed sample is wrong where the true count is 0 too.

    Its error is then 1: it did not answer 0.
    """
    failed = predictions[0].failure is not None
    is_zero = ground_truth(unit[0]).answer.count == 0
    wrong = {"accuracy": Mean(0.0), "MAE": Mean(1.0), "MSE": Mean(1.0)}
    return wrong if failed and is_zero else EXACT.score(unit, predictions)


def score_text(
    unit: Sequence[Sample],
    predictions: Sequence[Prediction],
    *,
    judge: Judge | None = None,
    is_judged: bool = False,
) -> Scores:
    """Score 1 if a response is a right text or, for a judge, has its meaning.

    Marks and words that wrap a whole answer ("**Answer:** a cup") are not part of it. `contains` is
    1 if it has the words of a right text in a row.
    """
    sample, target, prediction = single_answer(unit, predictions)
    text = answer_text(prediction)
    said: tuple[str, ...] = ()
    if text is not None:
        whole, text = without_end_tokens(text), _own_text(text)
        said = (whole, text, without_envelope(text))  # the right text may be "User: admin"
        text = text or whole
    truths = [target.answer.text or "", *target.references]
    right = any(
        same_words(words, truth) or same_words(_typed(words), _typed(truth))
        for words in said
        for truth in truths
    )
    has_words = right or (text is not None and any(_contains(text, truth) for truth in truths))
    if text and not right and is_judged:
        if judge is None:
            raise unjudged(RUBRIC)
        case = Case(sample.query.text, text, " / ".join(truths))
        right = judgement(judge, rubric(RUBRIC), case).correct
    return {"accuracy": Mean(float(right)), "contains": Mean(float(has_words))}


def _typed(text: str) -> str:
    """Return a text without LaTeX, typographic dashes and quotes, and commas of thousands.

    >>> _typed("2008–09"), _typed("“1,204”"), _typed("1,20")
    ('2008-09', '"1204"', '1,20')
    """
    return THOUSANDS.sub(lambda number: number[0].replace(",", ""), without_latex(text)).translate(
        TYPED
    )


def _own_text(response: str) -> str:
    """Return a response without special tokens, a prompt before it and turns after it."""
    text = without_end_tokens(response)
    with suppress(ParseError):  # several questions: the text as it is, which is wrong
        text = own_turn(text).strip()
    return text


def _contains(text: str, truth: str) -> bool:
    """Return True if a text has the words of another in a row, in any case, and whole numbers."""
    text, truth = (normalize("NFC", string.lower()) for string in (text, truth))
    parts = truth.removesuffix(".").split()
    signed = r"(?<!\d[.,])(?<!\d[eE][-+−])(?<!(?<!\w)[-+−.,])"
    before = signed if parts and parts[0][0].isdecimal() else ""
    after = r"(?![.,]\d)" if parts and parts[-1][-1].isdecimal() else ""
    words = r"\s+".join(map(re.escape, parts))
    return re.search(rf"(?<!{SPACED}){before}{words}{after}(?!{SPACED})", text) is not None


def yes_or_no(text: str, question: str = "") -> str | None:
    """Return the one of "yes" and "no" that a response to a question states; None for neither.

    True and false are yes and no where the question has these words.

    >>> yes_or_no("Yes – the red car passes."), yes_or_no("No."), yes_or_no("Yes or no?")
    ('yes', 'no', None)
    >>> yes_or_no("False.", "Two cars pass. True or false?"), yes_or_no("False.", "Do cars pass?")
    ('no', None)
    """
    text = plainly(without_envelope(text) if "{" in text else text, question)
    if TRUE_FALSE.search(question):
        with suppress(ParseError):
            return YES_NO[stated_letter(text, "".join(YES_NO), ("true", "false"))]
    try:
        said = YES_NO[stated_letter(text, "".join(YES_NO), tuple(YES_NO.values()))]
    except ParseError:
        if box := BOX.search(text):
            return yes_or_no(box[1], question)
        stated = restated(text, question) or present(text, question)
        return stated or concluded_yes_no(text, question) or foreign_yes_no(text, question)
    return None if says_opposite(said, text, question) else said


def score_yes_no(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score 1 if a response states the true one of "yes" and "no"."""
    sample, target, prediction = single_answer(unit, predictions)
    text = answer_text(prediction)
    read = None if text is None else yes_or_no(text, sample.query.text)
    return {
        "accuracy": Mean(float(read is not None and same_words(read, target.answer.text or "")))
    }


def check_truth(protocol: str, answer: Answer, where: str) -> None:
    """Check that a protocol can score a ground truth.

    Raises:
        DataError: the protocol is `text/yes_no`, and the text is neither "yes" nor "no".
    """
    if protocol != BINARY.name:
        return
    if not any(same_words(answer.text or "", text) for text in YES_NO.values()):
        raise DataError(
            where,
            expected=f"yes or no, for the protocol {protocol}",
            found=repr(answer.text)[:60],
            fix="Use the protocol text/exact, or leave such records out with `where`.",
        )


def stated_in(sample: Sample, prediction: Prediction) -> Interval | None:
    """Return the interval that a response states, else the one that the model's own grammar read.

    An interval beyond the end of the sample's video does not count: the result is None.
    """
    text = answer_text(prediction) if prediction.responses else None
    interval = None if prediction.answer is None else prediction.answer.interval
    video = sample.query.media[0]
    times = video.times() if prediction.responses and video.is_video else ()
    with suppress(ParseError):
        if text is not None:
            return Interval(*stated_interval(text, sample.query.text, times))
    with suppress(ParseError):
        if interval is not None and prediction.responses:
            refuse_unit(text or "", sample.query.text, times)
            refuse_beyond(*interval, times)
        return interval
    return None


def score_stated_choice(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score 1 if a response states the right option by its letter or its text."""
    sample, target, prediction = single_answer(unit, predictions)
    read = stated_choice(sample, answer_text(prediction) or "")
    return {"accuracy": Mean(float(read == target.extra["letter"]))}


def stated_choice(sample: Sample, text: str) -> str | None:
    """Return the letter of the option that a response states by letter or text; else None."""
    try:
        letters = ground_truth(sample).extra["letters"] or ascii_uppercase
        return stated_letter(text, letters, sample.query.options, sample.query.text)
    except ParseError:
        return None


LETTERS = letter_protocols(
    "choice", lmms=Reading(mcq_choice, "lmms-eval's reader of letters, mcq_extract.py")
)
STATED = replace(
    LETTERS["choice/strict"],
    name="choice/stated",
    score=score_stated_choice,
    about="a letter that the response states counts, and so does the text of an option",
    reads=read_by(stated_choice),
)
NUMBER = Protocol(
    name="number/stated",
    score=score_number,
    metrics=(
        Metric("accuracy", about="share of samples with the true number"),
        Metric("relaxed_accuracy", about=f"share of samples within {RELAXED:.0%} of it"),
        Metric("MRA", about="mean relative accuracy, as VSI-Bench has it"),
    ),
    headline="accuracy",
    ceiling=Ceiling(value=1.0),
    about="the one number that a response states, in the unit that the question asks for",
    beside=("relaxed_accuracy",),
    reads=read_by(lambda sample, text: only_number(text, sample.query.text)),
)
COUNTED = replace(
    EXACT,
    name="count/stated",
    score=score_count,
    about="the count that a response states, or its number of boxes or points",
)
TEXT = Protocol(
    name="text/exact",
    score=score_text,
    metrics=(
        Metric("accuracy", about="share of responses that are a right text"),
        Metric("contains", about="share of responses with a right text in them; others too"),
    ),
    headline="accuracy",
    ceiling=Ceiling(value=1.0),
    about="equal words but for case, blanks and a full stop at the end; a sentence around is wrong",
    beside=("contains",),
    reads=read_by(lambda _, text: without_envelope(_own_text(text)) or None),
)
BINARY = replace(
    TEXT,
    name="text/yes_no",
    score=score_yes_no,
    beside=(),
    metrics=(Metric("accuracy", about="share of responses that state the true one of yes and no"),),
    about="the one of yes and no that a response states",
    reads=read_by(lambda sample, text: yes_or_no(text, sample.query.text)),
)
JUDGED = replace(
    TEXT,
    name="text/judged",
    score=partial(score_text, is_judged=True),
    rubric=RUBRIC,
    judged=lambda judge: partial(score_text, is_judged=True, judge=judge),
    about="the same, and a judge on responses in other words",
)
CAPTION = by_text(
    "text/caption", "ptb", "ROUGE-L, BLEU-4 and CIDEr of pycocoevalcap over all samples"
)
TRACK = by_expressions("J and F over all frames, as MeViS' tools/eval_mevis.py computes them")
PROTOCOLS: Mapping[str, Mapping[str, Protocol]] = {
    "choice": {**LETTERS, STATED.name: STATED},
    "number": {NUMBER.name: NUMBER},
    "count": {COUNTED.name: COUNTED, EXACT.name: EXACT},
    "text": {protocol.name: protocol for protocol in (TEXT, BINARY, JUDGED, CAPTION)},
    "boxes": {"rec/expression": REFER["rec/expression"], "rec/grec": GENERALISED["rec/grec"]},
    "points": share_protocols(
        "points",
        inside=(
            white,
            Forms(others=(share_points,)),
            "share of the points that lie in the true region: those of the model's own grammar, "
            "else (x, y) from 0 to 1",
        ),
    ),
    "mask": SEGMENTATION,
    "interval": {
        **interval_protocol(
            "interval/stated",
            stated_in,
            "the one interval that a response states; else the model's own form",
        ),
        **CHARADES,
    },
    "mask_track": {TRACK.name: TRACK},
}
"""Protocols by the form of answer and their name."""
DEFAULT: Mapping[str, str] = {
    "choice": "choice/strict",
    "number": "number/stated",
    "count": "count/stated",
    "text": "text/exact",
    "boxes": "rec/grec",
    "points": "points/inside",
    "mask": "seg/lisa",
    "interval": "interval/stated",
    "mask_track": "rvos/mevis",
}


def chosen_protocol(form: str, name: str) -> Protocol:
    """Return a protocol of a form of answer, or of a benchmark as `BENCHMARK:PROTOCOL`.

    Raises:
        UsageError: there is none of this name.
    """
    benchmark, colon, protocol = name.partition(":")
    if not colon:
        return choose("protocol", PROTOCOLS[form], name or DEFAULT[form])
    module = sys.modules[plugins.load("tasks", benchmark).__module__]
    known: Mapping[str, Protocol] = getattr(module, "PROTOCOLS", {})
    if not known:
        raise UsageError(f"protocol {name!r}", expected=f"protocols of {benchmark}", found="none")
    theirs = choose("protocol", known, protocol)

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        try:
            return theirs.score(unit, predictions)
        except KeyError as error:
            raise UsageError(
                f"protocol {name!r}",
                expected="a protocol that needs nothing but questions and their answers",
                found=f"one that needs {error} of the files of {benchmark}",
            ) from error

    return replace(theirs, score=score)
