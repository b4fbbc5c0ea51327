"""List the other meanings that a file's answers may have than the one they are read as.

A `Reading` converts all answers of a kind to another meaning: boxes of a resized image, times in
milliseconds, letters of options counted from 1, inverted masks. `harness.formats.agreement` tests
each of them against the ground truth.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.foreign_lines import of_parts, rewrite
from harness.formats.misread import CENTRE, TO_CORNERS, box_command

Rows: TypeAlias = NDArray[np.float64]
"""Boxes or points in pixels, or other numbers of an answer, one per row; or a grid of a mask."""
Size: TypeAlias = tuple[float, float]

SHARE = 0.3
"""Least share of hits for a reading to explain a file."""
ALL = 0.95
"""Least share of hits for a reading in which a poor model has many hits, too."""
FITTED = 0.01
"""Agreement that a fitted scale gains by its fit alone."""
FIT = 8
"""Least number of answers to which a scale is fitted."""
SIDES = (224, 256, 336, 384, 392, 448, 504, 512, 518, 560, 616, 640, 672, 768, 800, 840, 896, 1008)
"""Sides of squares, in pixels, to which networks resize images."""
LONGEST = (448, 512, 640, 672, 768, 800, 896, 1008, 1024, 1280, 1333, 1344, 1536, 2048)
"""Lengths of the longest side, in pixels, to which networks resize images of unchanged shape."""


class Pair(NamedTuple):
    """A prediction and the ground truth of its sample."""

    predicted: Rows
    """The answer's rows; empty if there is no answer."""
    truth: Rows
    size: Size
    group: str = ""
    """The image or video of boxes, points or intervals; empty for other answers."""
    sample_index: int = 0
    """Number of the sample in the benchmark, counted from 0."""
    types: frozenset[tuple[str, str]] = frozenset()
    """The sample's categories: names and values."""


Turn: TypeAlias = Callable[[Rows, Size], Rows]
"""Converts an answer's rows; the second argument is (width, height) of the image in pixels,
(seconds, frames per second) of the video, or (number of options, 0)."""


class Reading(NamedTuple):
    """Another meaning of all answers of a kind, and the conversion to it."""

    name: str
    """Words that complete the sentence "if they are …"."""
    turn: Turn
    """Converts an answer as it was read to its meaning in this reading."""
    fix: Callable[[str], str] = lambda _: ""
    """Maps the file's name to the command or advice for the user."""
    turns_truth: bool = False
    """True if `turn` converts the ground truth instead of the answer."""
    share: float = SHARE
    """Least share of hits for it to explain a file."""
    margin: float = 0.0
    """Agreement by which it has to exceed the other readings."""
    is_shift: bool = False
    """True if it moves boxes by half their sides: a fitted shift can only be as good."""

    def of(self, pair: Pair) -> Pair:
        """Return the pair with its answer, or its ground truth, converted."""
        turned = self.turn(pair.truth if self.turns_truth else pair.predicted, pair.size)
        return pair._replace(truth=turned) if self.turns_truth else pair._replace(predicted=turned)


def scaled(x: float, y: float, rows: Rows) -> Rows:
    """Return boxes or points with x and y multiplied by two factors."""
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


def _of_longer(side: int) -> Callable[[str], str]:
    return lambda _: f"Multiply them by the longer side / {side}"


def _multiplied(factor: float) -> Turn:
    return lambda rows, _: rows * factor


def _divided(factor: float) -> Turn:
    return lambda rows, _: rows / factor


def _of_parts(scale: int, *, y_first: bool = False) -> Turn:
    """Return a function that converts coordinates from 0 to `scale` to pixels."""

    def turn(rows: Rows, size: Size) -> Rows:
        return scaled(size[0] / scale, size[1] / scale, _swapped(rows) if y_first else rows)

    return turn


def _of_longest(side: int) -> Turn:
    return lambda rows, size: rows * (max(size) / side)


def _scales() -> Iterator[Reading]:
    for factor in (2, 4, 3, 1.5, 0.5):
        yield Reading(
            f"of images whose sides are divided by {factor:g}",
            _multiplied(factor),
            _times(factor),
        )
    for scale in (1000, 100, 1, 999, 1024):
        for swap in (False, True):
            yield Reading(
                f"parts of {scale} of each side{', y first' if swap else ''}",
                _of_parts(scale, y_first=swap),
                _state(f"normalized_{scale}{'_yx' if swap else ''}"),
            )
    for side in SIDES:
        yield Reading(
            f"of images resized to {side} × {side}",
            _of_parts(side),
            _of_size(str(side)),
        )
    for side in LONGEST:
        yield Reading(
            f"of images whose longer side is resized to {side}",
            _of_longest(side),
            _of_longer(side),
        )


def _corners_of_sizes(b: Rows) -> Rows:
    return np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], axis=1)


def _corners_of_centres(b: Rows) -> Rows:
    return np.concatenate([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], axis=1)


def _sizes(b: Rows) -> Rows:
    return np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], axis=1)


def _flipped(rows: Rows, side: float, axis: int) -> Rows:
    """Return boxes or points mirrored in an image of this side; `axis` is 0 for x, 1 for y."""
    turned = rows.copy()
    turned[:, axis::2] = side - rows[:, axis::2][:, ::-1]
    return turned


CORNER, _ = TO_CORNERS
TO_CENTRE = (
    "[(.[2] - .[0]) / 2, (.[3] - .[1]) / 2] as [$x, $y] | "
    "[.[0] - $x, .[1] - $y, .[2] - $x, .[3] - $y]"
)
"""jq program that moves a box by half its sides to the left and up."""
Y_FIRST = Reading("with y first", lambda rows, _: _swapped(rows), _state("pixels_yx"))
MIRRORED_PLACES = (
    Reading("flipped from left to right", lambda rows, size: _flipped(rows, size[0], 0)),
    Reading("upside down, y counted from below", lambda rows, size: _flipped(rows, size[1], 1)),
)


def _describe(coordinates: str) -> Callable[[str], str]:
    return lambda _: f'coordinates = "{coordinates}" in the description of a table reads it so'


OF_TRUTH = tuple(
    Reading(
        f"in pixels, and the ground truth in parts of {scale} of each side",
        _of_parts(scale),
        _describe(name),
        turns_truth=True,
    )
    for scale, name in ((1000, "thousandths"), (100, "percent"), (1, "relative"))
)
"""Units of a ground truth that is read as pixels."""
SCALES = (
    Y_FIRST,
    *_scales(),
    *OF_TRUTH,
    *MIRRORED_PLACES,
)
"""Other units and sizes of boxes and points."""
CORNERS = (
    Reading(CORNER, lambda b, _: _corners_of_sizes(b), lambda n: box_command(CORNER, n)),
    Reading(CENTRE, lambda b, _: _corners_of_centres(b), lambda n: box_command(CENTRE, n)),
    Reading(
        "[centre x, centre y, centre x + width, centre y + height]",
        lambda b, _: _corners_of_centres(_sizes(b)),
        lambda n: rewrite("boxes", f"map(if . then {TO_CENTRE} else . end)", n),
        is_shift=True,
    ),
)
"""Other orders of boxes that are read as corners."""
SIZES = (
    Reading("[left, top, right, bottom]", lambda b, _: _sizes(b)),
    Reading(CENTRE, lambda b, _: _corners_of_centres(_sizes(b)), is_shift=True),
)
"""Other orders of boxes that were read as [left, top, width, height] and converted to corners."""


def _around(spans: Rows) -> Rows:
    """Return [start, end] of intervals that are given as centre and width."""
    return np.stack([spans[:, 0] - spans[:, 1] / 2, spans[:, 0] + spans[:, 1] / 2], 1)


def _of_length(parts: int) -> Turn:
    return lambda times, size: times * size[0] / parts


def _make_seconds(parts: int) -> Callable[[str], str]:
    return lambda name: f"{of_parts(parts, name)} makes seconds of them"


def _spans() -> Iterator[Reading]:
    yield Reading("[start, duration]", lambda t, _: np.stack([t[:, 0], t.sum(1)], 1))
    yield Reading("[end, start]", lambda t, _: t[:, ::-1])
    yield Reading("[centre, width]", lambda t, _: _around(t))
    yield Reading("[centre, width] in fractions of the video", lambda t, size: _around(t * size[0]))
    yield Reading("frames", lambda t, size: t / (size[1] or math.inf))
    for parts, name in ((100, "percentages"), (1, "fractions")):
        yield Reading(f"{name} of the video", _of_length(parts), _make_seconds(parts))
    yield Reading(
        "counted from the video's end",
        lambda t, size: size[0] + 1 / (size[1] or math.inf) - t[:, ::-1],
    )
    for factor, name in ((1e-3, "milliseconds"), (60, "minutes"), (2, "clips of two seconds")):
        yield Reading(name, _multiplied(factor))


def _factors() -> Iterator[Reading]:
    for factor in (100, 1000, 60, 3.28084, 10.7639, 1_000_000, 1_000_000_000):
        share = SHARE if factor > 10 else 2 * SHARE  # poor models are wrong by a few times
        yield Reading(
            f"{factor:,} times too small",
            _multiplied(factor),
            share=share,
        )
        yield Reading(
            f"{factor:,} times too large",
            _divided(factor),
            share=share,
        )


SPANS, FACTORS = tuple(_spans()), tuple(_factors())


def _next_letter(step: int) -> Turn:
    """Return a function that moves letters by `step`, from the last option on to the first."""
    return lambda n, size: (n + step) % size[0] if size[0] else n + step


LETTERS = (
    Reading("one letter too late", _next_letter(-1)),
    Reading("one letter too early", _next_letter(1)),
    Reading("of options in the opposite order", lambda n, size: size[0] - 1 - n),
)
COUNTS = (
    Reading("one too many", lambda n, _: n - 1, share=ALL),
    Reading("one too few", lambda n, _: n + 1, share=ALL),
)
FLIPPED = (Reading("flipped, yes for no", lambda n, _: 1 - n, share=ALL),)
INVERTED = (
    "inverted, or if those of the ground truth are: what is meant has to be white (not 0) on both "
    "sides"
)


def _unpadded(share: float) -> Callable[[Rows, Size], Rows]:
    """Return a function that cuts the image out of the grid of a mask of a padded square.

    `share` of the padding lies left of or above the image.
    """

    def turn(mask: Rows, size: Size) -> Rows:
        index = []
        for side, cells in zip((size[1], size[0]), mask.shape, strict=True):
            covered = side / max(size)
            places = share * (1 - covered) + covered * (np.arange(cells) + 0.5) / cells
            index.append((places * cells).astype(int))
        return mask[np.ix_(*index)]

    return turn


def _uncropped(share: float) -> Callable[[Rows, Size], Rows]:
    """Return a function that puts the mask of a cropped square into the grid of the whole image.

    The square was in the image's middle; its side is `share` of the image's shorter side.
    """

    def turn(mask: Rows, size: Size) -> Rows:
        sides = [share * min(size) / side for side in (size[1], size[0])]
        places = [
            ((np.arange(cells) + 0.5) / cells - 0.5) / side + 0.5
            for cells, side in zip(mask.shape, sides, strict=True)
        ]
        index = [
            (np.clip(share_of_side, 0, 0.999) * len(share_of_side)).astype(int)
            for share_of_side in places
        ]
        rows, columns = [(share_of_side >= 0) & (share_of_side < 1) for share_of_side in places]
        return np.where(np.outer(rows, columns), mask[np.ix_(*index)], 0.0)

    return turn


def _y_first(mask: Rows, size: Size) -> Rows:
    """Return the mask that polygons with y first should have had, as far as it is in the image."""
    cells = len(mask)
    centres = (np.arange(cells) + 0.5) / cells
    rows, columns = centres * size[0] / size[1], centres * size[1] / size[0]
    inside = np.outer(columns < 1, rows < 1)
    index = [(np.clip(places, 0, 0.999) * cells).astype(int) for places in (rows, columns)]
    return np.where(inside, mask[np.ix_(*index)].T, 0.0)


def _enlarged(factor: float) -> Turn:
    """Return a function that enlarges masks of polygons of a reduced image by a factor."""

    def turn(mask: Rows, _: Size) -> Rows:
        places = (np.arange(len(mask)) + 0.5) / factor
        index = np.clip(places, 0, len(mask) - 1).astype(int)
        inside = places < len(mask)
        return np.where(np.outer(inside, inside), mask[np.ix_(index, index)], 0.0)

    return turn


MIRRORED_MASKS = (
    Reading("flipped from left to right", lambda m, _: m[:, ::-1]),
    Reading("upside down", lambda m, _: m[::-1]),
)
MASKS = (
    Reading(INVERTED, lambda m, _: 1 - m),
    # Backgrounds are large and agree by chance: which side is small decides what is evidence.
    Reading(INVERTED, lambda m, _: 1 - m, turns_truth=True),
    *MIRRORED_MASKS,
    Reading("turned by 180 degrees", lambda m, _: m[::-1, ::-1]),
    Reading("turned by 90 degrees", lambda m, _: np.rot90(m)),
    Reading("turned by 270 degrees", lambda m, _: np.rot90(m, 3)),
    Reading("transposed", lambda m, _: m.T),
    Reading("polygons with y first", _y_first),
    *(
        Reading(f"of images whose sides are divided by {factor:g}", _enlarged(factor))
        for factor in (2, 4, 0.5)
    ),
    Reading("of an image padded to a square at its right or bottom", _unpadded(0.0)),
    Reading("of an image padded to a square on both sides", _unpadded(0.5)),
    Reading("of the square in the image's middle", _uncropped(1.0)),
    Reading("of seven eighths of the square in the image's middle", _uncropped(0.875)),
)


def fitted(pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Yield the factor, and the side of a square, that fit answers best, of at least `FIT` answers.

    A factor scales x and y alike; a square is what images of any shape were resized to.
    """
    means = [(pair.predicted.mean(), pair.truth.mean(), pair) for pair in pairs]
    usable = [
        measured
        for measured in means
        if measured[0] > 0 and measured[1] > 0 and 0 not in measured[2].size
    ]
    if len(usable) < FIT:
        return
    factor = float(np.median([true / read for read, true, _ in usable]))
    yield Reading(
        f"{factor:.3g} times too small",
        lambda rows, _: rows * factor,
        _times(float(f"{factor:.3g}")),
        margin=FITTED,
    )
    sides = [
        read / (pair.truth / np.tile(pair.size, pair.truth.shape[1] // 2)).mean()
        for read, _, pair in usable
    ]
    side = round(float(np.median(sides)))
    if side > 1:
        yield Reading(
            f"of images resized to {side} × {side}",
            lambda rows, size: scaled(size[0] / side, size[1] / side, rows),
            _of_size(str(side)),
            margin=FITTED,
        )
