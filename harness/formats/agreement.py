"""Evidence from the ground truth that a file's answers mean something else than they are read as.

A reading is another meaning of all answers of a file: boxes of a resized image, times in
milliseconds, letters of options that are counted from 1, masks of what is not meant, the answers of
the sample before. Where many answers are right in another reading and wrong as they are read, that
is hardly chance: how often the reading's answers fit the ground truth of *other* samples tells what
chance does.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.foreign_lines import rewrite
from harness.formats.misread import CENTRE, TO_CORNERS, box_command
from harness.masks import Rle
from harness.types import Answer, AnswerForm, Prediction, Sample

Rows: TypeAlias = NDArray[np.float64]
"""Boxes or points, one a row, in pixels."""
Size: TypeAlias = tuple[float, float]

NOTHING: Rows = np.empty((0, 0))
MOST = 400
"""Samples with a ground truth that are looked at: the first ones."""
BOXES_OF_ONE = 16
"""Boxes of an answer that are looked at: those with the highest scores."""
LEAST = 3
"""Answers that have to be right in another reading alone."""
TIMES = 4
"""Times as many answers as are right only as they are read."""
CHANCE = 1e-3
"""Probability of so many hits by chance up to which a reading is reported."""
OTHERS, PRIOR = 16, 10
"""Other samples that each answer is compared with for the chance of a hit, and comparisons without
a hit but one that are added, as few prove nothing."""
HALF = 0.5
"""Agreement that is a hit, and share of hits from which answers are right as they are read."""
MARGIN = 0.25
"""Mean agreement by which a reading is better."""
FIT = 8
"""Answers from which a scale can be fitted."""
SURPLUS = 0.1
"""Mean agreement by which a reading is better than places that are moved as most of them are."""
TRIED = 5
"""Readings that are tested: those that agree best."""
SHARE = 0.3
"""Share of hits from which a reading explains a file."""
NEIGHBOURS = {
    -1: "those of the sample before: are ids shifted by one?",
    1: "those of the sample after: are ids shifted by one?",
}
NEAR = 0.1
"""Part of a number, or of an image's side, by which a hit may differ."""
GRID = 48
"""Side of the grid on which masks are compared."""
SIDES = (224, 256, 336, 384, 392, 448, 504, 512, 518, 560, 616, 640, 672, 768, 800, 840, 896, 1008)
"""Sides of squares to which networks have images resized."""
LONGEST = (448, 512, 640, 672, 768, 800, 896, 1008, 1024, 1280, 1333, 1344, 1536, 2048)
"""Lengths of the longest side to which images are resized, their shape kept."""


class Reading(NamedTuple):
    """Another meaning of all answers of a form."""

    name: str
    """What the answers are, to end "if they are …"."""
    turn: Callable[[Rows, Size], Rows]
    """Maps an answer as it was read, and (width, height) or (seconds, frames a second), to the
    answer in this reading."""
    fix: Callable[[str], str] = lambda _: ""
    """Maps the file's name to what to type or to do."""


def _scaled(x: float, y: float, rows: Rows) -> Rows:
    factors: Rows = np.tile([x, y], rows.shape[1] // 2)
    return rows * factors


def _swapped(rows: Rows) -> Rows:
    return rows[:, [1, 0, 3, 2][: rows.shape[1]]]


def _times(factor: float) -> Callable[[str], str]:
    def fix(name: str) -> str:
        boxes = rewrite("boxes", f"map(if . then map(. * {factor:g}) else . end)", name)
        points = rewrite("points", f"map(map(. * {factor:g}))", name)
        return f"{boxes} multiplies boxes by it, {points} points"

    return fix


def _state(coordinates: str) -> Callable[[str], str]:
    return lambda _: f"--coordinates {coordinates} reads them so"


def _of_size(side: str) -> Callable[[str], str]:
    return lambda _: f"Multiply x by width / {side} and y by height / {side} of its image"


def _scales() -> Iterator[Reading]:
    for factor in (2, 4, 3, 1.5, 0.5):
        yield Reading(
            f"of images whose sides are divided by {factor:g}",
            lambda rows, _, k=factor: rows * k,  # type: ignore[misc]
            _times(factor),
        )
    for whole in (1000, 100, 1, 999, 1024):
        for swap in (False, True):
            yield Reading(
                f"parts of {whole} of each side{', y first' if swap else ''}",
                lambda rows, size, k=whole, y=swap: _scaled(  # type: ignore[misc]
                    size[0] / k, size[1] / k, _swapped(rows) if y else rows
                ),
                _state(f"normalized_{whole}{'_yx' if swap else ''}"),
            )
    for side in SIDES:
        yield Reading(
            f"of images resized to {side} × {side}",
            lambda rows, size, k=side: _scaled(size[0] / k, size[1] / k, rows),  # type: ignore[misc]
            _of_size(str(side)),
        )
    for side in LONGEST:
        yield Reading(
            f"of images whose longer side is resized to {side}",
            lambda rows, size, k=side: rows * (max(size) / k),  # type: ignore[misc]
            lambda _, k=side: f"Multiply them by the longer side / {k}",  # type: ignore[misc]
        )


def _corners_of_sizes(b: Rows) -> Rows:
    return np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], axis=1)


def _corners_of_centres(b: Rows) -> Rows:
    return np.concatenate([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], axis=1)


def _sizes(b: Rows) -> Rows:
    return np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], axis=1)


def _flipped(rows: Rows, side: float, axis: int) -> Rows:
    """Return places seen in a mirror; `axis` is 0 for x, 1 for y."""
    turned = rows.copy()
    turned[:, axis::2] = side - rows[:, axis::2][:, ::-1]
    return turned


def _fitted(pairs: Sequence["Pair"]) -> Iterator[Reading]:
    """Yield the scales that fit most answers, of a factor or of a square, if these are many."""
    means = [(pair.predicted.mean(), pair.truth.mean(), pair) for pair in pairs]
    usable = [one for one in means if one[0] > 0 and one[1] > 0 and 0 not in one[2].size]
    if len(usable) < FIT:
        return
    factor = float(np.median([true / read for read, true, _ in usable]))
    yield Reading(
        f"{factor:.3g} times too small",
        lambda rows, _: rows * factor,
        _times(float(f"{factor:.3g}")),
    )
    sides = [
        read / (pair.truth / np.tile(pair.size, pair.truth.shape[1] // 2)).mean()
        for read, _, pair in usable
    ]
    side = round(float(np.median(sides)))
    if side > 1:
        yield Reading(
            f"of images resized to {side} × {side}",
            lambda rows, size: _scaled(size[0] / side, size[1] / side, rows),
            _of_size(str(side)),
        )


CORNER, _ = TO_CORNERS
Y_FIRST = Reading("with y first", lambda rows, _: _swapped(rows), _state("pixels_yx"))
SCALES = (
    Y_FIRST,
    *_scales(),
    Reading("flipped from left to right", lambda rows, size: _flipped(rows, size[0], 0)),
    Reading("upside down, y counted from below", lambda rows, size: _flipped(rows, size[1], 1)),
)
"""Other meanings of boxes and points."""
CORNERS = (
    Reading(CORNER, lambda b, _: _corners_of_sizes(b), lambda n: box_command(CORNER, n)),
    Reading(CENTRE, lambda b, _: _corners_of_centres(b), lambda n: box_command(CENTRE, n)),
)
"""Other orders of boxes that are read as corners."""
SIZES = (
    Reading("[left, top, right, bottom]", lambda b, _: _sizes(b)),
    Reading(CENTRE, lambda b, _: _corners_of_centres(_sizes(b))),
)
"""Other orders of boxes that are read as [left, top, width, height], and are now corners."""


def _spans() -> Iterator[Reading]:
    yield Reading("[start, duration]", lambda t, _: np.stack([t[:, 0], t.sum(1)], 1))
    yield Reading("[end, start]", lambda t, _: t[:, ::-1])
    yield Reading("frames", lambda t, size: t / (size[1] or math.inf))
    yield Reading("percentages of the video", lambda t, size: t * size[0] / 100)
    yield Reading("fractions of the video", lambda t, size: t * size[0])
    for factor, name in ((1e-3, "milliseconds"), (60, "minutes")):
        yield Reading(name, lambda t, _, k=factor: t * k)  # type: ignore[misc]


def _factors() -> Iterator[Reading]:
    for factor in (100, 1000, 60, 3.28084, 10.7639):
        yield Reading(
            f"{factor:g} times too small",
            lambda n, _, k=factor: n * k,  # type: ignore[misc]
        )
        yield Reading(
            f"{factor:g} times too large",
            lambda n, _, k=factor: n / k,  # type: ignore[misc]
        )


LETTERS = (
    Reading("one letter too late", lambda n, _: n - 1),
    Reading("one letter too early", lambda n, _: n + 1),
    Reading("of options in the opposite order", lambda n, size: size[0] - 1 - n),
)
INVERTED = "inverted (or the ground truth is)"
MASKS = (
    Reading(INVERTED, lambda m, _: 1 - m),
    Reading("flipped from left to right", lambda m, _: m[:, ::-1]),
    Reading("upside down", lambda m, _: m[::-1]),
    Reading("turned by 180 degrees", lambda m, _: m[::-1, ::-1]),
    Reading("turned by 90 degrees", lambda m, _: np.rot90(m)),
    Reading("turned by 270 degrees", lambda m, _: np.rot90(m, 3)),
    Reading("transposed", lambda m, _: m.T),
)


class Pair(NamedTuple):
    """A prediction and the ground truth of its sample."""

    predicted: Rows
    """Empty where there is no answer."""
    truth: Rows
    size: Size
    group: str


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
    "interval": Kind(_spans_agree, tuple(_spans()), "intervals"),
    "choice": Kind(_are_equal, LETTERS, "letters"),
    "number": Kind(_numbers_agree, tuple(_factors()), "numbers"),
    "count": Kind(_are_equal, (), "counts"),
    "masks": Kind(_masks_agree, MASKS, "masks"),
}


@dataclass(slots=True)
class Agreement:
    """Pairs of a prediction and the ground truth of its sample, by the form of answer."""

    pairs: dict[str, list[Pair]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    seen: int = 0
    """Number of samples that were looked at, at most `MOST`."""
    said: int = 0
    """Number of answers that a model's text was read for: its mistakes are its own."""

    def add(self, samples: Iterable[Sample], predictions: Iterable[Prediction]) -> None:
        """Keep the pairs of the first samples that have a ground truth."""
        for sample, prediction in zip(samples, predictions, strict=True):
            if sample.target is None or self.seen == MOST:
                continue
            self.seen += 1
            self.said += bool(prediction.responses)
            answer = prediction.answer or Answer()
            for kind, pair in _pairs(answer, sample.target.answer, sample):
                self.pairs[kind].append(pair)

    def notes(
        self, thing: str, file: str, *, sizes: bool = False, stated: bool = False
    ) -> Iterator[str]:
        """Yield a note on each form whose answers are right in another reading.

        Args:
            thing: What the file is, for messages.
            file: The file's name, for the command to type.
            sizes: True if its boxes were read as [left, top, width, height].
            stated: True if its author says what its coordinates mean.

        Raises:
            DataError: they are places in the file, whose meaning nobody has stated.
        """
        for name, kind in KINDS.items():
            orders = (SIZES if sizes else CORNERS) if name == "boxes" else ()
            answered = [pair for pair in self.pairs[name] if pair.predicted.size]
            fitted = _fitted(answered) if kind.is_place else ()
            likely = _likely(self.pairs[name], kind, (*orders, *kind.readings, *fitted))
            if likely is None:
                continue
            right, before, meaning, reading = likely
            found = (
                f"{right} of {len(answered)} that agree with the ground truth if they are "
                f"{meaning}, and {before} as they are read"
            )
            if kind.is_place and reading and not stated and not self.said:
                fix = reading.fix(file)
                raise DataError(
                    f"{thing}: {kind.about}",
                    expected="pixels of the original image",
                    found=found,
                    fix=f"{fix}{'. ' if fix else ''}If they are as documented, say so: "
                    "--coordinates pixels.",
                )
            yield f"{kind.about}: {found}"


def _pairs(answer: Answer, truth: Answer, sample: Sample) -> Iterator[tuple[str, Pair]]:
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


def _likely(
    given: Sequence[Pair], kind: Kind, readings: Sequence[Reading]
) -> tuple[int, int, str, Reading | None] | None:
    """Return the hits in the likeliest reading, the hits as read, its name, and the reading.

    None: the answers are right as they are read, or no reading explains them.
    """
    pairs = [pair for pair in given if pair.predicted.size]
    before = _agreements(pairs, kind)
    if len(pairs) < LEAST or (before >= HALF).mean() >= HALF:
        return None
    tried: list[tuple[Rows, str, Reading | None, list[Pair]]] = []
    for step, name in NEIGHBOURS.items():
        moved = [pair for pair in _moved(given, step) if pair.predicted.size]
        tried.append((_agreements(moved, kind), name, None, moved))
    for reading in readings:
        read = [pair._replace(predicted=reading.turn(pair.predicted, pair.size)) for pair in pairs]
        tried.append((_agreements(read, kind), reading.name, reading, read))
        if reading.name == INVERTED:  # small masks, which agree by chance only as they are
            read = [pair._replace(truth=1 - pair.truth) for pair in pairs]
            tried.append((_agreements(read, kind), reading.name, reading, read))
    tried.sort(key=lambda one: -one[0].mean())
    biased = _agreements(_centred(pairs), kind).mean() + SURPLUS if kind.is_place else 0
    for after, name, likely, read in tried[:TRIED]:
        if after.mean() >= biased and _is_evidence(before, after, read, kind):
            return int((after >= HALF).sum()), int((before >= HALF).sum()), name, likely
    return None


def _centred(pairs: Sequence[Pair]) -> list[Pair]:
    """Return places without what moves most of them: a poor model's bias is no other meaning."""
    bias = np.median(
        [
            (_middle(pair.truth) - _middle(pair.predicted)) / np.maximum(pair.size, 1)
            for pair in pairs
        ],
        axis=0,
    )
    moved = []
    for pair in pairs:
        offset = np.tile(bias * pair.size, pair.predicted.shape[1] // 2)
        moved.append(pair._replace(predicted=pair.predicted + offset))
    return moved


def _middle(rows: Rows) -> Rows:
    """Return the mean x and y of places."""
    return np.array([rows[:, 0::2].mean(), rows[:, 1::2].mean()])


def _agreements(pairs: Iterable[Pair], kind: Kind) -> Rows:
    return np.array([kind.agreement(*pair[:3]) for pair in pairs])


def _moved(pairs: Sequence[Pair], step: int) -> list[Pair]:
    """Return each prediction with the ground truth `step` samples later; none of the same image."""
    moved = []
    for place, pair in enumerate(pairs):
        other = pairs[place + step] if 0 <= place + step < len(pairs) else None
        is_other = other is not None and (not pair.group or other.group != pair.group)
        nothing = np.full_like(pair.truth, np.nan)
        moved.append(pair._replace(truth=other.truth if other and is_other else nothing))
    return moved


def _is_evidence(before: Rows, after: Rows, read: Sequence[Pair], kind: Kind) -> bool:
    """Return True if hits in a reading are no chance and explain the misses as it is read."""
    was, now = before >= HALF, after >= HALF
    alone, lost = int((now & ~was).sum()), int((was & ~now).sum())
    is_better = after.mean() >= before.mean() + MARGIN
    if alone < max(LEAST, TIMES * lost) or now.mean() < SHARE or not is_better:
        return False
    count = len(read)
    hits, compared = 1.0, PRIOR
    for offset in range(2, 2 + min(OTHERS, count - 2)):
        for place, pair in enumerate(read):
            other = read[(place + offset) % count]
            truth = other.truth
            if kind.is_place and 0 not in (*pair.size, *other.size):
                (width, height), (its_width, its_height) = pair.size, other.size
                truth = _scaled(width / its_width, height / its_height, truth)
            hits += kind.agreement(pair.predicted, truth, pair.size) >= HALF
            compared += 1
    return _tail(int(now.sum()), count, hits / compared) <= CHANCE


def _tail(hits: int, count: int, chance: float) -> float:
    """Return the probability of at least so many hits, of `count` with this chance each.

    >>> round(_tail(2, 3, 0.5), 6)
    0.5
    """
    return sum(
        math.comb(count, k) * chance**k * (1 - chance) ** (count - k)
        for k in range(hits, count + 1)
    )
