"""Predictions beside their ground truths, as rows of numbers, and how well the two agree."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.formats.readings import (
    COUNTS,
    FACTORS,
    FLIPPED,
    LETTERS,
    MASKS,
    MIRRORED_MASKS,
    MIRRORED_PLACES,
    SCALES,
    SPANS,
    Pair,
    Reading,
    Rows,
    Size,
    Turn,
)
from harness.masks import Rle
from harness.types import Answer, AnswerForm, Sample

YES_NO = re.compile(r"\W*(yes|no)\s*(?:[.,;!]|$)", re.IGNORECASE)
NOTHING: Rows = np.empty((0, 0))
BOXES_OF_ONE = 16
"""Boxes of an answer that are looked at: those with the highest scores."""
NEAR = 0.1
"""Part of a number, or of an image's side, by which a hit may differ."""
BLOCK = 20
"""Pairs that are compared at once."""
GRID, COLUMNS = 48, 3
"""Side of the grid on which masks are compared, and columns of pixels of each of its cells."""


def _stacked(predicted: Sequence[Rows]) -> tuple[Rows, NDArray[np.int64]]:
    """Return the rows of all answers, and the number of each answer's first row."""
    lengths = [len(rows) for rows in predicted]
    return np.concatenate(predicted), np.cumsum([0, *lengths[:-1]])


def _boxes_agree(predicted: Sequence[Rows], truths: Sequence[Rows], _: Sequence[Size]) -> Rows:
    """Return the mean IoU of the boxes of each ground truth with their best predictions."""
    boxes, starts = _stacked(predicted)
    areas = np.maximum(boxes[:, 2:] - boxes[:, :2], 0).prod(-1)
    columns = []
    for truth in truths:
        common = np.minimum(boxes[:, None, 2:], truth[None, :, 2:])
        common -= np.maximum(boxes[:, None, :2], truth[None, :, :2])
        shared = np.maximum(common, 0).prod(-1)
        union = areas[:, None] + np.maximum(truth[:, 2:] - truth[:, :2], 0).prod(-1) - shared
        ious = shared / np.where(union > 0, union, 1)
        columns.append(np.maximum.reduceat(ious, starts, axis=0).mean(1))
    return np.stack(columns, axis=1)


def _points_agree(predicted: Sequence[Rows], truths: Sequence[Rows], sizes: Sequence[Size]) -> Rows:
    """Return the share of points that lie in a box, or near a point, of each ground truth."""
    points, starts = _stacked(predicted)
    counts = np.diff([*starts, len(points)])
    columns = []
    for truth, size in zip(truths, sizes, strict=True):
        if truth.shape[1] == 4:
            low, high = truth[None, :, :2], truth[None, :, 2:]
            inside = (points[:, None] >= low) & (points[:, None] < high)
        else:
            inside = abs(points[:, None] - truth[None]) <= NEAR * np.array(size)
        hits = inside.all(-1).any(-1).astype(float)
        columns.append(np.add.reduceat(hits, starts) / counts)
    return np.stack(columns, axis=1)


def _spans_agree(predicted: Sequence[Rows], truths: Sequence[Rows], _: Sequence[Size]) -> Rows:
    """Return the IoU of intervals."""
    (start, end), (first, last) = np.concatenate(predicted).T, np.concatenate(truths).T
    common = np.minimum.outer(end, last) - np.maximum.outer(start, first)
    union = np.maximum.outer(end, last) - np.minimum.outer(start, first)
    ious = np.maximum(common, 0) / np.where(union > 0, union, 1)
    return np.where((end > start)[:, None], ious, 0.0)


def _numbers_agree(predicted: Sequence[Rows], truths: Sequence[Rows], _: Sequence[Size]) -> Rows:
    true = np.concatenate(truths)[:, 0]
    return (abs(np.concatenate(predicted) - true) <= NEAR * abs(true)).astype(float)


def _are_equal(predicted: Sequence[Rows], truths: Sequence[Rows], _: Sequence[Size]) -> Rows:
    values, true = np.concatenate(predicted), np.concatenate(truths)[:, 0]
    agreement: Rows = (values == true).astype(float)
    return agreement


def _masks_agree(predicted: Sequence[Rows], truths: Sequence[Rows], _: Sequence[Size]) -> Rows:
    """Return the IoU of masks as shares of a grid's cells (Tanimoto's: products for minima)."""
    rows, columns = (np.stack([m.ravel() for m in masks]) for masks in (predicted, truths))
    shared = rows @ columns.T
    union = (rows**2).sum(1)[:, None] + (columns**2).sum(1) - shared
    agreement: Rows = shared / np.where(union > 0, union, 1)
    return agreement


class Kind(NamedTuple):
    """Answers of a form: how they are compared and what else they may mean."""

    agreements: Callable[[Sequence[Rows], Sequence[Rows], Sequence[Size]], Rows]
    """Maps predictions, ground truths and the latter's sizes to 0 to 1, a row a prediction."""
    readings: Sequence[Reading]
    about: str
    is_place: bool = False
    """True where `--coordinates` says what the numbers mean, so that others are refused."""
    controls: Sequence[Turn] = ()
    """Make answers that are as large, and about where others are, but right for no sample."""

    def paired(self, pairs: Sequence[Pair]) -> Rows:
        """Return the agreement of each prediction with its own ground truth."""
        # In blocks: a call costs more than the comparisons with some others.
        blocks = [pairs[start : start + BLOCK] for start in range(0, len(pairs), BLOCK)]
        columns = [tuple(zip(*(pair[:3] for pair in block), strict=True)) for block in blocks]
        return np.concatenate([self.agreements(*block).diagonal() for block in columns])


def _aside(axis: int) -> Turn:
    """Return the move of boxes or intervals by half of their size towards the middle."""

    def turn(rows: Rows, size: Size) -> Rows:
        low, high = rows[:, axis], rows[:, rows.shape[1] // 2 + axis]
        step = (high - low) / 2 * np.where(low + high < size[axis], 1, -1)
        moved = rows.copy()
        moved[:, axis :: rows.shape[1] // 2] += step[:, None]
        return moved

    return turn


def _mask_aside(axis: int) -> Turn:
    """Return the move of a mask by half of its extent towards the middle of an image."""

    def turn(mask: Rows, _: Size) -> Rows:
        there = np.flatnonzero(mask.any(1 - axis))
        low, high = int(there[0]), int(there[-1]) + 1
        step = max((high - low) // 2, 1) * (1 if low + high < GRID else -1)
        return np.roll(mask, step, axis)

    return turn


OF_BOXES = (_aside(0), _aside(1), *(reading.turn for reading in MIRRORED_PLACES))
OF_MASKS = (_mask_aside(0), _mask_aside(1), *(reading.turn for reading in MIRRORED_MASKS))
OF_SPANS = (_aside(0), lambda t, size: np.maximum(size[0], t[:, 1:]) - t[:, ::-1])
KINDS: Mapping[str, Kind] = {
    "boxes": Kind(_boxes_agree, SCALES, "boxes", is_place=True, controls=OF_BOXES),
    "points": Kind(_points_agree, SCALES, "points", is_place=True),
    "interval": Kind(_spans_agree, SPANS, "intervals", controls=OF_SPANS),
    "choice": Kind(_are_equal, LETTERS, "letters"),
    "number": Kind(_numbers_agree, FACTORS, "numbers"),
    "count": Kind(_are_equal, COUNTS, "counts"),
    "yes_no": Kind(_are_equal, FLIPPED, "answers of yes and no"),
    "masks": Kind(_masks_agree, MASKS, "masks", controls=OF_MASKS),
}


def pairs_of(
    answer: Answer, truth: Answer, sample: Sample, *, plain: bool = False
) -> Iterator[tuple[str, Pair]]:
    """Yield the pairs of a ground truth with its kind; what is not answered has no rows.

    Args:
        answer: The prediction's answer.
        truth: The ground truth.
        sample: Their sample.
        plain: Only letters and numbers, which need neither pixels nor lengths.
    """
    query = sample.query
    values: list[tuple[str, Sequence[object]]] = [
        ("choice", [side.choice and ord(side.choice) - ord("A") for side in (answer, truth)]),
        ("number", [side.number for side in (answer, truth)]),
        ("count", [side.count for side in (answer, truth)]),
        ("yes_no", [_yes_or_no(side.text) for side in (answer, truth)]),
    ]
    for kind, (given, true) in values:
        if true is not None:
            yield kind, Pair(_rows(given), _rows(true), (len(query.options), 0))
    if plain or not query.media or query.media[0].fault is not None:
        return
    if truth.interval is not None:
        times = query.media[0].times()
        end = max(times, default=0.0)
        rate = (len(times) - 1) / end if end else 0.0
        yield (
            "interval",
            Pair(_rows(answer.interval), _rows(truth.interval), (end, rate), sample.group),
        )
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
        grids = [grid(track[frame]) if track else NOTHING for track in (masks, truth.masks)]
        if grids[1].any():
            yield (
                "masks",
                Pair(grids[0] if grids[0].any() else NOTHING, grids[1], query.size, sample.group),
            )


def _yes_or_no(text: str | None) -> float | None:
    """Return 1 for a text that is yes, 0 for no; None for others."""
    match = YES_NO.match(text or "")
    return None if match is None else float(match[1].casefold() == "yes")


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
    extents: list[Sequence[float]] = []
    for mask in masks[:BOXES_OF_ONE]:
        rows, columns = (np.flatnonzero(mask.to_array().any(axis)) for axis in (1, 0))
        extents.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    return extents


def grid(mask: Rle) -> Rows:
    """Return the share of each cell of a grid that a mask covers, of a few columns a cell."""
    height, width = mask.height, mask.width
    ends = np.concatenate([[0], np.cumsum(mask.runs)])
    covered = np.concatenate([[0], np.cumsum(mask.runs * (np.arange(mask.runs.size) % 2))])
    columns = ((np.arange(COLUMNS * GRID) + 0.5) * width / (COLUMNS * GRID)).astype(int)
    cells = columns[:, None] * height + np.linspace(0, height, GRID + 1)
    shares = np.diff(np.interp(cells, ends, covered), axis=1) * (GRID / height)
    grid: Rows = shares.reshape(GRID, COLUMNS, GRID).mean(1).T
    return grid
