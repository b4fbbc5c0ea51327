"""Link the masks of a video's frames into tracks by colour, place and size.

`opencv_objects` uses it for drawings. Each frame's masks are assigned to the objects of earlier
frames with the lowest total cost. An object is expected where its last motion would have brought
it, or where it was seen last.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray, Rle, Track
from harness.media import Frame, Media
from harness.models.nodes.flat_regions import colour_of

MAX_COLOUR_DISTANCE = 20.0
"""CIELAB distance above which two colours belong to different objects."""
MAX_DISTANCE = 0.12
"""Distance from the expected centroid, as a share of the image's diagonal, above which a mask
belongs to another object."""
IMPOSSIBLE = 1e6
"""Cost of a pair that must not be linked."""


@dataclass(slots=True)
class _TrackedObject:
    """One object with its masks so far."""

    rles: dict[int, Rle] = field(default_factory=dict)
    """Masks by frame."""
    centroids: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)
    """Frame and centroid (x, y) in pixels of each mask."""
    colour: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    """Median colour of the last mask (CIELAB)."""
    area: float = 0.0
    """Area of the last mask in pixels."""

    def add(self, index: int, mask: "_Mask") -> None:
        """Add the object's mask in a frame, which must be later than the others."""
        self.rles[index] = mask.rle
        self.centroids.append((index, mask.centroid))
        self.colour, self.area = mask.colour, mask.area

    def expected(self, index: int) -> NDArray[np.float64]:
        """Return the expected centroid in a frame, extrapolated from the last two."""
        last, centroid = self.centroids[-1]
        if len(self.centroids) < 2:
            return centroid
        before, earlier = self.centroids[-2]
        return centroid + (centroid - earlier) / (last - before) * (index - last)


@dataclass(frozen=True, slots=True)
class _Mask:
    """A mask with its centroid (x, y) in pixels, median colour (CIELAB) and area (pixels)."""

    rle: Rle
    centroid: NDArray[np.float64]
    colour: NDArray[np.float64]
    area: float


def linked(media: Media, masks: Sequence[Sequence[BoolArray]]) -> list[Track]:
    """Return one track per object, in the order of their first frames.

    Args:
        media: The video.
        masks: The masks (height × width) of each frame.
    """
    from scipy.optimize import linear_sum_assignment  # its import is half of a process's start

    width, height = media.size
    diagonal = float(np.hypot(width, height))
    objects: list[_TrackedObject] = []
    for index, frame_masks in enumerate(masks):
        measured = [_measured(media.frame(index), mask) for mask in frame_masks]
        linked_masks: set[int] = set()
        if objects and measured:
            cost = np.array(
                [[_cost(row, mask, index, diagonal) for mask in measured] for row in objects]
            )
            for object_index, mask_index in zip(*linear_sum_assignment(cost), strict=True):
                if cost[object_index, mask_index] < IMPOSSIBLE:
                    objects[object_index].add(index, measured[mask_index])
                    linked_masks.add(int(mask_index))
        for mask_index, mask in enumerate(measured):
            if mask_index not in linked_masks:
                objects.append(_TrackedObject())
                objects[-1].add(index, mask)
    empty = Rle.empty(height, width)
    return [
        Track.from_rles([tracked.rles.get(index, empty) for index in range(len(media))])
        for tracked in objects
    ]


def _measured(image: Frame, mask: BoolArray) -> _Mask:
    """Return a mask with its centroid, colour and area."""
    rows, columns = np.nonzero(mask)
    centroid = np.array([columns.mean(), rows.mean()])
    return _Mask(Rle.from_array(mask), centroid, colour_of(image, mask)[0], float(rows.size))


def _cost(tracked: _TrackedObject, mask: _Mask, index: int, diagonal: float) -> float:
    """Return the cost to link an object with a mask of frame `index`, or IMPOSSIBLE."""
    colour = float(np.linalg.norm(tracked.colour - mask.colour)) / MAX_COLOUR_DISTANCE
    from_expected = float(np.linalg.norm(tracked.expected(index) - mask.centroid))
    from_last = float(np.linalg.norm(tracked.centroids[-1][1] - mask.centroid))
    distance = min(from_expected, from_last) / (MAX_DISTANCE * diagonal)
    if colour > 1 or distance > 1:
        return IMPOSSIBLE
    return colour + distance + 0.5 * abs(float(np.log(mask.area / tracked.area)))
