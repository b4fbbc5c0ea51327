"""Target objects in the frame that rewards are computed in: 840 × 840 pixels.

The published training sets store boxes and points in this frame, scaled by `int(v * 840 / W + 0.5)`
(W the image's width; likewise its height).
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
"""Forms whose objects are read from masks, where there are some."""
TargetObjects: TypeAlias = Callable[[int], list[Item]]
"""Target objects of a sample's frame, in the 840 × 840 frame."""


def objects(sample: Sample, frame: int = 0) -> list[Item]:
    """Return the target objects of a frame, in pixels of the original image.

    Boxes are the answer's own where it has them, else those around its instances, else those of the
    connected parts of its mask; both but for specks (`without_specks`), and from the first to the
    last pixel: so VisionReasoner's code makes its training tables (`max` of the pixels' numbers),
    VideoSeg-R1 takes "the rightmost and bottommost pixels", and the reward's IoU counts them.
    A box's point is the answer's own where it has one a box, else the pixel of the mask in the box
    that is farthest from the mask's edge, else the middle of the box. The mask is that of the box's
    own instance where there is one a box.

    Raises:
        ParseError: the answer holds no extent of an object: a number or points alone.
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
        masked = form in MASKS and answer.masks is not None
        return [_to_last_pixel(item) for item in items] if masked else items
    if answer.points is not None and len(answer.points) == len(answer.boxes):
        return [Item(box, point) for box, point in zip(answer.boxes, answer.points, strict=True)]
    return [_object_item(box, mask) for box, mask in zip(answer.boxes, _masks(answer), strict=True)]


def _to_last_pixel(item: Item) -> Item:
    """Return an object whose box around a mask ends on the last pixel, not after it."""
    left, top, right, bottom = item.bounds
    return item._replace(box=Box(left, top, right - 1, bottom - 1))


def _masks(answer: Answer) -> list[Rle | None]:
    """Return the mask for each box's point: its own instance's, or the union of all targets."""
    boxes, instances = answer.boxes or (), answer.instances or ()
    if len(instances) == len(boxes):
        return [track[0] for track in instances]
    return [answer.masks[0] if answer.masks else None] * len(boxes)


def _object_item(box: Box, mask: Rle | None) -> Item:
    if mask is not None:
        array = mask.to_array()
        inside = np.zeros_like(array)
        left, top, right, bottom = map(round, box)
        inside[top:bottom, left:right] = array[top:bottom, left:right]
        objects = parts(Rle.from_array(inside), limit=1)
        if objects:
            return Item(box, objects[0].point)
    return Item(box, Item(box).place)


def in_frame(items: list[Item], size: tuple[int, int]) -> list[Item]:
    """Objects of an image of `size` (width, height), in whole pixels of the 840 × 840 frame."""
    across, down = CANVAS[0] / size[0], CANVAS[1] / size[1]

    def scale(x: float, y: float) -> tuple[float, float]:
        return float(math.floor(x * across + 0.5)), float(math.floor(y * down + 0.5))

    return [
        Item(Box(*scale(*item.bounds[:2]), *scale(*item.bounds[2:])), Point(*scale(*item.place)))
        for item in items
    ]


def ground_truth(sample: Sample, frame: int = 0) -> list[Item]:
    """Return the target objects of a frame, in the 840 × 840 frame."""
    return in_frame(objects(sample, frame), sample.query.size)


def target_objects(sample: Sample) -> TargetObjects:
    """Return the target objects of each frame, computed when they are first asked for."""
    return cache(partial(ground_truth, sample))


def check(sample: Sample) -> None:
    """Raise ParseError if a sample has no ground truth for a reward over places."""
    masked = sample.target is not None and sample.target.answer.masks is not None
    if not (masked and sample.query.form in MASKS):
        objects(sample, key_frame(sample))  # a mask always has parts, which take time to find


def key_frame(sample: Sample) -> int:
    """Return the middle frame, or the one with the largest target area if that one shows none."""
    if sample.target is None:
        return 0
    return key_frame_of(sample.target.answer, len(sample.query.media[0]) // 2)
