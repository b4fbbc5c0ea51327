"""Seg-Zero's reward for one object: two formats, the box's overlap and distance, two points.

Liu et al., "Seg-Zero" (2025), with the semantics of the official code (`dvlab-research/Seg-Zero`,
`seg.py` soft, `seg_restrict.py` strict). Pure functions that accept any response; numbers are
pixels of the 840 × 840 frame. As in that code, the answer is the first `{…}` of the whole response,
even inside the thought (the parser of predictions does not look there). `soft` accepts keys that
contain `bbox` and `point`; `strict` only `bbox`, `points_1` and `points_2`, all lists.
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
from harness.trainers.visionreasoner.objects import key_frame, objects, on_canvas
from harness.types import Box, Point, Sample

Semantics: TypeAlias = Literal["soft", "strict"]
Pair: TypeAlias = tuple[float, float]

MIN_IOU = 0.5
"""`bbox_iou` is 1 if the IoU with the true box is above this (right and bottom inclusive)."""
MAX_BOX_DISTANCE = 10.0
"""`bbox_l1` is 1 if the mean difference of the four edges from the true ones is below this, in
pixels."""
MAX_POINT_DISTANCE = 100.0
"""`points_l1` is 1 if both points are in the predicted box, and their mean distance from the two
true points, in the better order, is below this, in pixels."""

UNSCALED: Pair = (1.0, 1.0)
"""(x, y) scale of responses whose numbers are already in the 840 × 840 frame."""

UNREADABLE = (TypeError, ValueError, KeyError, IndexError, OverflowError, ZeroDivisionError)
"""Exceptions from reading numbers out of any JSON; the reward is then 0."""


class TargetObject(NamedTuple):
    """One object in the 840 × 840 frame: its box, and two points on it."""

    box: Box
    points: tuple[Point, Point]


def answer_value(response: str) -> Mapping[str, Any] | None:
    """Return the JSON object in the first `{…}` of a response; None if it is not valid JSON."""
    text = first_braces(response)
    if text is None or TOO_MANY_DIGITS.search(text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def answer_format(response: str, *, semantics: Semantics = "soft") -> float:
    """Return 1 if the answer has a box of length 4 and two points of length 2, else 0.

    With `soft`, texts and objects of that length count, too.
    """
    value = answer_value(response)
    if value is None:
        return 0.0
    keys = KEYS if semantics == "strict" else _soft_keys(value)
    if keys is None or not all(key in value for key in keys):
        return 0.0
    sized = list if semantics == "strict" else (list, str, dict)
    return float(
        all(
            isinstance(value[key], sized) and len(value[key]) == length
            for key, length in zip(keys, (4, 2, 2), strict=True)
        )
    )


def _soft_keys(value: Mapping[str, object]) -> tuple[str, str, str] | None:
    """Return the first key that contains `bbox` and the first two with `point`; None: too few."""
    boxes = [key for key in value if "bbox" in key.lower()]
    points = [key for key in value if "point" in key.lower() and key not in boxes[:1]]
    return (boxes[0], points[0], points[1]) if boxes and len(points) >= 2 else None


def _box_of(value: Mapping[str, Any], semantics: Semantics) -> Sequence[float]:
    """Return the box of an answer; that its four entries are numbers is not checked.

    Raises:
        KeyError, TypeError, ValueError: there is no box of length 4.
    """
    keys = [key for key in value if "bbox" in key.lower()] if semantics == "soft" else []
    box: Sequence[float] = value[keys[0] if keys else "bbox"]
    if len(box) != 4:
        raise ValueError("no box")
    return box


def _points_of(value: Mapping[str, Any], semantics: Semantics) -> tuple[Pair, Pair]:
    """Return the two points of an answer, truncated to whole numbers.

    Raises:
        one of UNREADABLE: there are not two points of two numbers.
    """
    keys = [key for key in value if "points" in key.lower()] if semantics == "soft" else KEYS[1:]
    first, second = ((int(value[key][0]), int(value[key][1])) for key in keys[:2])
    return first, second


def place_terms(
    response: str, target: TargetObject, *, semantics: Semantics = "soft", scale: Pair = UNSCALED
) -> dict[str, float]:
    """Return three terms, each 0 or 1: `bbox_iou`, `bbox_l1` and `points_l1`.

    MIN_IOU, MAX_BOX_DISTANCE and MAX_POINT_DISTANCE say when each is 1.

    Args:
        response: Response of the policy.
        target: The true object, in the 840 × 840 frame.
        semantics: Keys and types that are accepted.
        scale: (x, y) factors from the response's frame to 840 × 840.
    """
    terms = dict.fromkeys(("bbox_iou", "bbox_l1", "points_l1"), 0.0)
    value = answer_value(response) or {}
    try:
        box = scale_box(_box_of(value, semantics), scale)
    except UNREADABLE:
        return terms
    with suppress(*UNREADABLE):
        terms["bbox_iou"] = float(inclusive_iou(box, target.box) > MIN_IOU)
    with suppress(*UNREADABLE):
        gaps = [abs(edge - true) for edge, true in zip(box, target.box, strict=True)]
        terms["bbox_l1"] = float((gaps[0] + gaps[1] + gaps[2] + gaps[3]) / 4 < MAX_BOX_DISTANCE)
    with suppress(*UNREADABLE):
        points = tuple((x * scale[0], y * scale[1]) for x, y in _points_of(value, semantics))
        inside = all(box[0] <= x <= box[2] and box[1] <= y <= box[3] for x, y in points)
        near = points_apart(points, target.points) < MAX_POINT_DISTANCE
        terms["points_l1"] = float(inside and near)
    return terms


def scale_box(box: Sequence[float], scale: Pair) -> Sequence[float]:
    """Return a box of the response in the 840 × 840 frame; unchanged if its canvas is that one."""
    if scale == UNSCALED:
        return box
    return [edge * scale[index % 2] for index, edge in enumerate(box)]


def inclusive_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the IoU of two boxes that include their right and bottom pixels; 0 if disjoint."""
    left, top = max(first[0], second[0]), max(first[1], second[1])
    right, bottom = min(first[2], second[2]), min(first[3], second[3])
    shared = (right - left + 1) * (bottom - top + 1) if left < right and top < bottom else 0
    sizes = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (first, second)]
    return float(shared) / (sizes[0] + sizes[1] - shared)


def points_apart(points: Sequence[Pair], others: Sequence[Pair]) -> float:
    """Return the mean distance of two points from two others, in the better of both orders."""

    def total_distance(order: tuple[int, int]) -> float:
        return sum(
            math.sqrt((x - others[index][0]) ** 2 + (y - others[index][1]) ** 2)
            for (x, y), index in zip(points, order, strict=True)
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
    """Return the box around all targets and two points on them, in the 840 × 840 frame.

    The points are the answer's own if it has two; else the centres of two circles in its mask
    (`circles`); else the middle of the first box, twice.

    Raises:
        ParseError: the sample has no object, which this method cannot learn from.
    """
    frame = key_frame(sample)
    items = objects(sample, frame)
    if sample.target is None or not items:
        raise ParseError(f"sample {sample.id}", expected="an object", found="none")
    answer = sample.target.answer
    left, top = (min(item.bounds[side] for item in items) for side in (0, 1))
    right, bottom = (max(item.bounds[side] for item in items) for side in (2, 3))
    box = Box(left, top, right, bottom)
    if answer.points is not None and len(answer.points) == 2:
        points = (answer.points[0], answer.points[1])
    elif answer.masks is not None:
        points = circles(answer.masks[frame].to_array())
    else:
        points = (items[0].place, items[0].place)
    first, second = on_canvas([Item(box, point) for point in points], sample.query.size)
    return TargetObject(first.bounds, (first.place, second.place))


def circles(mask: BoolArray) -> tuple[Point, Point]:
    """Return the centre of the largest circle in a mask, and of the largest one outside it.

    The mask is height × width, and points are in its pixels. The second is the first if nothing of
    the mask lies outside the first circle.
    """
    import cv2

    padded = np.pad(mask, 1)  # the image's edge is an edge of the mask
    depth = cv2.distanceTransform(padded.astype(np.uint8), cv2.DIST_L2, 5)
    first, radius = _deepest(depth)
    rows, columns = np.ogrid[: depth.shape[0], : depth.shape[1]]
    outside = (columns - first.x) ** 2 + (rows - first.y) ** 2 > radius**2
    remaining, second = (padded & outside).astype(np.uint8), first
    if remaining.any():
        second, _ = _deepest(cv2.distanceTransform(remaining, cv2.DIST_L2, 5))
    return Point(first.x - 1, first.y - 1), Point(second.x - 1, second.y - 1)


def _deepest(depth: NDArray[np.integer | np.floating]) -> tuple[Point, float]:
    """Return the pixel with the largest depth (height × width), and this depth."""
    row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
    return Point(float(column), float(row)), float(depth[row, column])
