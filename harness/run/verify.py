"""Check that perfect answers reach a task's ceiling, also through a model (`harness verify`).

First, the ground truth is scored as answers, which checks reader, run-lengths, journal form and
scorer. Then it is written as *response text* in a model's grammar and coordinates, and parsed,
rescaled, segmented and propagated like a model's response, which reveals bugs of parser and
coordinates. The segmenter and the propagator are oracles: they return the true object if the prompt
names it by a box, points or the question's text, and nothing otherwise. A grammar of points is
verified less strictly than one of boxes: a wrong point is found only if it leaves the object.

For a model whose network emits masks, the network is the oracle: it emits the true objects, and all
steps after it are verified.
"""

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from harness.errors import DataError, ModelError, UsageError
from harness.interchange.journal_form import (
    answer_to_json,
    as_requested,
    prediction_from_json,
    prediction_to_json,
)
from harness.model import Model, ResponseReader
from harness.plugins import plugin_errors
from harness.responses import storable
from harness.run.answerable import check_answerable
from harness.run.batching import samples_of, select, units
from harness.run.oracle import Oracle, PerfectNetwork
from harness.run.predict import check_predictions
from harness.run.sample_cache import read_once
from harness.run.scoring import failure_of, reading_of, score_unit
from harness.run.survey import survey
from harness.run.workers import forms_of
from harness.scores import UnitScore
from harness.segmentation import MaskEmitter
from harness.summary import values
from harness.task import Task
from harness.types import Answer, Prediction, Sample

SHOWN = 5  # units below the ceiling that are listed
MAX_CHARS = 120  # characters of a response or an answer in a reason
THOUGHT = "<think>At first sight it is B, or 7, or yes, or [1, 2, 3, 4]. No.</think>\n"
"""Reasoning that contradicts the perfect response after it."""


@dataclass(frozen=True, slots=True)
class CeilingCheck:
    """The score of perfect answers in one of three ways, and the ceiling that it must reach."""

    task: str
    protocol: str
    way: str
    """`answers`, `responses` or `masks`."""
    metric: str
    value: float | None
    ceiling: float
    tolerance: float
    n: int
    """Number of units."""
    why: str
    """The card's reason for the ceiling."""
    worst: tuple[str, ...]
    """The lowest units with their scores, if the value is below the ceiling."""
    reasons: tuple[str, ...]
    """Response and parsed answer of one sample of each of these units."""
    others: Mapping[str, float | None]
    """Other metrics of a corpus that are not 1 for perfect answers: CIDEr has another scale, BLEU-4
    is about 0 if no text has four tokens."""
    reads_thoughts: bool | None = None
    """True if reasoning before a response (`THOUGHT`) changes a score, so that the model or the
    protocol reads it too; tried on `SHOWN` units. None for `answers`."""

    @property
    def is_passed(self) -> bool:
        """True if the value equals the ceiling within the tolerance."""
        return self.value is not None and abs(self.value - self.ceiling) <= self.tolerance


def verify(task: Task, reader: ResponseReader | MaskEmitter | None) -> Iterator[CeilingCheck]:
    """Yield the check of perfect answers, then the check of a model, if there is one.

    Args:
        task: The task.
        reader: A model that reads responses, which gets perfect responses and perception, or one
            that emits masks, which gets a perfect network; None: no model is checked.

    Raises:
        DataError: the ground truth is hidden, perfect answers have no known score, or the
            benchmark's files are invalid.
        UsageError: the model cannot answer some samples.
    """
    if task.submission is not None:
        raise DataError(
            f"{task.name}, split {task.split}",
            expected="ground truth to verify with",
            found="none: the organisers keep it",
            fix="Verify another split.",
        )
    task = read_once(task)
    surveyed = survey(task, select(task, None))  # raises for repeated ids and missing images
    if undeclared := frozenset().union(*surveyed.forms).difference(task.forms):
        raise DataError(
            f"forms of task {task.name}",
            expected=f"{', '.join(sorted(undeclared))} among them, because its samples ask for it",
            found=", ".join(map(str, task.forms)) or "none",
        )
    with plugin_errors(f"the ceiling of {task.name}"):
        ceiling = task.protocol.ceiling.value_over(lambda: samples_of(task))
    if ceiling is None:
        raise DataError(
            f"{task.name}, protocol {task.protocol.name}",
            expected="a known score of perfect answers",
            found=task.protocol.ceiling.why,
        )
    yield _verdict(task, "answers", ceiling, perfect)
    if reader is not None:
        if isinstance(reader, Model):
            forms = forms_of(reader)
            if refusal := check_answerable(type(reader).__name__, forms, task, surveyed):
                raise UsageError(refusal)
        if isinstance(reader, ResponseReader):
            checked = _verdict(task, "responses", ceiling, partial(through_text, reader=reader))
            yield replace(checked, reads_thoughts=_reads_thoughts(task, reader))
        else:
            yield _verdict(task, "masks", ceiling, partial(through_masks, model=reader))


def _reads_thoughts(task: Task, reader: ResponseReader) -> bool:
    """Return True if reasoning before perfect responses changes a score."""

    def scored(unit: Sequence[Sample], before: str) -> UnitScore:
        return score_unit(
            task, unit, [through_text(sample, reader, before=before) for sample in unit]
        )

    for unit in islice(units(samples_of(task)), SHOWN):
        plain = scored(unit, "")
        try:
            if scored(unit, THOUGHT) != plain:
                return True
        except ModelError:  # the model's parser raises on it
            return True
    return False


def _verdict(
    task: Task, way: str, ceiling: float, predict: Callable[[Sample], Prediction]
) -> CeilingCheck:
    """Score the predictions of all samples, and compare them with the ceiling."""
    protocol = task.protocol
    done = [score_unit(task, unit, list(map(predict, unit))) for unit in units(samples_of(task))]
    scores = values(task, done)
    value = scores[protocol.headline]
    corpora = {metric.name for metric in protocol.metrics if metric.corpus} - {protocol.headline}
    near = protocol.ceiling.tolerance or 1e-6  # BLEU adds 1e-9 to every count
    reached = value is not None and abs(value - ceiling) <= protocol.ceiling.tolerance
    worst = {} if reached else dict(_lowest_units(task, done))
    return CeilingCheck(
        task=task.name,
        protocol=protocol.name,
        way=way,
        metric=protocol.headline,
        value=value,
        ceiling=ceiling,
        tolerance=protocol.ceiling.tolerance,
        n=len(done),
        why=protocol.ceiling.why,
        worst=tuple(worst.values()),
        reasons=tuple(_reasons(task, worst, predict)),
        others={
            name: number
            for name, number in scores.items()
            if name in corpora and (number is None or abs(number - 1) > near)
        },
    )


def _lowest_units(task: Task, done: Sequence[UnitScore]) -> Iterator[tuple[str, str]]:
    """Yield (name, text with score) of the units with the lowest headline."""

    def headline(unit: UnitScore) -> float:
        value = values(task, [unit])[task.protocol.headline]
        return math.inf if value is None else value

    for unit in sorted(done, key=headline)[:SHOWN]:
        number = f"{value:.4f}" if math.isfinite(value := headline(unit)) else "no score"
        yield unit.unit, f"{unit.unit} ({number}{', failed' if unit.failed else ''})"


def _reasons(
    task: Task, worst: Container[str], predict: Callable[[Sample], Prediction]
) -> Iterator[str]:
    """Yield the reason for one sample of each worst unit, preferably one without an answer."""
    for unit in units(samples_of(task)):
        if unit[0].unit in worst:
            pairs = [(sample, predict(sample)) for sample in unit]
            failed_pairs = (pair for pair in pairs if failure_of(task, *pair) is not None)
            yield _reason(task, *next(failed_pairs, pairs[0]))


def _reason(task: Task, sample: Sample, prediction: Prediction) -> str:
    """Return the response to a sample and the step that loses its perfect answer, as text."""
    response_texts = " and ".join(repr(storable(text, MAX_CHARS)) for text in prediction.responses)
    source = f"{sample.id}: of {response_texts}, " if response_texts else f"{sample.id}: "
    if prediction.failure is not None and not response_texts:
        return (
            f"{source}the ground truth does not answer the question: {prediction.failure.message}"
        )
    if prediction.failure is not None and failure_of(task, sample, prediction) is not None:
        return f"{source}the model cannot read the response: {prediction.failure.message}"
    assert sample.target is not None, "verify refuses tasks without ground truth"
    truth = _briefly(sample.target.answer)
    reading_text = _briefly(prediction.answer or Answer())
    if failure_of(task, sample, prediction) is not None:
        protocol = f"the protocol {task.protocol.name} reads no answer"
        return f"{source}{protocol}; the model reads {reading_text}"
    reading = reading_of(task, sample, prediction)
    if reading is not None and reading is not True:
        reading_text = f"{reading_text}, the protocol {task.protocol.name} {reading!r:.{MAX_CHARS}}"
    return f"{source}the model reads {reading_text}; the truth is {truth}"


def _briefly(answer: Answer) -> str:
    """Return the fields of an answer as text; of masks only their number."""
    parts = []
    for name, value in answer_to_json(answer).items():
        if isinstance(value, list) and "mask" in name:
            parts.append(f"{len(value)} {name}")
        elif value not in (None, False):
            parts.append(f"{name} {value!r:.{MAX_CHARS}}")
    return ", ".join(parts) or "an empty answer"


def perfect(sample: Sample) -> Prediction:
    """Return the target's answer as a prediction, converted to the journal's form and back."""
    assert sample.target is not None, "verify refuses tasks without ground truth"
    answer = as_requested(sample.query, sample.target.answer)
    with plugin_errors(f"the ground truth of {sample.id}"):
        prediction = Prediction(query_id=sample.query.id, answer=answer)
        restored = prediction_from_json(prediction_to_json(prediction))
    return check_predictions([sample.query], [restored])[0]  # as an evaluation does


def through_text(sample: Sample, reader: ResponseReader, *, before: str = "") -> Prediction:
    """Return the target's answer, written as a response and parsed with oracle perception.

    `before` is put before the last response.
    """
    assert sample.target is not None, "verify refuses tasks without ground truth"
    oracle = Oracle(sample.target, sample.query.media[0], sample.query.text)
    with plugin_errors(f"model {type(reader).__name__} on {sample.id}", ModelError):
        seeing = reader.with_perception(oracle, oracle)
        *earlier, last = seeing.write(sample.query, sample.target.answer)
        reading = seeing.read(sample.query, (*earlier, before + last))
        return check_predictions([sample.query], [reading])[0]  # as an evaluation does


def through_masks(sample: Sample, model: MaskEmitter) -> Prediction:
    """Return the prediction of a model whose network is perfect."""
    assert sample.target is not None, "verify refuses tasks without ground truth"
    with plugin_errors(f"model {type(model).__name__} on {sample.id}", ModelError):
        texts = model.write(sample.query, sample.target.answer)
        network = PerfectNetwork(sample.target.answer, texts)
        return check_predictions(
            [sample.query], model.with_network(network).predict([sample.query])
        )[0]
