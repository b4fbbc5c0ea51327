"""Objects in a salience map, and the prompts for a segmenter that point at them."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.model import ObjectPrompt
from harness.models.saliency.maps import otsu_mask
from harness.types import Box, Point

MIN_SHARE = 0.002  # of the image: less is noise
MIN_WEIGHT = 0.25  # of the heaviest object's: less is a fragment
MAX_POINTS = 3  # inside an object, and as many beside it


@dataclass(frozen=True, slots=True)
class SalientObject:
    """One connected salient part of an image."""

    prompt: ObjectPrompt
    """Prompt in image pixels: box, points inside the object, and points in the box beside it."""
    score: float
    """Mean salience, from 0 to 1."""


def salient_objects(field: NDArray[np.float32], size: tuple[int, int]) -> list[SalientObject]:
    """The objects of a salience map, the one with most salience in total first.

    Args:
        field: a map from 0 to 1, height × width of a shrunk image.
        size: (width, height) of the image that prompts are for.
    """
    bright = otsu_mask(field).astype(np.uint8)
    firm = cv2.morphologyEx(bright, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(firm, connectivity=8)
    parts = [labels == label for label in range(1, count)]
    parts = [part for part in parts if part.mean() >= MIN_SHARE]
    weights = [float(field[part].sum(dtype=np.float64)) for part in parts]
    order = sorted(range(len(parts)), key=lambda i: -weights[i])
    return [
        SalientObject(prompt_for(parts[i], size), float(field[parts[i]].mean()))
        for i in order
        if weights[i] >= MIN_WEIGHT * max(weights)
    ]


def prompt_for(part: BoolArray, size: tuple[int, int]) -> ObjectPrompt:
    """Return a box around a part and points in and beside it, in pixels of an image (width,
    height).
    """
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    across, down = size[0] / part.shape[1], size[1] / part.shape[0]
    beside = np.zeros_like(part)
    beside[top:bottom, left:right] = ~part[top:bottom, left:right]
    return ObjectPrompt(
        box=Box(left * across, top * down, right * across, bottom * down),
        positive=tuple(Point(x * across, y * down) for x, y in inner_points(part)),
        negative=tuple(Point(x * across, y * down) for x, y in inner_points(beside)),
    )


def inner_points(part: BoolArray) -> list[tuple[float, float]]:
    """Centres (x, y) of the pixels deepest inside a part, each far from those before it.

    Depth is the distance to the outside; a point rules out the disc around it that fits in the
    part, and points less than half as deep as the first are left out.
    """
    depth = cv2.distanceTransform(np.pad(part.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    y, x = np.mgrid[: part.shape[0], : part.shape[1]]
    points: list[tuple[float, float]] = []
    first = float(depth.max())
    while len(points) < MAX_POINTS and depth.max() > 0 and depth.max() >= first / 2:
        row, column = np.unravel_index(int(depth.argmax()), depth.shape)
        radius = float(depth[row, column])
        depth = np.where(np.hypot(x - column, y - row) <= 2 * radius, 0, depth)
        points.append((float(column) + 0.5, float(row) + 0.5))
    return points
