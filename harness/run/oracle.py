"""Oracles for `verify`: a segmenter and propagator that know the ground truth, and a network.

Masks are (height, width) arrays of bool; boxes and points are in pixels of the image, with right
and bottom exclusive.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.chat import ChatRequest
from harness.masks import BoolArray, Rle, Track
from harness.media import Frame, Media
from harness.segmentation import Instance, MaskResponse, ObjectPrompt, Propagator, Segmenter
from harness.types import Answer, Box, Point, Target
from harness.world.raster import edges

CANVAS = 840  # steps a side of the coarsest coordinates that a grammar may have


@dataclass(frozen=True)
class PerfectNetwork:
    """A network that emits the masks of the true objects, with given response texts."""

    answer: Answer
    texts: Sequence[str]

    def generate(self, requests: Sequence[ChatRequest]) -> list[MaskResponse]:
        """Return one response for each request: its text, and a track for each object."""
        return [
            MaskResponse(text=text, masks=self._tracks(request.media[0]))
            for request, text in zip(requests, self.texts, strict=True)
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
    """Return a track of filled boxes; edges are rounded to pixels. `size` is (width, height)."""
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

    The objects are the true instances or, if they are not known, the connected parts of the true
    mask. A prompt fits an object if each side of its box agrees within one step of `CANVAS`
    coordinates, and its positive points lie on the object within one step. Prompts and objects are
    matched one to one: as many as possible and, of such matchings, the nearest (by box edges, else
    by points). So a point on two objects names the one that no other prompt names. An unmatched
    prompt names its nearest fitting object again. A prompt that is alone may also name all objects
    together, by the box around them, as grammars of one object do.

    A prompt with a phrase alone names all objects together if the phrase is the question's text,
    apart from case and surrounding blanks.
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
        """Return the mask of the objects that each prompt names; empty if it names none."""
        best_masks: list[BoolArray] = []
        for objects in self._ground_truths(image):
            masks = self._find_masks(prompts, objects, image)
            if not best_masks or sum(map(np.any, masks)) > sum(map(np.any, best_masks)):
                best_masks = masks
        return best_masks

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
        """Return one true mask (height, width) for each prompt, empty if it fits no object."""
        masks = [part for _, part in objects]
        nothing = np.zeros(image.shape[:2], dtype=np.bool_)
        everything = np.logical_or.reduce([nothing, *masks])
        placed = [prompt for prompt in prompts if _is_placed(prompt)]
        if len(placed) == 1 and len(objects) > 1:
            objects = [*objects, (Box(*map(float, edges(everything))), everything)]
            masks.append(everything)
        object_of_placed = _prompted_part(placed, objects, image)
        parts = []
        for prompt in prompts:
            if _is_placed(prompt):
                chosen = next(object_of_placed)
                parts.append(nothing if chosen is None else masks[chosen])
            else:
                parts.append(everything if self._is_requested(prompt.phrase) else nothing)
        return parts

    def _is_requested(self, phrase: str) -> bool:
        return bool(phrase.strip()) and phrase.strip().casefold() == self.text.strip().casefold()

    def _ground_truths(self, image: Frame) -> Iterator[list[tuple[Box, BoolArray]]]:
        """Yield the true objects of each frame that equals `image`; still videos repeat frames."""
        answer = self.target.answer
        for index, mask in enumerate(answer.masks or ()):
            if not np.array_equal(self.media.frame(index), image):
                continue
            if answer.instances is None:
                yield components(mask.to_array())
            else:
                tracks = answer.instances
                yield [mask_with_box(track[index]) for track in tracks if track[index].area]

    def propagate(self, video: Media, start: int, masks: Sequence[BoolArray]) -> list[Track]:
        """Return the true track for the first mask, if all masks together are the true mask.

        `masks` are those of frame `start`. All other tracks are empty.
        """
        true_masks = self.target.answer.masks or ()
        nothing = Track(len(true_masks), video.size[1], video.size[0])
        ground_truth = _track(true_masks)  # encoded as a propagator's masks are
        is_right = bool(masks) and np.array_equal(
            np.logical_or.reduce(list(masks)), ground_truth[start]
        )
        return [ground_truth if is_right and i == 0 else nothing for i, _ in enumerate(masks)]


def mask_with_box(mask: Rle) -> tuple[Box, BoolArray]:
    """Return a mask that is not empty as an array, with the box around it."""
    array = mask.to_array()
    return Box(*map(float, edges(array))), array


def components(mask: BoolArray) -> list[tuple[Box, BoolArray]]:
    """Return the 8-connected parts of a mask, each with its box."""
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
    # One step of the coordinates, and 1.5 pixels for rounding.
    reach = (width / CANVAS + 1.5, height / CANVAS + 1.5)
    distances = np.full((len(prompts), len(parts)), np.inf)
    for row, prompt in enumerate(prompts):
        for number, (box, part) in enumerate(parts):
            if (prompt.box is None or _close(prompt.box, box, reach)) and all(
                _hits(point, part, reach) for point in prompt.positive
            ):
                distances[row, number] = _prompt_distance(prompt, box, part)
    fits = np.isfinite(distances)
    # A pair that does not fit costs more than all fitting pairs together, so that the assignment
    # has as many fitting pairs as possible.
    unfit = 1.0 + distances[fits].max(initial=0.0) * (1 + min(distances.shape))
    matched_rows, matched_parts = linear_sum_assignment(np.where(fits, distances, unfit))
    matched = dict(zip(matched_rows, matched_parts, strict=True))
    for row in range(len(prompts)):
        chosen = matched.get(row)
        if chosen is None or not fits[row, chosen]:
            chosen = np.argmin(distances[row]) if fits[row].any() else None
        yield None if chosen is None else int(chosen)


def _prompt_distance(prompt: ObjectPrompt, box: Box, part: BoolArray) -> float:
    """Return pixels between a prompt and an object: of box edges, else of the farthest point."""
    if prompt.box is not None:
        return _distance(prompt.box, box)
    return max(_point_distance(point, part) for point in prompt.positive)


def _point_distance(point: Point, part: BoolArray) -> float:
    """Return the distance of a point from the nearest pixel of a part; 0 on the part."""
    row, column = round(point.y), round(point.x)
    if 0 <= row < part.shape[0] and 0 <= column < part.shape[1] and part[row, column]:
        return 0.0
    rows, columns = np.nonzero(part)
    return float(np.hypot(rows - point.y, columns - point.x).min())


def _distance(first: Box, second: Box) -> float:
    """Return the largest distance between equal sides of two boxes."""
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
    """Return the pixels within `reach` of a coordinate, inside an image of `limit` pixels."""
    return slice(max(0, math.floor(centre - reach)), min(limit, math.ceil(centre + reach) + 1))
