"""Target objects of rewards, scaled to an image of 840 × 840 pixels.

The published training sets store boxes and points at this scale: x becomes
`int(x * 840 / W + 0.5)` for an image of width W, and y likewise by the height.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from harness.errors import ParseError
from harness.masks import Rle
from harness.models.grammar import Item
from harness.models.response_writer import key_frame_of, objects_of, parts, training_answer
from harness.models.visionreasoner.grammar import CANVAS
from harness.types import Answer, AnswerForm, Box, Point, Sample

MASKS = (AnswerForm.MASK, AnswerForm.MASK_TRACK)
"""Answer forms whose target objects are computed from masks, if there are masks."""
TargetObjects: TypeAlias = Callable[[int], list[Item]]
"""Returns a sample's target objects in the frame with an index, scaled to 840 × 840."""


def objects(sample: Sample, frame: int = 0) -> list[Item]:
    """Return the target objects of a frame, in pixels of the original image.

    Boxes: the answer's own, or else those of its instances, or else those of the connected parts of
    its mask. Boxes of masks leave out specks (`without_specks`) and end on the last pixel, not
    after it, as in VisionReasoner's training tables (`max` of the pixel indices) and in VideoSeg-R1
    ("the rightmost and bottommost pixels"); the reward's IoU counts this pixel too.

    Points: the answer's own if it has one per box. Else, of the mask within the box (its instance's
    mask, if there is one instance per box), the pixel farthest from the mask's edge. Else the
    middle of the box.

    Raises:
        ParseError: the answer has neither boxes nor masks, but only a number or points.
    """
    if sample.target is None:
        raise ParseError(f"sample {sample.id}", expected="a target", found="none")
    answer, form = sample.target.answer, sample.query.form
    if answer.no_target:
        return []
    if answer.masks is None and answer.boxes is None and answer.box_track is None:
        raise ParseError(f"answer of sample {sample.id}", expected="masks or boxes", found="none")
    if answer.boxes is None or len(sample.query.media[0]) > 1:
        items = objects_of(form, training_answer(answer, [frame]), frame, sample.query.size)
        from_masks = form in MASKS and answer.masks is not None
        return [_to_last_pixel(item) for item in items] if from_masks else items
    if answer.points is not None and len(answer.points) == len(answer.boxes):
        return [Item(box, point) for box, point in zip(answer.boxes, answer.points, strict=True)]
    return [_object_item(box, mask) for box, mask in zip(answer.boxes, _masks(answer), strict=True)]


def _to_last_pixel(item: Item) -> Item:
    """Return an object with its box shortened by one pixel, so that it ends on the last pixel."""
    left, top, right, bottom = item.bounds
    return item._replace(box=Box(left, top, right - 1, bottom - 1))


def _masks(answer: Answer) -> list[Rle | None]:
    """Return, per box, the mask for its point: its instance's, or the union of all targets."""
    boxes, instances = answer.boxes or (), answer.instances or ()
    if len(instances) == len(boxes):
        return [track[0] for track in instances]
    return [answer.masks[0] if answer.masks else None] * len(boxes)


def _object_item(box: Box, mask: Rle | None) -> Item:
    """Return an object with its box, and the deepest point of the mask in it, or its middle."""
    if mask is not None:
        array = mask.to_array()
        inside = np.zeros_like(array)
        left, top, right, bottom = map(round, box)
        inside[top:bottom, left:right] = array[top:bottom, left:right]
        pieces = parts(Rle.from_array(inside), limit=1)
        if pieces:
            return Item(box, pieces[0].point)
    return Item(box, Item(box).place)


def on_canvas(items: list[Item], size: tuple[int, int]) -> list[Item]:
    """Scale the objects of an image of `size` (width, height) to whole pixels of 840 × 840."""
    across, down = CANVAS[0] / size[0], CANVAS[1] / size[1]

    def scale(x: float, y: float) -> tuple[float, float]:
        return float(math.floor(x * across + 0.5)), float(math.floor(y * down + 0.5))

    return [
        Item(Box(*scale(*item.bounds[:2]), *scale(*item.bounds[2:])), Point(*scale(*item.place)))
        for item in items
    ]


def ground_truth(sample: Sample, frame: int = 0) -> list[Item]:
    """Return the target objects of a frame, scaled to 840 × 840."""
    return on_canvas(objects(sample, frame), sample.query.size)


def target_objects(sample: Sample) -> TargetObjects:
    """Return a function for the target objects of a frame; it caches its results."""
    return cache(partial(ground_truth, sample))


def check(sample: Sample) -> None:
    """Raise ParseError if a sample has no target objects to reward."""
    has_masks = sample.target is not None and sample.target.answer.masks is not None
    if not (has_masks and sample.query.form in MASKS):
        objects(sample, key_frame(sample))  # a mask always has parts, which take time to find


def key_frame(sample: Sample) -> int:
    """Return the middle frame or, if it shows no target, the frame with the largest target area."""
    if sample.target is None:
        return 0
    return key_frame_of(sample.target.answer, len(sample.query.media[0]) // 2)
