"""Attribute the loss of masks to stages: replace one stage after another by the ground truth.

A response names a frame and objects in it. A segmenter makes their masks in this frame, and a
propagator carries them to the other frames. The ladder leads from a run's score to that of perfect
answers. Each rung corrects one kind of fault, and the change of the score is the cost of this
fault. Prompts are matched with the true objects of their frame by the overlap of boxes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import cv2
import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.errors import UsageError
from harness.leaderboards.differences.diff import TODAY, Difference
from harness.leaderboards.differences.mixed_reading import reader_of
from harness.leaderboards.differences.scoring import samples_by_unit, task_for
from harness.leaderboards.differences.steps import Walk
from harness.masks import BoolArray, Track
from harness.metrics.boxes import box_iou
from harness.model import PartedReader
from harness.record import Run
from harness.run.oracle import components, mask_with_box
from harness.run.scoring import score_unit
from harness.run.verify import perfect
from harness.scores import UnitScore
from harness.segmentation import ObjectPrompt
from harness.types import Answer, AnswerForm, Box, Parsed, ParsedObject, Point, Prediction, Sample

RUNGS: Mapping[str, str] = {
    "truncated": "the limit of new tokens cut the response off",
    "unreadable": "no answer could be read",
    "wrong time": "the frame that was named does not show the target",
    "wrong thing": "a wrong object (no overlap with a true one) instead of a true one",
    "extra": "additional objects that overlap no true one",
    "missed": "true objects that no prompt names",
    "wrong extent": "boxes of the right object, with the wrong extent",
    "wrong point": "points away from the middle of the object",
    "wrong mask": "the segmenter's masks of right prompts",
    "drift": "what the propagator loses from true masks in the key frame",
}
"""Descriptions of the faults, in the order in which they are corrected."""
PARTS = {"wrong mask": "segmenter", "drift": "propagator"}
"""Part of the model that causes a fault; all other faults are the network's."""
ALONE: Mapping[str, tuple[str, ...]] = {
    "frame": ("wrong time",),
    "count": ("extra", "missed"),
    "box": ("wrong thing", "wrong extent"),
    "point": ("wrong point",),
    "mask at the key frame": ("wrong mask",),
}
"""Faults that are corrected together if one stage alone is replaced by the ground truth."""
MIN_OVERLAP = 0.1
"""Smallest IoU of boxes at which a prompt names an object: TIDE's threshold of background (Bolya
2020)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The steps from a run's number to that of perfect answers."""

    way: Difference
    alone: Mapping[str, float | None]
    """The number with only one stage replaced by the ground truth, by stage."""

    @property
    def by_part(self) -> dict[str, float]:
        """The loss due to each part of the model; the losses add up to the run's loss."""
        losses = dict.fromkeys(("network", "segmenter", "propagator"), 0.0)
        for step in self.way.steps:
            if step.name in RUNGS:
                losses[PARTS.get(step.name, "network")] += step.points
        return losses


@dataclass(frozen=True, slots=True)
class _Truth:
    """A true object in the key frame, with coordinates in pixels of the frame."""

    box: Box
    mask: BoolArray

    def prompt(self, like: ParsedObject) -> ParsedObject:
        """Return a prompt for the object that has a box, points and a phrase as `like` does."""
        return ParsedObject(
            box=None if like.box is None and like.positive else self.box,
            positive=(self.middle,) if like.positive else (),
            phrase=like.phrase,
        )

    @property
    def middle(self) -> Point:
        """The pixel of the object that is farthest from its border."""
        padded = np.pad(self.mask.astype(np.uint8), 1)
        distances = cv2.distanceTransform(padded, cv2.DIST_L2, 5)
        row, column = np.unravel_index(int(np.argmax(distances)), distances.shape)
        return Point(float(column - 1), float(row - 1))


@dataclass(frozen=True, slots=True)
class _Prompt:
    """One object of a response, and the true object that it is matched with."""

    object_: ParsedObject
    truth: _Truth | None = None
    uses_true_mask: bool = False
    """Use the true mask instead of the segmenter's."""


@dataclass
class _Corrector:
    """Makes a run's predictions again with some kinds of faults (`RUNGS`) corrected."""

    run: Run
    reader: PartedReader
    like: ParsedObject
    """A prompt as the run's responses have it, for objects that they miss."""
    cached: dict[str, tuple[object, Prediction]] = field(default_factory=dict)
    """Last prediction of each sample, with the key of its prompts."""

    def predict(self, sample: Sample, corrected: frozenset[str]) -> Prediction:
        """Return the prediction with the faults `corrected` replaced by the ground truth."""
        if "drift" in corrected:
            return perfect(sample)
        recorded = self.run.prediction(sample.id)
        (parsed,) = recorded.parsed or (None,)
        if recorded.answer is None or parsed is None or parsed.error:
            is_cut = any(response.cut for response in recorded.parsed)
            fault = "truncated" if is_cut else "unreadable"
            return perfect(sample) if fault in corrected else recorded
        start, prompts = self._prompts(sample, parsed, corrected)
        prompts_key = _key(start, prompts)
        if prompts_key == _key(*self._prompts(sample, parsed, frozenset())):
            return recorded
        cached = self.cached.get(sample.id)
        if cached is None or cached[0] != prompts_key:
            prediction = self._segment(sample, recorded, parsed, start, prompts)
            cached = self.cached[sample.id] = (prompts_key, prediction)
        return cached[1]

    def _prompts(
        self, sample: Sample, parsed: Parsed, corrected: frozenset[str]
    ) -> tuple[int, list[_Prompt]]:
        """Return the key frame and its prompts with the faults `corrected` corrected."""
        assert sample.target is not None, "a scored run has ground truth"
        answer, start = sample.target.answer, parsed.frame or 0
        areas = [mask.area for mask in answer.masks or ()]
        is_phrase = bool(parsed.phrase) and not parsed.objects
        objects = [ParsedObject()] if is_phrase else list(parsed.objects)
        if any(areas) and not areas[start] and objects:
            if "wrong time" not in corrected:
                return start, [_Prompt(object_) for object_ in objects]
            start = int(np.argmax(areas))
            if not is_phrase:
                truths = _truths(answer, start, len(objects))
                prompts = [_Prompt(truth.prompt(self.like), truth) for truth in truths]
                return start, [_corrected(prompt, corrected) for prompt in prompts]
        if is_phrase:  # the phrase names all targets, so there is nothing to match
            if "wrong mask" not in corrected:
                return start, [_Prompt(ParsedObject())]
            truths = _truths(replace(answer, instances=None), start, 1)
            return start, [_Prompt(ParsedObject(), truth, uses_true_mask=True) for truth in truths]
        truths = _truths(answer, start, len(objects))
        matched, unmatched, missed = _match(objects, truths)
        prompts = [_Prompt(object_, matched.get(index)) for index, object_ in enumerate(objects)]
        n_wrong = min(len(unmatched), len(missed))
        for index, truth in zip(unmatched[:n_wrong], missed[:n_wrong], strict=True):
            if "wrong thing" in corrected:
                prompts[index] = _Prompt(truth.prompt(objects[index]), truth)
        if "extra" in corrected:
            dropped = set(unmatched[n_wrong:])
            prompts = [prompt for index, prompt in enumerate(prompts) if index not in dropped]
        if "missed" in corrected:
            if any(areas) and not truths:  # no object is named, in a frame without targets
                start = int(np.argmax(areas))
                missed = _truths(answer, start, 0)
            prompts += [_Prompt(truth.prompt(self.like), truth) for truth in missed[n_wrong:]]
        return start, [_corrected(prompt, corrected) for prompt in prompts]

    def _segment(
        self,
        sample: Sample,
        recorded: Prediction,
        parsed: Parsed,
        start: int,
        prompts: Sequence[_Prompt],
    ) -> Prediction:
        """Segment the prompts in frame `start`, unless they use true masks, and propagate them."""
        media = sample.query.media[0]
        segmenter_prompts = [
            ObjectPrompt(
                box=prompt.object_.box,
                positive=prompt.object_.positive,
                negative=prompt.object_.negative,
                phrase=prompt.object_.phrase or parsed.phrase,
            )
            for prompt in prompts
            if not prompt.uses_true_mask
        ]
        segmented = iter(
            self.reader.segmenter.segment(media.frame(start), segmenter_prompts)
            if segmenter_prompts
            else ()
        )
        masks = [
            prompt.truth.mask if prompt.uses_true_mask and prompt.truth else next(segmented)
            for prompt in prompts
        ]
        tracks: Sequence[Sequence[BoolArray]] = [[mask] for mask in masks]
        if masks and len(media) > 1:
            tracks = self.reader.propagator.propagate(media, start, masks)
        joint = Track(len(media), media.size[1], media.size[0])
        for index, frame in enumerate(zip(*tracks, strict=True)):
            joint[index] = np.logical_or.reduce(frame)
        boxes = tuple(prompt.object_.box for prompt in prompts if prompt.object_.box is not None)
        is_single_image = len(media) == 1 and len(boxes) == len(prompts)
        answer = Answer(
            masks=joint.rles, boxes=boxes if is_single_image else None, no_target=not prompts
        )
        return replace(recorded, answer=answer)


def _key(start: int, prompts: Sequence[_Prompt]) -> object:
    """Return a key that is equal for prompts that get equal masks."""
    return start, tuple((prompt.object_, prompt.uses_true_mask) for prompt in prompts)


def _corrected(prompt: _Prompt, corrected: frozenset[str]) -> _Prompt:
    """Return a matched prompt with its box, points or mask corrected; others are unchanged."""
    truth, object_ = prompt.truth, prompt.object_
    if truth is None:
        return prompt
    if "wrong extent" in corrected and object_.box is not None:
        object_ = replace(object_, box=truth.box)
    if "wrong point" in corrected and object_.positive:
        object_ = replace(object_, positive=(truth.middle,), negative=())
    return replace(prompt, object_=object_, uses_true_mask="wrong mask" in corrected)


def _truths(answer: Answer, start: int, n_named: int) -> list[_Truth]:
    """Return the true objects in frame `start`.

    Without instances, the mask is one object if the response names at most one (`n_named`), and
    otherwise each connected part of the mask is an object.
    """
    if answer.masks is None or not answer.masks[start].area:
        return []
    if answer.instances is not None:
        return [
            _Truth(*mask_with_box(instance[start]))
            for instance in answer.instances
            if instance[start].area
        ]
    if n_named <= 1:
        return [_Truth(*mask_with_box(answer.masks[start]))]
    return [_Truth(*component) for component in components(answer.masks[start].to_array())]


def _match(
    objects: Sequence[ParsedObject], truths: Sequence[_Truth]
) -> tuple[dict[int, _Truth], list[int], list[_Truth]]:
    """Match prompts with true objects, one to one, by the largest total overlap.

    Returns:
        The true object of each matched prompt by the prompt's index, the indices of unmatched
        prompts, and the unmatched true objects.
    """
    overlap = np.array([[_overlap(object_, truth) for truth in truths] for object_ in objects])
    matches: dict[int, int] = {}
    if overlap.size:
        rows, columns = linear_sum_assignment(-overlap)
        pairs = zip(rows.tolist(), columns.tolist(), strict=True)
        matches = {row: column for row, column in pairs if overlap[row, column] >= MIN_OVERLAP}
    unmatched = [index for index in range(len(objects)) if index not in matches]
    missed = [truth for index, truth in enumerate(truths) if index not in matches.values()]
    return {row: truths[column] for row, column in matches.items()}, unmatched, missed


def _overlap(object_: ParsedObject, truth: _Truth) -> float:
    """Return the IoU of the boxes or, without a box, the share of points on the object."""
    if object_.box is not None:
        return float(box_iou([truth.box], [object_.box])[0, 0])
    points_on_object = [bool(truth.mask[int(point.y), int(point.x)]) for point in object_.positive]
    return sum(points_on_object) / len(points_on_object) if points_on_object else 0.0


def ladder(run: Run, *, data_root: Path | None = None, level: float = 0.95) -> Ladder:
    """Replace one stage of a run after another by the ground truth.

    Raises:
        UsageError: the task has answers other than masks, or the model has no such stages.
    """
    task, reader = task_for(run, data_root), reader_of(run)
    units = list(samples_by_unit(task, run))
    mask_forms = (AnswerForm.MASK, AnswerForm.MASK_TRACK)
    forms = {form for unit in units for sample in unit for form in sample.query.forms}
    if not forms <= set(mask_forms):
        raise UsageError(
            f"a ladder of {task.name}", expected="a task of masks", found=", ".join(sorted(forms))
        )
    if reader is None:
        raise UsageError(
            f"a ladder of {run.manifest['model']['spec']}",
            expected="a model whose responses have objects for a segmenter",
            found="another",
        )
    corrector = _Corrector(run, reader, _usual_prompt(run, units))

    def scored(*faults: str) -> list[UnitScore]:
        corrected = frozenset(faults)
        return [
            score_unit(task, unit, [corrector.predict(sample, corrected) for sample in unit])
            for unit in units
        ]

    walk = Walk(task, level, tuple(run.units()))
    walk.step(TODAY, scored(), (), always=False)
    rungs = list(RUNGS)
    for index, name in enumerate(rungs):
        walk.step(name, scored(*rungs[: index + 1]), (), always=False)
    values, headline = run.results["metrics"], run.results["headline"]
    way = Difference(
        a=run.manifest["model"]["name"],
        b="perfect answers",
        task=f"{task.name} {task.split}",
        headline=headline,
        first=values[headline],
        second=walk.value,
        n_samples=run.results["n_total"],
        steps=tuple(walk.steps),
        level=level,
    )
    alone = {name: Walk(task, level, scored(*faults)).value for name, faults in ALONE.items()}
    return Ladder(way=way, alone=alone)


def _usual_prompt(run: Run, units: Sequence[Sequence[Sample]]) -> ParsedObject:
    """Return a prompt that has a box and points if the run's responses have them."""
    parsed = [
        response
        for unit in units
        for sample in unit
        for response in run.prediction(sample.id).parsed
    ]
    objects = [object_ for response in parsed for object_ in response.objects]
    return ParsedObject(
        box=next((object_.box for object_ in objects if object_.box), None),
        positive=next((object_.positive for object_ in objects if object_.positive), ()),
    )
