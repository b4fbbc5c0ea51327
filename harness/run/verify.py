"""`harness verify`: perfect answers must reach the ceiling of a task's card.

First as answers, which checks reader, run-lengths, journal form and scorer. Then as *response
text*: the perfect answer is written in a model's grammar and coordinates, then parsed, rescaled,
segmented and propagated like a model's response, so that no parser or coordinate bug can hide. The
segmenter and the propagator are oracles: they give the true object if the prompt names it, and
nothing if it does not.

A prompt names an object by its box, by points on it, or by the words of the question. The less a
grammar says, the less is verified: a box that is off by a pixel too many is missed, a point that
is off is missed only where it leaves the object.

For a model whose network emits masks, the network is the oracle: it emits the true objects, and
all that follows it is verified.
"""

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
from harness.run.preflight import read_once, survey
from harness.run.scoring import failure_of, reading_of, score_unit
from harness.run.workers import forms_of
from harness.scores import UnitScore
from harness.segmentation import MaskEmitter
from harness.summary import values
from harness.task import Task
from harness.types import Answer, Prediction, Sample

SHOWN = 5
LONGEST = 120  # characters of a response or an answer that a reason shows


@dataclass(frozen=True, slots=True)
class CeilingCheck:
    """The score of perfect answers along one way, and the task's ceiling that it must reach."""

    task: str
    protocol: str
    way: str
    """`answers`, `responses` or `masks`."""
    metric: str
    value: float | None
    ceiling: float
    tolerance: float
    n: int
    why: str
    worst: tuple[str, ...]
    """Ids of units below the ceiling, if the whole is below it."""
    reasons: tuple[str, ...]
    """Response and parsed answer of one sample of each of these units."""
    others: Mapping[str, float | None]
    """Other numbers of a corpus that perfect answers do not bring to 1: CIDEr has another scale,
    BLEU-4 is about 0 where no text has four tokens."""

    @property
    def is_passed(self) -> bool:
        """Return True if the value is the ceiling's, within its stated tolerance."""
        return self.value is not None and abs(self.value - self.ceiling) <= self.tolerance


def verify(task: Task, reader: ResponseReader | MaskEmitter | None) -> Iterator[CeilingCheck]:
    """Score perfect answers: directly, and through `reader` if one is given.

    A reader is given perfect responses and perception, a model that emits masks a perfect network.

    Raises:
        DataError: the ground truth is hidden, perfect answers have no known score, or the
            benchmark's files are not as they should be.
    """
    if task.submission is not None:
        raise DataError(
            f"{task.name}, split {task.split}",
            expected="ground truth to verify with",
            found="none: the organisers keep it",
            fix="Verify another split.",
        )
    task = read_once(task)
    surveyed = survey(task, select(task, None))  # nothing twice, nothing missing
    if undeclared := frozenset().union(*surveyed.forms).difference(task.forms):
        raise DataError(
            f"forms of task {task.name}",
            expected=f"{', '.join(sorted(undeclared))} among them, as its samples ask for",
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
            if lost := check_answerable(type(reader).__name__, forms, task, surveyed):
                raise UsageError(lost)
        if isinstance(reader, ResponseReader):
            yield _verdict(task, "responses", ceiling, partial(through_text, reader=reader))
        else:
            yield _verdict(task, "masks", ceiling, partial(through_masks, model=reader))


def _verdict(
    task: Task, way: str, ceiling: float, predict: Callable[[Sample], Prediction]
) -> CeilingCheck:
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
    """Yield the names of the units with the lowest headline, and as they are shown."""

    def headline(unit: UnitScore) -> float:
        value = values(task, [unit])[task.protocol.headline]
        return math.inf if value is None else value

    for unit in sorted(done, key=headline)[:SHOWN]:
        number = f"{value:.4f}" if math.isfinite(value := headline(unit)) else "no score"
        yield unit.unit, f"{unit.unit} ({number}{', failed' if unit.failed else ''})"


def _reasons(
    task: Task, worst: Container[str], predict: Callable[[Sample], Prediction]
) -> Iterator[str]:
    """Yield what was written and read of a sample of each unit: one without an answer, if any."""
    for unit in units(samples_of(task)):
        if unit[0].unit in worst:
            pairs = [(sample, predict(sample)) for sample in unit]
            lost = (pair for pair in pairs if failure_of(task, *pair) is not None)
            yield _reason(task, *next(lost, pairs[0]))


def _reason(task: Task, sample: Sample, prediction: Prediction) -> str:
    """Return why a perfect answer has no full score, as far as a prediction shows it."""
    written = " and ".join(repr(storable(text, LONGEST)) for text in prediction.responses)
    of = f"{sample.id}: of {written}, " if written else f"{sample.id}: "
    if prediction.failure is not None and not written:
        return f"{of}the ground truth does not answer the question: {prediction.failure.message}"
    if prediction.failure is not None and failure_of(task, sample, prediction) is not None:
        return f"{of}the model reads nothing: {prediction.failure.message}"
    assert sample.target is not None, "verify refuses tasks without ground truth"
    truth = _briefly(sample.target.answer)
    read = _briefly(prediction.answer or Answer())
    if failure_of(task, sample, prediction) is not None:
        return f"{of}the protocol {task.protocol.name} reads no answer; the model reads {read}"
    reading = reading_of(task, sample, prediction)
    if reading is not None and reading is not True:
        read = f"{read}, the protocol {task.protocol.name} {reading!r:.{LONGEST}}"
    return f"{of}the model reads {read}; the truth is {truth}"


def _briefly(answer: Answer) -> str:
    """Return the fields of an answer that were given; of masks how many."""
    shown = []
    for name, value in answer_to_json(answer).items():
        if isinstance(value, list) and "mask" in name:
            shown.append(f"{len(value)} {name}")
        elif value not in (None, False):
            shown.append(f"{name} {value!r:.{LONGEST}}")
    return ", ".join(shown) or "an empty answer"


def perfect(sample: Sample) -> Prediction:
    """Return the target's own answer, through the form in which the journal keeps it."""
    assert sample.target is not None, "verify refuses tasks without ground truth"
    answer = as_requested(sample.query, sample.target.answer)
    with plugin_errors(f"the ground truth of {sample.id}"):
        prediction = Prediction(query_id=sample.query.id, answer=answer)
        kept = prediction_from_json(prediction_to_json(prediction))
    return check_predictions([sample.query], [kept])[0]  # as an evaluation does


def through_text(sample: Sample, reader: ResponseReader) -> Prediction:
    """Return the target's answer, written as a response and read again with oracle perception."""
    assert sample.target is not None, "verify refuses tasks without ground truth"
    oracle = Oracle(sample.target, sample.query.media[0], sample.query.text)
    with plugin_errors(f"model {type(reader).__name__} on {sample.id}", ModelError):
        seeing = reader.with_perception(oracle, oracle)
        read = seeing.read(sample.query, seeing.write(sample.query, sample.target.answer))
        return check_predictions([sample.query], [read])[0]  # as an evaluation does


def through_masks(sample: Sample, model: MaskEmitter) -> Prediction:
    """Return the target's answer as emitted by a perfect network, through all that follows it."""
    assert sample.target is not None, "verify refuses tasks without ground truth"
    with plugin_errors(f"model {type(model).__name__} on {sample.id}", ModelError):
        texts = model.write(sample.query, sample.target.answer)
        network = PerfectNetwork(sample.target.answer, texts)
        return check_predictions(
            [sample.query], model.with_network(network).predict([sample.query])
        )[0]
