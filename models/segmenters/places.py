"""Clip the boxes and points of prompts to the image; for `box`, `grabcut` and SAM segmenters.

Coordinates are in pixels; boxes exclude right and bottom.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from harness.types import Box, Point


class Rectangle(NamedTuple):
    """A rectangle of at least one whole pixel; `right` and `bottom` are exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows."""
        return self.bottom - self.top

    @property
    def slices(self) -> tuple[slice, slice]:
        """The rectangle as an index of a height × width array."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


def points_inside(points: Sequence[Point], size: tuple[int, int]) -> list[Point]:
    """Return the points that lie in an image of (width, height)."""
    return [point for point in points if 0 <= point.x < size[0] and 0 <= point.y < size[1]]


def clip_box(box: Box, size: tuple[int, int]) -> Box | None:
    """Clip a box to an image of (width, height) and sort its edges; None if nothing is left.

    >>> clip_box(Box(30, -5, 10, 20), (24, 24))
    Box(left=10.0, top=0.0, right=24.0, bottom=20.0)
    """
    if any(math.isnan(edge) for edge in box):
        return None
    left, right = sorted(min(max(float(x), 0.0), float(size[0])) for x in (box.left, box.right))
    top, bottom = sorted(min(max(float(y), 0.0), float(size[1])) for y in (box.top, box.bottom))
    return Box(left, top, right, bottom) if left < right and top < bottom else None


def rectangle(box: Box, size: tuple[int, int]) -> Rectangle | None:
    """Return the pixels of an image of (width, height) whose centres lie in `box`.

    Swapped edges are sorted. Return None if there is no such pixel: the box lies outside the
    image, falls between the centres of two pixels, or has a NaN coordinate.

    >>> rectangle(Box(-5, 2, 3.6, 99), (8, 8))
    Rectangle(left=0, top=2, right=4, bottom=8)
    """
    if any(math.isnan(edge) for edge in box):
        return None
    left, right = sorted((_edge(box.left, size[0]), _edge(box.right, size[0])))
    top, bottom = sorted((_edge(box.top, size[1]), _edge(box.bottom, size[1])))
    if left == right or top == bottom:
        return None
    return Rectangle(left, top, right, bottom)


def box_around_points(points: Sequence[Point]) -> Box | None:
    """Return the smallest box of whole pixels that holds all points; None without finite points."""
    finite = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    if not finite:
        return None
    x, y = [point.x for point in finite], [point.y for point in finite]
    return Box(
        math.floor(min(x)), math.floor(min(y)), math.floor(max(x)) + 1, math.floor(max(y)) + 1
    )


def _edge(coordinate: float, length: int) -> int:
    """Return the first pixel whose centre is not before the edge, from 0 to `length`."""
    return math.ceil(min(max(coordinate, 0.0), float(length)) - 0.5)
