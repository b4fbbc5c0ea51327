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

import cv2
import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.chat import ChatRequest
from harness.errors import DataError, ModelError, UsageError
from harness.interchange import (
    answer_to_json,
    as_requested,
    prediction_from_json,
    prediction_to_json,
)
from harness.masks import BoolArray, Rle, Track
from harness.media import Frame, Media
from harness.model import Model, ResponseReader
from harness.plugins import plugin_errors
from harness.record import values
from harness.responses import storable
from harness.run.batching import samples_of, select, units
from harness.run.evaluate import check_answerable
from harness.run.predict import check_predictions
from harness.run.preflight import read_once, survey
from harness.run.scoring import failure_of, reading_of, score_unit
from harness.run.workers import forms_of
from harness.scores import UnitScore
from harness.segmentation import (
    Instance,
    MaskEmitter,
    MaskResponse,
    ObjectPrompt,
    Propagator,
    Segmenter,
)
from harness.task import Task
from harness.types import Answer, Box, Point, Prediction, Sample, Target
from harness.world.raster import edges

CANVAS = 840  # the coarsest coordinates that a grammar is expected to have, in steps a side
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
    texts = model.write(sample.query, sample.target.answer)
    (prediction,) = model.with_network(PerfectNetwork(sample.target.answer, texts)).predict(
        [sample.query]
    )
    return prediction


@dataclass(frozen=True)
class PerfectNetwork:
    """A network that emits the true objects."""

    answer: Answer
    texts: Sequence[str]

    def generate(self, requests: Sequence[ChatRequest]) -> list[MaskResponse]:
        """Return one response for each request: its text, and a track for each object."""
        prediction = zip(requests, self.texts, strict=True)
        return [
            MaskResponse(text=text, masks=self._tracks(request.media[0]))
            for request, text in prediction
        ]

    def _tracks(self, media: Media) -> list[Track]:
        answer = self.answer
        if answer.no_target:
            return []
        if answer.masks is None:
            return [_filled_track(answer.box_track or (None,) * len(media), media.size)]
        return [_track(masks) for masks in answer.instances or (answer.masks,)]


def _track(masks: Sequence[Rle]) -> Track:
    track = Track(len(masks), masks[0].height, masks[0].width)
    for index, mask in enumerate(masks):
        track[index] = mask.to_array()
    return track


def _filled_track(boxes: Sequence[Box | None], size: tuple[int, int]) -> Track:
    """A track of filled boxes; edges between pixels are rounded."""
    track = Track(len(boxes), size[1], size[0])
    for index, box in enumerate(boxes):
        mask = np.zeros((size[1], size[0]), dtype=np.bool_)
        if box is not None:
            left, top, right, bottom = (max(0, round(edge)) for edge in box)
            mask[top:bottom, left:right] = True
        track[index] = mask
    return track


@dataclass(frozen=True)
class Oracle(Segmenter, Propagator):
    """Segments and propagates the ground truth, for prompts that name it.

    The objects are the true instances (where those are not known, the connected parts of the true
    mask). A prompt names one if its box, where it has one, agrees on every side within what
    coordinates of `CANVAS` steps can tell apart, and its positive points, where it has some, lie on
    the object within the same. Prompts and objects are matched one to one: as many as can be, and
    of those matchings the nearest (by edges of boxes, else by the distance of points). So a point
    that lies on two objects is taken for the one that no other prompt names. A prompt that is left
    over names its nearest object again.

    A prompt of a phrase alone names all objects together if the phrase is the question's text, but
    for case and blanks around it.
    """

    target: Target
    media: Media
    text: str = ""
    """Text of the question."""

    @property
    def name(self) -> str:
        """A short name for records."""
        return "oracle"

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Return the part of the ground truth that each prompt names; an empty mask for a prompt
        that names none.
        """
        best: list[BoolArray] = []
        for objects in self._ground_truths(image):
            masks = self._find_masks(prompts, objects, image)
            if not best or sum(map(np.any, masks)) > sum(map(np.any, best)):
                best = masks
        return best

    def find_instances(self, image: Frame, phrase: str) -> list[Instance]:
        """Return all objects together, as one, if the phrase is the question's text."""
        masks = self.segment(image, [ObjectPrompt(phrase=phrase)])
        return [Instance(mask, 1.0) for mask in masks if mask.any()]

    def _find_masks(
        self,
        prompts: Sequence[ObjectPrompt],
        objects: Sequence[tuple[Box, BoolArray]],
        image: Frame,
    ) -> list[BoolArray]:
        masks = [part for _, part in objects]
        nothing = np.zeros(image.shape[:2], dtype=np.bool_)
        everything = np.logical_or.reduce([nothing, *masks])
        named = _prompted_part([prompt for prompt in prompts if _is_placed(prompt)], objects, image)
        parts = []
        for prompt in prompts:
            if _is_placed(prompt):
                chosen = next(named)
                parts.append(nothing if chosen is None else masks[chosen])
            else:
                parts.append(everything if self._is_requested(prompt.phrase) else nothing)
        return parts

    def _is_requested(self, phrase: str) -> bool:
        return bool(phrase.strip()) and phrase.strip().casefold() == self.text.strip().casefold()

    def _ground_truths(self, image: Frame) -> Iterator[list[tuple[Box, BoolArray]]]:
        """The true objects of the frames that look like this (still videos repeat frames)."""
        answer = self.target.answer
        for index, mask in enumerate(answer.masks or ()):
            if np.array_equal(self.media.frame(index), image):
                known = answer.instances
                yield (
                    components(mask.to_array())
                    if known is None
                    else [mask_with_box(track[index]) for track in known if track[index].area]
                )

    def propagate(self, video: Media, start: int, masks: Sequence[BoolArray]) -> list[Track]:
        """Return the true track if all masks together are the true one at `start`, else nothing."""
        known = self.target.answer.masks or ()
        nothing = Track(len(known), video.size[1], video.size[0])
        ground_truth = _track(known)  # as a propagator's masks are encoded, not as read
        right = bool(masks) and np.array_equal(
            np.logical_or.reduce(list(masks)), ground_truth[start]
        )
        return [ground_truth if right and index == 0 else nothing for index, _ in enumerate(masks)]


def mask_with_box(mask: Rle) -> tuple[Box, BoolArray]:
    """A mask that is not empty, with the box around all of it (right and bottom exclusive)."""
    array = mask.to_array()
    return Box(*map(float, edges(array))), array


def components(mask: BoolArray) -> list[tuple[Box, BoolArray]]:
    """The 8-connected parts of a mask, each with its box (right and bottom exclusive)."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        mask.astype(np.uint8), connectivity=8
    )
    parts = []
    for label in range(1, count):
        left, top, width, height = (float(number) for number in np.asarray(stats)[label, :4])
        parts.append((Box(left, top, left + width, top + height), np.asarray(labels) == label))
    return parts


def _is_placed(prompt: ObjectPrompt) -> bool:
    return prompt.box is not None or bool(prompt.positive)


def _prompted_part(
    prompts: Sequence[ObjectPrompt], parts: Sequence[tuple[Box, BoolArray]], image: Frame
) -> Iterator[int | None]:
    """Yield the number of the part that each prompt names; None for one that names none."""
    height, width = image.shape[:2]
    reach = (width / CANVAS + 1.5, height / CANVAS + 1.5)
    far = np.full((len(prompts), len(parts)), np.inf)
    for row, prompt in enumerate(prompts):
        for number, (box, part) in enumerate(parts):
            if (prompt.box is None or _close(prompt.box, box, reach)) and all(
                _hits(point, part, reach) for point in prompt.positive
            ):
                far[row, number] = _far(prompt, box, part)
    fits = np.isfinite(far)
    # Whatever does not fit costs more than all that fits together: no fit is given up for it.
    unfit = 1.0 + far[fits].max(initial=0.0) * (1 + min(far.shape))
    matched = dict(zip(*linear_sum_assignment(np.where(fits, far, unfit)), strict=True))
    for row in range(len(prompts)):
        chosen = matched.get(row)
        if chosen is None or not fits[row, chosen]:
            chosen = np.argmin(far[row]) if fits[row].any() else None
        yield None if chosen is None else int(chosen)


def _far(prompt: ObjectPrompt, box: Box, part: BoolArray) -> float:
    """Pixels between a prompt and an object that it fits: of edges, else of its farthest point."""
    if prompt.box is not None:
        return _distance(prompt.box, box)
    return max(_off(point, part) for point in prompt.positive)


def _off(point: Point, part: BoolArray) -> float:
    """The distance of a point from the nearest pixel of a part that is not empty; 0: on it."""
    row, column = round(point.y), round(point.x)
    if 0 <= row < part.shape[0] and 0 <= column < part.shape[1] and part[row, column]:
        return 0.0
    rows, columns = np.nonzero(part)
    return float(np.hypot(rows - point.y, columns - point.x).min())


def _distance(first: Box, second: Box) -> float:
    return max(abs(a - b) for a, b in zip(first, second, strict=True))


def _close(first: Box, second: Box, reach: tuple[float, float]) -> bool:
    steps = (*reach, *reach)
    return all(abs(a - b) <= step for a, b, step in zip(first, second, steps, strict=True))


def _hits(point: Point, part: BoolArray, reach: tuple[float, float]) -> bool:
    """Return True if a point lies within `reach` (x, y), in pixels, of a part."""
    rows = _span(point.y, reach[1], part.shape[0])
    columns = _span(point.x, reach[0], part.shape[1])
    return bool(part[rows, columns].any())


def _span(centre: float, reach: float, limit: int) -> slice:
    return slice(max(0, math.floor(centre - reach)), min(limit, math.ceil(centre + reach) + 1))
