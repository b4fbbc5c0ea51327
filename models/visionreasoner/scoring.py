"""Score VisionReasoner's responses: format, accuracy by one joint matching, no repetition.

Liu et al., "VisionReasoner" (2025), with the semantics of the official code (`dvlab-research/
Seg-Zero`, `vision_reasoner.py`), which differs from the text: see trainers/visionreasoner. Every
function is pure and accepts any text. Boxes and points are in pixels of the 840 × 840 canvas. The
trainer scores a response against the ground truth, a test-time method against another response.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from harness.models.grammar import MAX_OBJECTS, Item, well_formed
from harness.models.visionreasoner.grammar import CANVAS
from harness.responses import MAX_DEPTH, MAX_TEXT, TOO_MANY_DIGITS, nesting_depth, tag_text

Semantics: TypeAlias = Literal["official", "paper"]
Numbers: TypeAlias = NDArray[Any]
"""An array of the dtype that numpy chose: integers stay exact, however large they are."""
Objects: TypeAlias = tuple[Numbers, Numbers]
"""Boxes (M × 4) and points (M × 2) of a response."""

REPEATS = 2
"""Number of repeated sentences at which `non_repeat` becomes 0."""

BOX, POINT = "bbox_2d", "point_2d"


class Thresholds(NamedTuple):
    """Limits for each of the three criteria by which a predicted object matches a true one."""

    iou: float = 0.5
    """The IoU of the boxes must be above this."""
    box: float = 10.0
    """The mean of the four absolute differences of the boxes must be below this, in pixels."""
    point: float = 30.0
    """The distance of the points must be below this, in pixels; a point must be in its own box."""


BASE = Thresholds()
THRESHOLDS: Mapping[str, Thresholds] = {
    "loose": Thresholds(0.3, 20.0, 50.0),
    "base": BASE,
    "strict": Thresholds(0.7, 5.0, 15.0),
}
"""Thresholds of Table 9 of VR-TTRL; `base` is VisionReasoner's."""


class MatchFlags(NamedTuple):
    """Three matrices (predicted M × true N) that hold 1 where the criterion is met, else 0."""

    overlap: NDArray[np.float64]
    box: NDArray[np.float64]
    point: NDArray[np.float64]


class Accuracy(NamedTuple):
    """Components of the accuracy reward, each from 0 to 1; their sum is the reward."""

    bboxes_iou: float = 0.0
    bboxes_l1: float = 0.0
    points_l1: float = 0.0

    @property
    def total(self) -> float:
        """Sum of the three components, from 0 to 3."""
        return self.bboxes_iou + self.bboxes_l1 + self.points_l1


def thinking_format(response: str) -> float:
    """Return 1 if the response is `<think>…</think>`, white space, `<answer>…</answer>`; else 0.

    Anything before or after gives 0, also a newline at the end.

    >>> thinking_format("<think>a</think> <answer>[]</answer>")
    1.0
    """
    return float(well_formed(response))


def answer_value(response: str) -> object:
    """Return the JSON value of the first `<answer>`; None if it is absent or unreadable.

    It accepts what `json.loads` accepts, so that rewards equal the official ones, but within limits
    of length, depth and digits that no response of a normal length reaches.
    """
    text = tag_text(response, "answer")
    if (
        text is None
        or len(text) > MAX_TEXT
        or TOO_MANY_DIGITS.search(text)
        or nesting_depth(text) > MAX_DEPTH
    ):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def answer_format(response: str) -> float:
    """Return the mean over objects of "has a box of four" and "has a point of two", from 0 to 2.

    As in the official code, an entry whose keys cannot be tested ends the count; entries before it
    keep their credit.
    """
    value = answer_value(response)
    if not isinstance(value, (list, dict, str)) or not value:
        return 0.0
    credit = 0.0
    for entry in value:
        fields = _well_formed_fields(entry)
        if fields is None:
            break
        credit += fields / len(value)
    return credit


def _well_formed_fields(entry: object) -> float | None:
    """Return how many of box and point have the right length; None if the official test raises."""
    if isinstance(entry, dict):
        return float(_has_length(entry.get(BOX), 4)) + float(_has_length(entry.get(POINT), 2))
    if isinstance(entry, (str, list)):
        # The official `"bbox_2d" in entry` is true for such a text or list; indexing then raises.
        return None if BOX in entry or POINT in entry else 0.0
    return None


def _has_length(value: object, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def parse_objects(response: str) -> Objects | None:
    """Return boxes (M × 4) and points (M × 2) of the answer; None if any object is not of numbers.

    At most `MAX_OBJECTS` objects are read.
    """
    value = answer_value(response)
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(entry, dict) and BOX in entry and POINT in entry for entry in value):
        return None
    boxes = _numbers([entry[BOX] for entry in value[:MAX_OBJECTS]], 4)
    points = _numbers([entry[POINT] for entry in value[:MAX_OBJECTS]], 2)
    if boxes is None or points is None:
        return None
    # numpy cannot subtract arrays of booleans (boxes), nor take roots of its object dtype, which
    # very large integers get (points); the official code raises there.
    if boxes.dtype == np.bool_ or points.dtype == object:
        return None
    return boxes.astype(np.float64) if boxes.dtype == object else boxes, points


def _numbers(rows: Sequence[Sequence[float]], length: int) -> Numbers | None:
    """Return rows as an array (rows × `length`); None if any is not `length` numbers."""
    if not all(_has_length(row, length) and all(map(_is_number, row)) for row in rows):
        return None
    return np.array(rows)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def accuracy(
    response: str,
    targets: Sequence[Item],
    *,
    canvas: tuple[int, int] = CANVAS,
    semantics: Semantics = "official",
) -> Accuracy:
    """Return the accuracy of a response: met criteria over max(predicted, true) objects.

    Args:
        response: The network's text.
        targets: True objects in the 840 × 840 canvas, each with a box and a point.
        canvas: (width, height) of the canvas that the response's numbers are in.
        semantics: `official`, or the `paper`'s wording: the sum of the box's four differences, a
            point anywhere, and a separate matching for each criterion.
    """
    objects = scaled_objects(response, canvas)
    if objects is None or not targets:
        return Accuracy()
    true = (
        np.array([item.box for item in targets[:MAX_OBJECTS]]),
        np.array([item.place for item in targets[:MAX_OBJECTS]]),
    )
    return object_accuracy(objects, true, semantics=semantics)


def scaled_objects(response: str, canvas: tuple[int, int]) -> Objects | None:
    """Return a response's boxes and points in the 840 × 840 canvas; None as in `parse_objects`.

    Args:
        response: The network's text.
        canvas: (width, height) of the canvas that its numbers are in.
    """
    objects = parse_objects(response)
    if objects is None or canvas == CANVAS:
        return objects
    scale = np.array([CANVAS[0] / canvas[0], CANVAS[1] / canvas[1]])
    return objects[0] * np.tile(scale, 2), objects[1] * scale


def object_accuracy(
    predicted: Objects,
    true: Objects,
    *,
    semantics: Semantics = "official",
    thresholds: Thresholds = BASE,
) -> Accuracy:
    """Return the accuracy of predicted objects against true ones, both in the 840 × 840 canvas."""
    bits = match_flags(*predicted, *true, semantics=semantics, thresholds=thresholds)
    return matching_credit(bits, jointly=semantics == "official")


def match_flags(
    boxes: Numbers,
    points: Numbers,
    true_boxes: Numbers,
    true_points: Numbers,
    *,
    semantics: Semantics = "official",
    thresholds: Thresholds = BASE,
) -> MatchFlags:
    """Compare every predicted object (M) with every true one (N) by the three criteria."""
    with np.errstate(all="ignore"):
        overlap = inclusive_iou(boxes, true_boxes) > thresholds.iou
        differences = np.abs(boxes[:, None] - true_boxes[None])
        moved = differences.mean(axis=2) if semantics == "official" else differences.sum(axis=2)
        distances = np.sqrt(((points[:, None] - true_points[None]) ** 2).sum(axis=2))
        near = distances < thresholds.point
        if semantics == "official":
            inside = ((points >= boxes[:, :2]) & (points <= boxes[:, 2:])).all(axis=1)
            near &= inside.reshape(-1, 1)
    right = (overlap, moved < thresholds.box, near)
    return MatchFlags(*(bit.astype(np.float64) for bit in right))


def inclusive_iou(boxes: Numbers, others: Numbers) -> Numbers:
    """Return the IoU (M × N) of boxes (M × 4) with others (N × 4); right and bottom inclusive."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.maximum(0, high - low + 1).prod(axis=2)
    sizes = (boxes[:, 2:] - boxes[:, :2] + 1).prod(axis=1)
    other_sizes = (others[:, 2:] - others[:, :2] + 1).prod(axis=1)
    iou: Numbers = shared / (sizes[:, None] + other_sizes[None] - shared)
    return iou


def matching_credit(bits: MatchFlags, *, jointly: bool) -> Accuracy:
    """Return the credit of the best one-to-one matching of predicted and true objects.

    Args:
        bits: The criteria that each pair meets.
        jointly: Use one matching, which maximizes the sum of the three criteria (official code);
            else one matching for each criterion.
    """
    limit = max(bits.overlap.shape)
    if not jointly:
        parts = [bit[linear_sum_assignment(-bit)].sum() / limit for bit in bits]
        return Accuracy(*map(float, parts))
    # It minimises cost: 3 minus the number of criteria that a pair meets.
    pairs = linear_sum_assignment(3.0 - (bits.overlap + bits.box + bits.point))
    return Accuracy(*(float(bit[pairs].sum() / limit) for bit in bits))


def non_repeat(response: str) -> float:
    """Return 0 if at least two sentences are repetitions, else 1.

    Sentences end at a full stop; tags and JSON count as well.

    >>> non_repeat("a. a. b."), non_repeat("a. a. a.")
    (1.0, 0.0)
    """
    sentences_so_far: set[str] = set()
    repeats = 0
    for sentence in filter(None, map(str.strip, response.split("."))):
        if sentence in sentences_so_far:
            repeats += 1
        if repeats >= REPEATS:
            return 0.0
        sentences_so_far.add(sentence)
    return 1.0
