"""Clipping of prompts to the image: points outside are dropped, boxes end at its edges."""

import math
from collections.abc import Sequence

from harness.types import Box, Point


def points_inside(points: Sequence[Point], size: tuple[int, int]) -> list[Point]:
    """The points that lie in an image of (width, height)."""
    return [point for point in points if 0 <= point.x < size[0] and 0 <= point.y < size[1]]


def clip_box(box: Box, size: tuple[int, int]) -> Box | None:
    """A box within an image of (width, height), its edges in order; None if nothing is left.

    >>> clip_box(Box(30, -5, 10, 20), (24, 24))
    Box(left=10.0, top=0.0, right=24.0, bottom=20.0)
    """
    if any(math.isnan(edge) for edge in box):
        return None
    left, right = sorted(min(max(float(x), 0.0), float(size[0])) for x in (box.left, box.right))
    top, bottom = sorted(min(max(float(y), 0.0), float(size[1])) for y in (box.top, box.bottom))
    return Box(left, top, right, bottom) if left < right and top < bottom else None
