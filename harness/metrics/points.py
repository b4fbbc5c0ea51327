"""Points against boxes and against each other, in pixels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.metrics.boxes import BoxRows, rows_of
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


def values_at(points: PointRows, values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Value of the pixel under each point; float64 of N, 0 outside the image.

    Coordinates are cut towards 0, as `int` does in the scorers of RefSpatial-Bench, Where2Place and
    PointBench: a point at -0.5 lies in pixel 0. Points outside come last, as those scorers have
    them, so that a mean adds up in their order.

    >>> values_at([Point(9, 0), Point(1.9, -0.5)], np.array([[0, 7]])).tolist()
    [7.0, 0.0]
    """
    places = rows_of(points, 2, "points")
    height, width = values.shape
    with np.errstate(invalid="ignore"):
        cut = np.trunc(places)
        inside = ((cut >= 0) & (cut < (width, height))).all(axis=1)
    columns, rows = cut[inside].astype(int).T
    found = np.zeros(len(places))
    found[: len(rows)] = values[rows, columns]
    return found


def in_polygon(point: Point, corners: PointRows) -> bool:
    """Return True if a ray from the point crosses the polygon's edges an odd number of times.

    Equal to `point_in_polygon` in RoboSpatial-Eval's evaluation.py (commit 19f04a5).

    >>> in_polygon(Point(0.5, 0.5), [(0, 0), (1, 0), (0, 2)])
    True
    """
    x, y = point
    rows = [(float(one), float(other)) for one, other in corners]
    crossed = (
        (yi > y) != (yj > y) and x < (xj - xi) * (y - yi) / (yj - yi) + xi
        for (xi, yi), (xj, yj) in zip(rows, [*rows[-1:], *rows[:-1]], strict=True)
    )
    return sum(crossed) % 2 == 1
