"""Link the masks of a video's frames into tracks by colour, place and size.

Each frame's masks are assigned to the known objects with the lowest total cost. An object's place
is expected where its last motion would have brought it, or where it was seen last.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray, Rle, Track
from harness.media import Frame, Media
from harness.models.nodes.flat_regions import colour_of

COLOUR = 20.0
"""CIELAB distance above which two colours belong to different objects."""
REACH = 0.12
"""Share of the image's diagonal: a mask farther from the expected place is another object."""
IMPOSSIBLE = 1e6
"""Cost of a pair that must not be linked."""


@dataclass(slots=True)
class _Row:
    """One object with its masks so far."""

    rles: dict[int, Rle] = field(default_factory=dict)
    """Masks by frame."""
    places: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)
    """Frame and centroid (x, y) of each mask."""
    colour: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    area: float = 0.0

    def add(self, index: int, mask: "_Mask") -> None:
        self.rles[index] = mask.rle
        self.places.append((index, mask.place))
        self.colour, self.area = mask.colour, mask.area

    def expected(self, index: int) -> NDArray[np.float64]:
        """Return the expected centroid in a frame, extrapolated from the last two."""
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
    """Return one track per object, in the order of their first frames.

    Args:
        media: The video.
        masks: Masks (height × width) of each of its frames.
    """
    from scipy.optimize import linear_sum_assignment  # as in `instances`

    width, height = media.size
    diagonal = float(np.hypot(width, height))
    rows: list[_Row] = []
    for index, frame_masks in enumerate(masks):
        measured = [_measured(media.frame(index), mask) for mask in frame_masks]
        linked_columns: set[int] = set()
        if rows and measured:
            cost = np.array(
                [[_cost(row, mask, index, diagonal) for mask in measured] for row in rows]
            )
            for row, column in zip(*linear_sum_assignment(cost), strict=True):
                if cost[row, column] < IMPOSSIBLE:
                    rows[row].add(index, measured[column])
                    linked_columns.add(int(column))
        for place, mask in enumerate(measured):
            if place not in linked_columns:
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
    """Return the cost to link an object with a mask of frame `index`, or IMPOSSIBLE."""
    colour = float(np.linalg.norm(row.colour - mask.colour)) / COLOUR
    distance = float(np.linalg.norm(row.expected(index) - mask.place)) / (REACH * diagonal)
    distance_from_last = float(np.linalg.norm(row.places[-1][1] - mask.place)) / (REACH * diagonal)
    distance = min(distance, distance_from_last)
    if colour > 1 or distance > 1:
        return IMPOSSIBLE
    return colour + distance + 0.5 * abs(float(np.log(mask.area / row.area)))
