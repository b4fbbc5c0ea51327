"""Protocols by the form of answer, for benchmarks that have no scorer of their own."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from harness import plugins
from harness.errors import UsageError
from harness.judge import Judge
from harness.judging import Case, judgement, rubric, same_words
from harness.metrics.letter_readers import mcq_choice
from harness.metrics.numeric import mean_relative_accuracy, only_number
from harness.run.judging import unjudged
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, choose, single_answer
from harness.tasks.charades_sta.task import PROTOCOLS as INTERVAL
from harness.tasks.counting.task import PROTOCOLS as COUNT
from harness.tasks.grefcoco.scoring import PROTOCOLS as GENERALISED
from harness.tasks.pointing.task import LMMS_FORMS, share_protocols, white
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.letters import Reading, letter_protocols
from harness.tasks.refer.scoring import PROTOCOLS as REFER
from harness.tasks.rvos.scoring import by_expressions
from harness.tasks.rvtbench.text import by_text
from harness.tasks.segmentation.protocols import PROTOCOLS as SEGMENTATION
from harness.types import Prediction, Sample

RUBRIC = "same_meaning"
RELAXED = 0.05
"""Relative error that ChartQA's relaxed accuracy allows."""
EQUAL = 1e-9


def score_number(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Equality, relaxed accuracy and MRA of the number that a response states; none scores 0."""
    _, target, prediction = single_answer(unit, predictions)
    truth, text = target.answer.number, answer_text(prediction)
    assert truth is not None, "the reader gives one"
    predicted = None if text is None else only_number(text)
    error = float("inf") if predicted is None else abs(predicted - truth)
    return {
        "accuracy": Mean(float(error <= EQUAL * abs(truth))),
        "relaxed_accuracy": Mean(float(error <= RELAXED * abs(truth))),
        "MRA": Mean(mean_relative_accuracy(predicted, truth)),
    }


def score_text(
    unit: Sequence[Sample],
    predictions: Sequence[Prediction],
    *,
    judge: Judge | None = None,
    is_judged: bool = False,
) -> Scores:
    """1 if a response has the words of a right text or, for a judge, its meaning."""
    sample, target, prediction = single_answer(unit, predictions)
    text = answer_text(prediction)
    truths = [target.answer.text or "", *target.references]
    right = text is not None and any(same_words(text, truth) for truth in truths)
    if text and not right and is_judged:
        if judge is None:
            raise unjudged(RUBRIC)
        case = Case(sample.query.text, text, " / ".join(truths))
        right = judgement(judge, rubric(RUBRIC), case).correct
    return {"accuracy": Mean(float(right))}


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
    about="the one number that a response states",
    beside=("relaxed_accuracy",),
    reads=read_by(lambda _, text: only_number(text)),
)
TEXT = Protocol(
    name="text/exact",
    score=score_text,
    metrics=(Metric("accuracy", about="share of responses with the words of a right text"),),
    headline="accuracy",
    ceiling=Ceiling(value=1.0),
    about="equal words but for case, blanks and a full stop at the end",
    reads=read_by(lambda _, text: text.strip() or None),
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
    "choice": letter_protocols(
        "choice",
        lmms=Reading(mcq_choice, "lmms-eval's reader of letters, mcq_extract.py"),
        strict="only a letter that the response states counts",
    ),
    "number": {NUMBER.name: NUMBER},
    "count": COUNT,
    "text": {protocol.name: protocol for protocol in (TEXT, JUDGED, CAPTION)},
    "boxes": {"rec/expression": REFER["rec/expression"], "rec/grec": GENERALISED["rec/grec"]},
    "points": share_protocols(
        "points",
        inside=(white, LMMS_FORMS, "share of the points that lie in the true region"),
    ),
    "mask": SEGMENTATION,
    "interval": INTERVAL,
    "mask_track": {TRACK.name: TRACK},
}
"""Protocols by the form of answer and their name."""
DEFAULT: Mapping[str, str] = {
    "choice": "choice/strict",
    "number": "number/stated",
    "count": "count/exact",
    "text": "text/exact",
    "boxes": "rec/grec",
    "points": "points/inside",
    "mask": "seg/lisa",
    "interval": "charades/interval",
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
    return choose("protocol", known, protocol)
