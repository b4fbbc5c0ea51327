"""Scores of points, in pixels: the value of a mask under each point, and points in polygons."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.metrics.boxes import rows_of
from harness.types import Point

PointRows = Sequence[Point] | NDArray[np.floating] | Sequence[Sequence[float]]
"""N points as rows of x, y, in pixels; an empty sequence holds none."""


def values_at(points: PointRows, values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the value of the pixel under each point; float64 of N, 0 outside the image.

    `values` is an array of height × width, such as a mask.

    Coordinates are truncated towards 0, as by `int` in the scorers of RefSpatial-Bench, Where2Place
    and PointBench: a point at -0.5 lies in pixel 0. As in these scorers, values of points outside
    come last, so that the last bit of their mean is equal.

    >>> values_at([Point(9, 0), Point(1.9, -0.5)], np.array([[0, 7]])).tolist()
    [7.0, 0.0]
    """
    places = rows_of(points, 2, "points")
    height, width = values.shape
    with np.errstate(invalid="ignore"):
        cut = np.trunc(places)
        inside = ((cut >= 0) & (cut < (width, height))).all(axis=1)
    columns, rows = cut[inside].astype(int).T
    sampled = np.zeros(len(places))
    sampled[: len(rows)] = values[rows, columns]
    return sampled


def in_polygon(point: Point, corners: PointRows) -> bool:
    """Return True if a ray from the point crosses the polygon's edges an odd number of times.

    Equal to `point_in_polygon` in RoboSpatial-Eval's evaluation.py (commit 19f04a5).

    >>> in_polygon(Point(0.5, 0.5), [(0, 0), (1, 0), (0, 2)])
    True
    """
    x, y = point
    ends = [(float(corner_x), float(corner_y)) for corner_x, corner_y in corners]
    starts = [*ends[-1:], *ends[:-1]]  # each edge begins at the corner before its end
    is_inside = False
    for (xi, yi), (xj, yj) in zip(ends, starts, strict=True):
        if (yi > y) != (yj > y) and x < (xj - xi) * (y - yi) / (yj - yi) + xi:
            is_inside = not is_inside
    return is_inside
