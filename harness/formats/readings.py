"""Other meanings of a file's answers than the one they are read as.

A reading is another meaning of all answers of a form: boxes of a resized image, times in
milliseconds, letters of options that are counted from 1, masks of what is not meant.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.foreign_lines import rewrite
from harness.formats.misread import CENTRE, TO_CORNERS, box_command

Rows: TypeAlias = NDArray[np.float64]
"""Boxes or points, one a row, in pixels."""
Size: TypeAlias = tuple[float, float]

SHARE = 0.3
"""Share of hits from which a reading explains a file."""
ALL = 0.95
"""Share where any poor model has many hits."""
FIT = 8
"""Answers from which a scale can be fitted."""
SIDES = (224, 256, 336, 384, 392, 448, 504, 512, 518, 560, 616, 640, 672, 768, 800, 840, 896, 1008)
"""Sides of squares to which networks have images resized."""
LONGEST = (448, 512, 640, 672, 768, 800, 896, 1008, 1024, 1280, 1333, 1344, 1536, 2048)
"""Lengths of the longest side to which images are resized, their shape kept."""


class Pair(NamedTuple):
    """A prediction and the ground truth of its sample."""

    predicted: Rows
    """Empty where there is no answer."""
    truth: Rows
    size: Size
    group: str = ""
    """The image or video of a place; empty for other answers."""
    place: int = 0
    """Number of the sample in the benchmark, from 0."""
    types: frozenset[tuple[str, str]] = frozenset()
    """The sample's categories: names and values."""


Turn: TypeAlias = Callable[[Rows, Size], Rows]
"""Maps an answer, and (width, height) or (seconds, frames a second), to another."""


class Reading(NamedTuple):
    """Another meaning of all answers of a form."""

    name: str
    """Name of the reading, which ends the sentence "if they are …"."""
    turn: Turn
    """Maps an answer as it was read to the answer in this reading."""
    fix: Callable[[str], str] = lambda _: ""
    """Maps the file's name to what to type or to do."""
    turns_truth: bool = False
    """True where the ground truth is turned and not the answer."""
    share: float = SHARE
    """Share of hits from which it explains a file."""

    def of(self, pair: Pair) -> Pair:
        """Return the pair in this reading."""
        turned = self.turn(pair.truth if self.turns_truth else pair.predicted, pair.size)
        return pair._replace(truth=turned) if self.turns_truth else pair._replace(predicted=turned)


def scaled(x: float, y: float, rows: Rows) -> Rows:
    """Return places whose x and y are multiplied."""
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
                lambda rows, size, k=whole, y=swap: scaled(  # type: ignore[misc]
                    size[0] / k, size[1] / k, _swapped(rows) if y else rows
                ),
                _state(f"normalized_{whole}{'_yx' if swap else ''}"),
            )
    for side in SIDES:
        yield Reading(
            f"of images resized to {side} × {side}",
            lambda rows, size, k=side: scaled(size[0] / k, size[1] / k, rows),  # type: ignore[misc]
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


CORNER, _ = TO_CORNERS
Y_FIRST = Reading("with y first", lambda rows, _: _swapped(rows), _state("pixels_yx"))
MIRRORED_PLACES = (
    Reading("flipped from left to right", lambda rows, size: _flipped(rows, size[0], 0)),
    Reading("upside down, y counted from below", lambda rows, size: _flipped(rows, size[1], 1)),
)
SCALES = (
    Y_FIRST,
    *_scales(),
    *MIRRORED_PLACES,
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
    yield Reading(
        "counted from the video's end",
        lambda t, size: size[0] + 1 / (size[1] or math.inf) - t[:, ::-1],
    )
    for factor, name in ((1e-3, "milliseconds"), (60, "minutes"), (2, "clips of two seconds")):
        yield Reading(name, lambda t, _, k=factor: t * k)  # type: ignore[misc]


def _factors() -> Iterator[Reading]:
    for factor in (100, 1000, 60, 3.28084, 10.7639):
        share = SHARE if factor > 10 else 2 * SHARE  # poor models are wrong by a few times
        yield Reading(
            f"{factor:g} times too small",
            lambda n, _, k=factor: n * k,  # type: ignore[misc]
            share=share,
        )
        yield Reading(
            f"{factor:g} times too large",
            lambda n, _, k=factor: n / k,  # type: ignore[misc]
            share=share,
        )


SPANS, FACTORS = tuple(_spans()), tuple(_factors())


def _next_letter(step: int) -> Turn:
    """Return the move of letters by so many places; of known options the first follows the last."""
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
    """Return the cut of a mask's image out of a square that was padded, `share` of it before."""

    def turn(mask: Rows, size: Size) -> Rows:
        index = []
        for side, cells in zip((size[1], size[0]), mask.shape, strict=True):
            covered = side / max(size)
            places = share * (1 - covered) + covered * (np.arange(cells) + 0.5) / cells
            index.append((places * cells).astype(int))
        return mask[np.ix_(*index)]

    return turn


def _uncropped(share: float) -> Callable[[Rows, Size], Rows]:
    """Return a mask of the square in an image's middle, `share` of the shorter side, put there."""

    def turn(mask: Rows, size: Size) -> Rows:
        sides = [share * min(size) / side for side in (size[1], size[0])]
        places = [
            ((np.arange(cells) + 0.5) / cells - 0.5) / side + 0.5
            for cells, side in zip(mask.shape, sides, strict=True)
        ]
        index = [(np.clip(at, 0, 0.999) * len(at)).astype(int) for at in places]
        rows, columns = [(at >= 0) & (at < 1) for at in places]
        return np.where(np.outer(rows, columns), mask[np.ix_(*index)], 0.0)

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
    Reading("of an image padded to a square at its right or bottom", _unpadded(0.0)),
    Reading("of an image padded to a square on both sides", _unpadded(0.5)),
    Reading("of the square in the image's middle", _uncropped(1.0)),
    Reading("of seven eighths of the square in the image's middle", _uncropped(0.875)),
)


def fitted(pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Yield the scales that fit most answers, of a factor or of a square, if these are many."""
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
        )
