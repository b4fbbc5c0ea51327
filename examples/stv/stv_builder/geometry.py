"""Poses, projections and boxes: camera frames here are x right, y up, z forward, in metres.

The cameras of KITTI and ScanNet have y downwards; readers call `flip_y` on their results.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.types import Box, Box3D

Array = NDArray[np.float64]

NEAR = 0.1
"""Metres before a camera within which nothing is projected."""

EARTH = 6_378_137.0
"""Radius of the earth in metres, of the Mercator projection that KITTI's poses are made with."""


class Place(NamedTuple):
    """A place in metres; its user documents the coordinate frame."""

    x: float
    y: float
    z: float


def place(point: Iterable[float]) -> Place:
    """A place from three numbers."""
    x, y, z = (float(one) for one in point)
    return Place(x, y, z)


def flip_y(points: Array) -> Array:
    """Rows (x, y, z) of a camera whose y points down, with y pointing up (or the reverse)."""
    result: Array = points * np.array([1.0, -1.0, 1.0])
    return result


def transform_points(transform: Array, points: Array) -> Array:
    """Rows (x, y, z) through a 4 × 4 rigid transform."""
    result: Array = points @ transform[:3, :3].T + transform[:3, 3]
    return result


def inverse(transform: Array) -> Array:
    """The inverse of a 4 × 4 rigid transform."""
    whole = np.eye(4)
    whole[:3, :3] = transform[:3, :3].T
    whole[:3, 3] = -transform[:3, :3].T @ transform[:3, 3]
    return whole


def project(intrinsics: Array, points: Array) -> Array:
    """Pixels (u, v) of rows (x, y, z), x right, y *down*, z forward; all z must be positive.

    >>> project(np.array([[100.0, 0, 50], [0, 100, 40], [0, 0, 1]]), np.array([[1.0, 2.0, 4.0]]))
    array([[75., 90.]])
    """
    image = points @ intrinsics[:3, :3].T
    result: Array = image[:, :2] / image[:, 2:]
    return result


def bounds(pixels: Array) -> Box:
    """The smallest box around rows (u, v)."""
    left, top = pixels.min(axis=0)
    right, bottom = pixels.max(axis=0)
    return Box(float(left), float(top), float(right), float(bottom))


def clip_box(box: Box, size: tuple[int, int]) -> Box:
    """The part of a box that lies in an image of (width, height); it may have no area."""
    width, height = size
    left, right = (min(max(one, 0.0), float(width)) for one in (box.left, box.right))
    top, bottom = (min(max(one, 0.0), float(height)) for one in (box.top, box.bottom))
    return Box(left, top, right, bottom)


def area(box: Box) -> float:
    """Square pixels of a box; 0 of one that is turned around."""
    return max(0.0, box.right - box.left) * max(0.0, box.bottom - box.top)


def share_inside(box: Box, size: tuple[int, int]) -> float:
    """The part of a box's area that lies in an image of (width, height); 0 without area.

    >>> share_inside(Box(-10, 0, 10, 10), (100, 100))
    0.5
    """
    whole = area(box)
    return area(clip_box(box, size)) / whole if whole else 0.0


def box_around(points: Array) -> Box3D:
    """The axis-aligned box of rows (x, y, z): its centre and its full extent along x, y, z."""
    low, high = points.min(axis=0), points.max(axis=0)
    return Box3D(*(float(one) for one in (*((low + high) / 2), *(high - low))))


def corners_of(low: Array, high: Array) -> Array:
    """The eight corners of an axis-aligned box."""
    return np.array(
        [[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])]
    )


def turn(start: Place, ahead: Place, other: Place) -> float:
    """Return the degrees that a person at `start` who faces `ahead` has to turn to face `other`.

    Only x and y count; to the left is positive, -180 to 180. The ground is seen from above with x
    to the right and y upwards on the page.

    >>> here, north = Place(0, 0, 0), Place(0, 1, 0)
    >>> [round(turn(here, north, Place(*one, 0))) for one in ((-1, 0), (1, 0), (0, 2), (1, -1))]
    [90, -90, 0, -135]
    """
    fx, fy = ahead.x - start.x, ahead.y - start.y
    tx, ty = other.x - start.x, other.y - start.y
    return math.degrees(math.atan2(fx * ty - fy * tx, fx * tx + fy * ty))


def rotation(roll: float, pitch: float, yaw: float) -> Array:
    """The 3 × 3 rotation Rz(yaw) Ry(pitch) Rx(roll), angles in radians."""
    (cr, sr), (cp, sp), (cy, sy) = ((math.cos(a), math.sin(a)) for a in (roll, pitch, yaw))
    around_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    around_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    around_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    result: Array = around_z @ around_y @ around_x
    return result


def mercator(latitude: float, longitude: float, altitude: float, *, scale: float) -> Array:
    """East, north and up in metres of a place on the earth, as KITTI's development kit has it.

    Args:
        latitude: Degrees.
        longitude: Degrees.
        altitude: Metres.
        scale: The cosine of the first frame's latitude.
    """
    east = scale * EARTH * math.radians(longitude)
    north = scale * EARTH * math.log(math.tan(math.radians(90 + latitude) / 2))
    return np.array([east, north, altitude])
