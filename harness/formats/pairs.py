"""Predictions beside their ground truths, as rows of numbers, and how well the two agree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import cv2
import numpy as np

from harness.formats.readings import (
    FACTORS,
    LETTERS,
    MASKS,
    SCALES,
    SPANS,
    Pair,
    Reading,
    Rows,
    Size,
)
from harness.masks import Rle
from harness.types import Answer, AnswerForm, Sample

NOTHING: Rows = np.empty((0, 0))
BOXES_OF_ONE = 16
"""Boxes of an answer that are looked at: those with the highest scores."""
NEAR = 0.1
"""Part of a number, or of an image's side, by which a hit may differ."""
GRID = 48
"""Side of the grid on which masks are compared."""


def _boxes_agree(predicted: Rows, truth: Rows, _: Size) -> float:
    """Return the mean IoU of the boxes of the ground truth with their best predictions."""
    common = np.minimum(predicted[:, None, 2:], truth[None, :, 2:])
    common -= np.maximum(predicted[:, None, :2], truth[None, :, :2])
    shared = np.maximum(common, 0).prod(-1)
    areas = [np.maximum(rows[:, 2:] - rows[:, :2], 0).prod(-1) for rows in (predicted, truth)]
    union = areas[0][:, None] + areas[1][None] - shared
    return float((shared / np.where(union > 0, union, 1)).max(0).mean())


def _points_agree(predicted: Rows, truth: Rows, size: Size) -> float:
    """Return the share of points that lie in a box, or near a point, of the ground truth."""
    if truth.shape[1] == 4:
        low, high = truth[None, :, :2], truth[None, :, 2:]
        inside = (predicted[:, None] >= low) & (predicted[:, None] < high)
    else:
        inside = abs(predicted[:, None] - truth[None]) <= NEAR * np.array(size)
    return float(inside.all(-1).any(-1).mean())


def _spans_agree(predicted: Rows, truth: Rows, _: Size) -> float:
    """Return the IoU of two intervals."""
    (start, end), (first, last) = predicted[0], truth[0]
    common = min(end, last) - max(start, first)
    union = max(end, last) - min(start, first)
    return max(0.0, float(common / union)) if end > start and union > 0 else 0.0


def _numbers_agree(predicted: Rows, truth: Rows, _: Size) -> float:
    return float((abs(predicted - truth) <= NEAR * abs(truth)).item())


def _are_equal(predicted: Rows, truth: Rows, _: Size) -> float:
    return float((predicted == truth).item())


def _masks_agree(predicted: Rows, truth: Rows, _: Size) -> float:
    """Return the IoU of two masks as shares of a grid's cells."""
    union = np.maximum(predicted, truth).sum()
    return float(np.minimum(predicted, truth).sum() / union) if union else 0.0


class Kind(NamedTuple):
    """Answers of a form: how they are compared and what else they may mean."""

    agreement: Callable[[Rows, Rows, Size], float]
    """Maps a prediction, the ground truth and (width, height) to 0 to 1."""
    readings: Sequence[Reading]
    about: str
    is_place: bool = False
    """True where `--coordinates` says what the numbers mean, so that others are refused."""


KINDS: Mapping[str, Kind] = {
    "boxes": Kind(_boxes_agree, SCALES, "boxes", is_place=True),
    "points": Kind(_points_agree, SCALES, "points", is_place=True),
    "interval": Kind(_spans_agree, SPANS, "intervals"),
    "choice": Kind(_are_equal, LETTERS, "letters"),
    "number": Kind(_numbers_agree, FACTORS, "numbers"),
    "count": Kind(_are_equal, (), "counts"),
    "masks": Kind(_masks_agree, MASKS, "masks"),
}


def pairs_of(answer: Answer, truth: Answer, sample: Sample) -> Iterator[tuple[str, Pair]]:
    """Yield the pairs of a ground truth with its kind; what is not answered has no rows."""
    query = sample.query
    plain: list[tuple[str, Sequence[object]]] = [
        ("choice", [one.choice and ord(one.choice) - ord("A") for one in (answer, truth)]),
        ("number", [one.number for one in (answer, truth)]),
        ("count", [one.count for one in (answer, truth)]),
    ]
    for kind, (given, true) in plain:
        if true is not None:
            yield kind, Pair(_rows(given), _rows(true), (len(query.options), 0), "")
    if not query.media or query.media[0].fault is not None:
        return
    if truth.interval is not None:
        times = query.media[0].times()
        end = max(times, default=0.0)
        rate = (len(times) - 1) / end if end else 0.0
        yield "interval", Pair(_rows(answer.interval), _rows(truth.interval), (end, rate), "")
        return
    if AnswerForm.COUNT in query.forms:
        return
    boxes = _boxes_of(truth)
    given_boxes = _boxes_of(answer, len(boxes))
    tracks = zip(truth.box_track or (), answer.box_track or (), strict=False)
    for true_box, box in tracks:
        if true_box and box:
            boxes, given_boxes = [true_box], [box]
            break
    if boxes:
        yield "boxes", Pair(_rows(given_boxes), _rows(boxes), query.size, sample.group)
    if AnswerForm.POINTS in query.forms and (
        places := boxes or _extents(truth) or list(truth.points or ())
    ):
        yield "points", Pair(_rows(answer.points), _rows(places), query.size, sample.group)
    if truth.masks:
        areas = [mask.area for mask in truth.masks]
        frame = areas.index(max(areas))
        masks = answer.masks if answer.masks and len(answer.masks) == len(truth.masks) else None
        grids = [_grid(one[frame]) if one else NOTHING for one in (masks, truth.masks)]
        if grids[1].any():
            yield (
                "masks",
                Pair(grids[0] if grids[0].any() else NOTHING, grids[1], query.size, sample.group),
            )


def _rows(given: object) -> Rows:
    """Return a number, a place or several as rows; none of None."""
    return NOTHING if given is None or given == "" else np.atleast_2d(np.array(given, float))


def _boxes_of(answer: Answer, most: int = BOXES_OF_ONE) -> list[Sequence[float]]:
    """Return at most so many boxes of an answer, those with the highest scores."""
    boxes: Sequence[Sequence[float]] = answer.boxes or ()
    scores = answer.box_scores
    if scores and len(scores) == len(boxes):
        boxes = [boxes[place] for place in np.argsort(-np.array(scores), kind="stable")]
    return [tuple(box) for box in boxes[:most]]


def _extents(answer: Answer) -> list[Sequence[float]]:
    """Return the extents of an answer's objects in an image."""
    tracks = answer.instances or ([answer.masks] if answer.masks else [])
    masks = [track[0] for track in tracks if len(track) == 1 and track[0].area]
    found: list[Sequence[float]] = []
    for mask in masks[:BOXES_OF_ONE]:
        rows, columns = (np.flatnonzero(mask.to_array().any(axis)) for axis in (1, 0))
        found.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    return found


def _grid(mask: Rle) -> Rows:
    plain = mask.to_array().astype(np.uint8)
    return cv2.resize(plain, (GRID, GRID), interpolation=cv2.INTER_AREA).astype(np.float64)
