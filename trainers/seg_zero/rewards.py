"""Seg-Zero's reward for one object: two formats, the box's overlap and distance, two points.

Liu et al., "Seg-Zero" (2025), with the semantics of the official code (`dvlab-research/Seg-Zero`,
`seg.py` soft, `seg_restrict.py` strict). Pure functions of whatever a network writes; numbers are
pixels of the 840 × 840 frame. As in that code the answer is the first `{…}` of the whole response,
the thought included, which a prediction's grammar passes over. `soft` takes keys that contain
`bbox` and `point`; `strict` takes `bbox`, `points_1` and `points_2`, all lists.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import ParseError
from harness.masks import BoolArray
from harness.models.grammar import Item, split_frame
from harness.models.seg_zero.grammar import KEYS, first_braces
from harness.models.visionreasoner.grammar import CANVAS
from harness.models.visionreasoner.scoring import thinking_format
from harness.responses import TOO_MANY_DIGITS
from harness.trainers.grpo.method import ComponentReward, Group, RewardComponents
from harness.trainers.visionreasoner.objects import in_frame, key_frame, objects
from harness.types import Box, Point, Sample

Semantics: TypeAlias = Literal["soft", "strict"]
Pair: TypeAlias = tuple[float, float]

IOU = 0.5
"""The box is right if its IoU with the true one is above this (right and bottom inclusive)."""
BOX_DISTANCE = 10.0
"""… and if the mean of its four differences is below this, in pixels."""
POINT_DISTANCE = 100.0
"""Points are right if both are in the box, and the mean of their distances from the true two, in
the better order, is below this, in pixels."""

SAME: Pair = (1.0, 1.0)
"""Scale of responses whose numbers are already in the 840 × 840 frame."""

UNREADABLE = (TypeError, ValueError, KeyError, IndexError, OverflowError, ZeroDivisionError)
"""Exceptions from reading numbers out of any JSON; the reward is then 0."""


class TargetObject(NamedTuple):
    """One object in the 840 × 840 frame: its box, and two points on it."""

    box: Box
    points: tuple[Point, Point]


def answer_value(response: str) -> Mapping[str, Any] | None:
    """The object that the first `{…}` is in JSON, or None."""
    text = first_braces(response)
    if text is None or TOO_MANY_DIGITS.search(text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def answer_format(response: str, *, semantics: Semantics = "soft") -> float:
    """1 if there is a box of four and there are two points of two, else 0.

    Softly, a text of that length is one too, and keys of points contain `point`.
    """
    value = answer_value(response)
    if value is None:
        return 0.0
    keys = KEYS if semantics == "strict" else _formatted(value)
    if keys is None or not all(key in value for key in keys):
        return 0.0
    sized = list if semantics == "strict" else (list, str, dict)
    lengths = (4, 2, 2)
    return float(
        all(
            isinstance(value[key], sized) and len(value[key]) == length
            for key, length in zip(keys, lengths, strict=True)
        )
    )


def _formatted(value: Mapping[str, object]) -> tuple[str, str, str] | None:
    box = next((key for key in value if "bbox" in key.lower()), None)
    places = [key for key in value if "point" in key.lower() and key != box]
    return None if box is None or len(places) < 2 else (box, places[0], places[1])


def _box_of(value: Mapping[str, Any], semantics: Semantics) -> Sequence[float]:
    """The value that is taken for the box.

    Raises:
        KeyError, ValueError: there is none of four.
    """
    soft = next((key for key in value if "bbox" in key.lower()), "bbox")
    box = value["bbox" if semantics == "strict" else soft]
    if len(box) != 4:
        raise ValueError("no box")
    edges: Sequence[float] = box  # of what, shows when it is computed with
    return edges


def _points_of(value: Mapping[str, Any], semantics: Semantics) -> tuple[Pair, Pair]:
    """The two points, cut to whole numbers."""
    keys = [key for key in value if "points" in key.lower()] if semantics == "soft" else KEYS[1:]
    first, second = ((int(value[key][0]), int(value[key][1])) for key in keys[:2])
    return first, second


def place_terms(
    response: str, target: TargetObject, *, semantics: Semantics = "soft", scale: Pair = SAME
) -> dict[str, float]:
    """Three bits: the box overlaps the true one by more than half; its edges are near the true
    ones, on average; both points are in it and near the true two.
    """
    terms = dict.fromkeys(("bbox_iou", "bbox_l1", "points_l1"), 0.0)
    value = answer_value(response) or {}
    try:
        box = scale_box(_box_of(value, semantics), scale)
    except UNREADABLE:
        return terms
    with suppress(*UNREADABLE):
        terms["bbox_iou"] = float(inclusive_iou(box, target.box) > IOU)
    with suppress(*UNREADABLE):
        apart = [abs(edge - true) for edge, true in zip(box, target.box, strict=True)]
        terms["bbox_l1"] = float((apart[0] + apart[1] + apart[2] + apart[3]) / 4 < BOX_DISTANCE)
    with suppress(*UNREADABLE):
        points = tuple((x * scale[0], y * scale[1]) for x, y in _points_of(value, semantics))
        inside = all(box[0] <= x <= box[2] and box[1] <= y <= box[3] for x, y in points)
        near = points_apart(points, target.points) < POINT_DISTANCE
        terms["points_l1"] = float(inside and near)
    return terms


def scale_box(box: Sequence[float], scale: Pair) -> Sequence[float]:
    """Return a box of the response in the 840 × 840 frame; unchanged if its canvas is that one."""
    if scale == SAME:
        return box
    return [edge * scale[place % 2] for place, edge in enumerate(box)]


def inclusive_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the IoU of two boxes that include their right and bottom pixels; 0 if disjoint."""
    left, top = max(first[0], second[0]), max(first[1], second[1])
    right, bottom = min(first[2], second[2]), min(first[3], second[3])
    shared = (right - left + 1) * (bottom - top + 1) if left < right and top < bottom else 0
    sizes = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (first, second)]
    return float(shared) / (sizes[0] + sizes[1] - shared)


def points_apart(points: Sequence[Pair], others: Sequence[Pair]) -> float:
    """The mean distance of two points from two others, in the better of both orders."""

    def total_distance(order: tuple[int, int]) -> float:
        return sum(
            math.sqrt((x - others[place][0]) ** 2 + (y - others[place][1]) ** 2)
            for (x, y), place in zip(points, order, strict=True)
        )

    return min(total_distance((0, 1)), total_distance((1, 0))) / 2


@dataclass(frozen=True, slots=True)
class SegZeroReward(ComponentReward):
    """Scores each rollout by itself; `total`, from 0 to 5, is the sum of all components."""

    semantics: Semantics = "strict"

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout."""
        target = ground_truth(group.sample)
        return [self.terms(group, rollout.text, target) for rollout in group.rollouts]

    def terms(self, group: Group, text: str, target: TargetObject) -> dict[str, float]:
        """Return the components of one response."""
        response = split_frame(text)[1]
        width, height = group.canvas
        scale = (CANVAS[0] / width, CANVAS[1] / height)
        return {
            "thinking_format": thinking_format(response),
            "answer_format": answer_format(response, semantics=self.semantics),
            **place_terms(response, target, semantics=self.semantics, scale=scale),
        }


def ground_truth(sample: Sample) -> TargetObject:
    """Return the box around the targets, and the centres of its two largest inscribed circles.

    The answer's own two points where it has one box and two points. The second circle lies
    outside the first one.

    Raises:
        ParseError: there is no target, which this method cannot learn from, or no place is known.
    """
    frame = key_frame(sample)
    items = objects(sample, frame)
    if sample.target is None or not items:
        raise ParseError(f"sample {sample.id}", expected="an object", found="none")
    answer = sample.target.answer
    box = Box(
        *(min(item.bounds[side] for item in items) for side in (0, 1)),
        *(max(item.bounds[side] for item in items) for side in (2, 3)),
    )
    if answer.points is not None and len(answer.points) == 2:
        points = (answer.points[0], answer.points[1])
    elif answer.masks is not None:
        points = circles(answer.masks[frame].to_array())
    else:
        points = (items[0].place, items[0].place)
    first, second = in_frame([Item(box, point) for point in points], sample.query.size)
    return TargetObject(first.bounds, (first.place, second.place))


def circles(mask: BoolArray) -> tuple[Point, Point]:
    """Centres of the two largest circles in a mask (height × width) that do not overlap."""
    import cv2

    depth = cv2.distanceTransform(np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, 5)
    first, radius = _deepest(depth)
    rows, columns = np.ogrid[: depth.shape[0], : depth.shape[1]]
    outside = (columns - first.x) ** 2 + (rows - first.y) ** 2 > radius**2
    rest = (np.pad(mask, 1) & outside).astype(np.uint8)
    second, _ = _deepest(cv2.distanceTransform(rest, cv2.DIST_L2, 5)) if rest.any() else (first, 0)
    return Point(first.x - 1, first.y - 1), Point(second.x - 1, second.y - 1)


def _deepest(depth: NDArray[np.integer | np.floating]) -> tuple[Point, float]:
    row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
    return Point(float(column), float(row)), float(depth[row, column])
