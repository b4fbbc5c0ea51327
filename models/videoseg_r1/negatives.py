"""Choose the negative point of each object (a point close to it, on none) for written responses.

`VideoSegR1` writes perfect responses and training responses with it. Points are in image pixels.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from harness.masks import BoolArray
from harness.models.grammar import Item
from harness.types import Point

MIN_DISTANCE = 0.012
"""Smallest distance to the objects, as a share of the image's longest side: more than rounding to
the canvas can move a point, and far less than the 40 of 840 pixels that the reward allows."""


def with_negatives(items: Sequence[Item], target: BoolArray) -> list[Item]:
    """Return the objects, each with the nearest pixel to its point that is off all targets.

    The pixel is at least `MIN_DISTANCE` from the targets. If no pixel is that far from them, the
    farthest ones are candidates; if the targets fill the image, there is no negative point.

    Args:
        items: Objects in pixels of an image.
        target: Mask of all objects, height × width.
    """
    if not items or target.all():
        return list(items)
    distance = cv2.distanceTransform((~target).astype(np.uint8), cv2.DIST_L1, 3)
    minimum = min(max(2.0, MIN_DISTANCE * max(target.shape)), float(distance.max()))
    rows, columns = np.nonzero(distance >= minimum)
    return [item._replace(negative=_nearest_point(item, rows, columns)) for item in items]


def boxes_filled(items: Sequence[Item], size: tuple[int, int]) -> BoolArray:
    """Return the union of all boxes as a mask, in an image of (width, height)."""
    filled = np.zeros((size[1], size[0]), dtype=np.bool_)
    for item in items:
        left, top, right, bottom = (round(edge) for edge in item.bounds)
        filled[max(top, 0) : bottom, max(left, 0) : right] = True
    return filled


def _nearest_point(item: Item, rows: np.ndarray, columns: np.ndarray) -> Point:
    """Return the candidate pixel (row, column) with the least L1 distance to the item's point."""
    point = item.place
    index = int(np.argmin(np.abs(columns - point.x) + np.abs(rows - point.y)))
    return Point(float(columns[index]), float(rows[index]))
