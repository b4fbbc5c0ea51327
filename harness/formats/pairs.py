"""Turn answers and ground truths into rows of numbers, and measure how well the two agree (0 to 1).

`KINDS` has the comparison and the other readings for each kind of answer: boxes, points, intervals,
numbers, letters and masks. `agreement` and `orders` use the rows of `pairs_of`.
"""

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
"""Most boxes of an answer that are compared; those with the highest scores."""
NEAR = 0.1
"""Relative difference of a number, or fraction of an image's side, up to which it is a hit."""
BLOCK = 20
"""Number of predictions that are compared at once, to limit memory."""
GRID, COLUMNS = 48, 3
"""Cells along each side of the grid on which masks are compared, and pixel columns per cell."""


def _stacked(predicted: Sequence[Rows]) -> tuple[Rows, NDArray[np.int64]]:
    """Return all answers' rows in one array, and the number of each answer's first row."""
    lengths = [len(rows) for rows in predicted]
    return np.concatenate(predicted), np.cumsum([0, *lengths[:-1]])


def _boxes_agree(predicted: Sequence[Rows], truths: Sequence[Rows], _: Sequence[Size]) -> Rows:
    """Return the mean over a ground truth's boxes of the best IoU with a predicted box."""
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
    """Return the share of predicted points that lie in a true box, or near a true point."""
    points, starts = _stacked(predicted)
    n_points = np.diff([*starts, len(points)])
    columns = []
    for truth, size in zip(truths, sizes, strict=True):
        if truth.shape[1] == 4:
            low, high = truth[None, :, :2], truth[None, :, 2:]
            inside = (points[:, None] >= low) & (points[:, None] < high)
        else:
            inside = abs(points[:, None] - truth[None]) <= NEAR * np.array(size)
        hits = inside.all(-1).any(-1).astype(float)
        columns.append(np.add.reduceat(hits, starts) / n_points)
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
    """Return the IoU of masks as coverage of grid cells, with products for minima (Tanimoto)."""
    rows, columns = (np.stack([m.ravel() for m in masks]) for masks in (predicted, truths))
    shared = rows @ columns.T
    union = (rows**2).sum(1)[:, None] + (columns**2).sum(1) - shared
    agreement: Rows = shared / np.where(union > 0, union, 1)
    return agreement


class Kind(NamedTuple):
    """A kind of answer: how answers are compared, and what else they may mean."""

    agreements: Callable[[Sequence[Rows], Sequence[Rows], Sequence[Size]], Rows]
    """Maps predictions, ground truths and the latter's (width, height) to agreements from 0 to 1,
    of shape (predictions, ground truths)."""
    readings: Sequence[Reading]
    about: str
    has_coordinates: bool = False
    """True for coordinates, whose meaning `--coordinates` states: another meaning is refused."""
    controls: Sequence[Turn] = ()
    """Functions that make control answers: of the same size and region, but right for no sample."""

    def paired(self, pairs: Sequence[Pair]) -> Rows:
        """Return the agreement of each prediction with its own ground truth."""
        # In blocks: a call costs more than the comparisons with some others.
        blocks = [pairs[start : start + BLOCK] for start in range(0, len(pairs), BLOCK)]
        columns = [tuple(zip(*(pair[:3] for pair in block), strict=True)) for block in blocks]
        return np.concatenate([self.agreements(*block).diagonal() for block in columns])


def _aside(axis: int) -> Turn:
    """Return a function that moves boxes or intervals by half their size towards the middle."""

    def turn(rows: Rows, size: Size) -> Rows:
        low, high = rows[:, axis], rows[:, rows.shape[1] // 2 + axis]
        step = (high - low) / 2 * np.where(low + high < size[axis], 1, -1)
        moved = rows.copy()
        moved[:, axis :: rows.shape[1] // 2] += step[:, None]
        return moved

    return turn


def _mask_aside(axis: int) -> Turn:
    """Return a function that moves a mask by half its extent towards the image's middle."""

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
    "boxes": Kind(_boxes_agree, SCALES, "boxes", has_coordinates=True, controls=OF_BOXES),
    "points": Kind(_points_agree, SCALES, "points", has_coordinates=True),
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
    """Yield the name of the kind and the pair for each kind of answer in a ground truth.

    The pair of a kind without an answer has no predicted rows.

    Args:
        answer: The prediction's answer.
        truth: The ground truth.
        sample: Their sample.
        plain: True for letters and numbers only, which need no image size or video length.
    """
    query = sample.query
    values: list[tuple[str, Sequence[object]]] = [
        ("choice", [side.choice and ord(side.choice) - ord("A") for side in (answer, truth)]),
        ("number", [side.number for side in (answer, truth)]),
        ("count", [side.count for side in (answer, truth)]),
        ("yes_no", [_yes_or_no(side.text) for side in (answer, truth)]),
    ]
    for kind, (predicted, true) in values:
        if true is not None:
            yield kind, Pair(_rows(predicted), _rows(true), (len(query.options), 0))
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
    """Return 1 for the text "yes", 0 for "no", and None for others."""
    match = YES_NO.match(text or "")
    return None if match is None else float(match[1].casefold() == "yes")


def _rows(values: object) -> Rows:
    """Return a number, or one or several boxes or points, as rows; no rows for None."""
    return NOTHING if values is None or values == "" else np.atleast_2d(np.array(values, float))


def _boxes_of(answer: Answer, max_boxes: int = BOXES_OF_ONE) -> list[Sequence[float]]:
    """Return at most `max_boxes` boxes of an answer, those with the highest scores."""
    boxes: Sequence[Sequence[float]] = answer.boxes or ()
    scores = answer.box_scores
    if scores and len(scores) == len(boxes):
        boxes = [boxes[index] for index in np.argsort(-np.array(scores), kind="stable")]
    return [tuple(box) for box in boxes[:max_boxes]]


def _extents(answer: Answer) -> list[Sequence[float]]:
    """Return [left, top, right, bottom] of each of an answer's objects in an image."""
    tracks = answer.instances or ([answer.masks] if answer.masks else [])
    masks = [track[0] for track in tracks if len(track) == 1 and track[0].area]
    extents: list[Sequence[float]] = []
    for mask in masks[:BOXES_OF_ONE]:
        rows, columns = (np.flatnonzero(mask.to_array().any(axis)) for axis in (1, 0))
        extents.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    return extents


def grid(mask: Rle) -> Rows:
    """Return the share of each grid cell that a mask covers, in a few pixel columns per cell."""
    height, width = mask.height, mask.width
    ends = np.concatenate([[0], np.cumsum(mask.runs)])
    covered = np.concatenate([[0], np.cumsum(mask.runs * (np.arange(mask.runs.size) % 2))])
    columns = ((np.arange(COLUMNS * GRID) + 0.5) * width / (COLUMNS * GRID)).astype(int)
    cells = columns[:, None] * height + np.linspace(0, height, GRID + 1)
    shares = np.diff(np.interp(cells, ends, covered), axis=1) * (GRID / height)
    grid: Rows = shares.reshape(GRID, COLUMNS, GRID).mean(1).T
    return grid
