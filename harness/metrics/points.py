"""Points against boxes and against each other, in pixels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.metrics.boxes import BoxRows
from harness.types import Point

PointRows = Sequence[Point] | NDArray[np.floating] | Sequence[Sequence[float]]
"""N points as rows of x, y, in pixels; an empty sequence is no points."""


def points_in_boxes(points: PointRows, boxes: BoxRows) -> NDArray[np.bool_]:
    """Return True for each point that lies in the box of its row, edges included; bool, shape (N,).

    A number that is not one lies nowhere. Equal to `batch_points_in_box` in
    `verl/utils/reward_score/vision_reasoner.py` (Seg-Zero, commit 42a3345).

    Raises:
        DataError: the rows are not equally many, or not of two and of four numbers.

    >>> points_in_boxes([Point(0, 9), Point(4, 4)], [(0, 0, 9, 9), (5, 0, 9, 9)]).tolist()
    [True, False]
    """
    places, frames = rows_of(points, 2, "points"), rows_of(boxes, 4, "boxes")
    if len(places) != len(frames):
        raise DataError("boxes", expected=f"{len(places)}, as points", found=str(len(frames)))
    return np.asarray(
        ((places >= frames[:, :2]) & (places <= frames[:, 2:])).all(axis=1), dtype=np.bool_
    )


def point_distances(first: PointRows, second: PointRows) -> NDArray[np.float64]:
    """Euclidean distance of every pair of points in pixels; float64 of first × second.

    Equal to `batch_points_distance` (same file as above).

    >>> point_distances([Point(0, 0)], [Point(3, 4), Point(0, 2)]).tolist()
    [[5.0, 2.0]]
    """
    one, other = rows_of(first, 2, "points"), rows_of(second, 2, "points")
    difference = one[:, None, :] - other[None, :, :]
    return np.asarray(np.sqrt((difference**2).sum(axis=2)))


def rows_of(rows: object, length: int, what: str) -> NDArray[np.float64]:
    """Rows as float64 of N × `length`, which need not be finite.

    Raises:
        DataError: they are not rows of that many numbers.
    """
    try:
        found = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            what, expected=f"rows of {length} numbers", found=repr(rows)[:60]
        ) from error
    if found.size == 0 and found.ndim <= 2:
        return np.empty((0, length))
    if found.ndim != 2 or found.shape[1] != length:
        raise DataError(what, expected=f"rows of {length} numbers", found=f"shape {found.shape}")
    return found
