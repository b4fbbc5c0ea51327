"""Negative points close beside objects, for perfect responses."""

from collections.abc import Sequence

import cv2
import numpy as np

from harness.masks import BoolArray
from harness.models.grammar import Item
from harness.types import Point

NEAR = 0.012
"""Distance as a share of the longest side: more than rounding to a canvas can move a point, and
well within the 40 of 840 pixels that the reward allows."""


def with_negatives(items: Sequence[Item], target: BoolArray) -> list[Item]:
    """Return the objects, each with the pixel nearest to its middle that lies beside all targets.

    Args:
        items: Objects of an image, in its pixels.
        target: height × width, the pixels of all objects.

    Where the objects leave no room, the farthest pixel that they leave is taken; where they
    leave none, there is no negative point.
    """
    if not items or target.all():
        return list(items)
    far = cv2.distanceTransform((~target).astype(np.uint8), cv2.DIST_L1, 3)
    minimum = min(max(2.0, NEAR * max(target.shape)), float(far.max()))
    rows, columns = np.nonzero(far >= minimum)
    return [item._replace(negative=_nearest_point(item, rows, columns)) for item in items]


def boxes_filled(items: Sequence[Item], size: tuple[int, int]) -> BoolArray:
    """Return the union of all boxes as a mask, in an image of (width, height)."""
    filled = np.zeros((size[1], size[0]), dtype=np.bool_)
    for item in items:
        left, top, right, bottom = (round(edge) for edge in item.bounds)
        filled[max(top, 0) : bottom, max(left, 0) : right] = True
    return filled


def _nearest_point(item: Item, rows: np.ndarray, columns: np.ndarray) -> Point:
    place = item.place
    index = int(np.argmin(np.abs(columns - place.x) + np.abs(rows - place.y)))
    return Point(float(columns[index]), float(rows[index]))
