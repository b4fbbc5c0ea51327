"""Instances of a video from the masks of every frame: the most similar masks of two frames are one.

Masks are similar in colour, place and size. An object that was not seen for some frames is looked
for where its last motion would have brought it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray, Rle, Track
from harness.media import Frame, Media
from harness.models.nodes.flat_regions import colour_of

COLOUR = 20.0  # CIELAB: farther colours are of different objects
REACH = 0.12  # of the image's diagonal: farther from where it is expected, it is another object
IMPOSSIBLE = 1e6


@dataclass(slots=True)
class _Row:
    """One object, so far."""

    rles: dict[int, Rle] = field(default_factory=dict)
    places: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)
    colour: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    area: float = 0.0

    def add(self, index: int, mask: "_Mask") -> None:
        self.rles[index] = mask.rle
        self.places.append((index, mask.place))
        self.colour, self.area = mask.colour, mask.area

    def expected(self, index: int) -> NDArray[np.float64]:
        """The place in a frame, from the motion between the last two."""
        last, place = self.places[-1]
        if len(self.places) < 2:
            return place
        before, earlier = self.places[-2]
        return place + (place - earlier) / (last - before) * (index - last)


@dataclass(frozen=True, slots=True)
class _Mask:
    rle: Rle
    place: NDArray[np.float64]
    colour: NDArray[np.float64]
    area: float


def linked(media: Media, masks: Sequence[Sequence[BoolArray]]) -> list[Track]:
    """One track an object, in the order of their first frames.

    Args:
        media: The video.
        masks: Masks (height × width) of each of its frames.
    """
    from scipy.optimize import linear_sum_assignment  # as in `instances`

    width, height = media.size
    diagonal = float(np.hypot(width, height))
    rows: list[_Row] = []
    for index, frame_masks in enumerate(masks):
        now = [_measured(media.frame(index), mask) for mask in frame_masks]
        taken: set[int] = set()
        if rows and now:
            cost = np.array([[_cost(row, mask, index, diagonal) for mask in now] for row in rows])
            for row, column in zip(*linear_sum_assignment(cost), strict=True):
                if cost[row, column] < IMPOSSIBLE:
                    rows[row].add(index, now[column])
                    taken.add(int(column))
        for place, mask in enumerate(now):
            if place not in taken:
                rows.append(_Row())
                rows[-1].add(index, mask)
    nothing = Rle.empty(height, width)
    return [
        Track.from_rles([row.rles.get(index, nothing) for index in range(len(media))])
        for row in rows
    ]


def _measured(image: Frame, mask: BoolArray) -> _Mask:
    rows, columns = np.nonzero(mask)
    place = np.array([columns.mean(), rows.mean()])
    return _Mask(Rle.from_array(mask), place, colour_of(image, mask)[0], float(rows.size))


def _cost(row: _Row, mask: _Mask, index: int, diagonal: float) -> float:
    colour = float(np.linalg.norm(row.colour - mask.colour)) / COLOUR
    away = float(np.linalg.norm(row.expected(index) - mask.place)) / (REACH * diagonal)
    last = float(np.linalg.norm(row.places[-1][1] - mask.place)) / (REACH * diagonal)
    away = min(away, last)
    if colour > 1 or away > 1:
        return IMPOSSIBLE
    return colour + away + 0.5 * abs(float(np.log(mask.area / row.area)))
