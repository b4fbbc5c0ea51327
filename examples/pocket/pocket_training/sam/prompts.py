"""Prompts like a reasoner's: boxes that are a little off, points that are inside."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from harness.masks import BoolArray

Point: TypeAlias = tuple[float, float]

INSIDE, BESIDE, TOP_LEFT, BOTTOM_RIGHT = 1, 0, 2, 3
"""SAM 2's labels of its points."""

SLACK = 2.0  # pixels
SHARES = (None, None, 0.1, 0.1, 0.25)
"""Largest shift of boxes' edges, besides SLACK, as a share of the longer side; None: no shift."""

CENTRAL = 0.5  # of points inside
TRIES = 50


class Kind(NamedTuple):
    """Kind of a prompt: a box, and numbers of points."""

    box: bool
    inside: int
    beside: int = 0


KINDS = (
    *(Kind(True, 1),) * 10,
    *(Kind(True, 0),) * 3,
    *(Kind(False, 1),) * 3,
    *(Kind(True, 1, 1),) * 2,
    Kind(False, 3),
    Kind(False, 2, 1),
)
"""Kinds of prompts, each as often as it is drawn. All prompts of a step are of one kind: SAM 2
attends to padding, so prompts of several kinds in one pass are unlike its inputs in use."""


def points_of(
    masks: BoolArray, kind: Kind, draw: Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """A prompt for each mask: objects × points × 2 (x, y) in pixels, and objects × points labels.

    Every mask has a pixel.
    """
    points = []
    for mask in masks:
        rows, columns = np.nonzero(mask)
        box = np.array([columns.min(), rows.min(), columns.max() + 1.0, rows.max() + 1.0])
        inside = [_point_inside(rows, columns, box, draw) for _ in range(kind.inside)]
        beside = [_point_beside(mask, box, draw) for _ in range(kind.beside)]
        points.append([*inside, *beside, *(_corners(box, mask.shape, draw) if kind.box else ())])
    labels = [INSIDE] * kind.inside + [BESIDE] * kind.beside
    labels += [TOP_LEFT, BOTTOM_RIGHT] if kind.box else []
    return np.array(points, dtype=np.float32), np.array([labels] * len(masks))


def _point_inside(
    rows: NDArray[np.int64], columns: NDArray[np.int64], box: NDArray[np.float64], draw: Generator
) -> Point:
    """A place in the object: often the one nearest to the middle of its box."""
    if draw.random() < CENTRAL:
        across, down = columns + 0.5 - box[[0, 2]].mean(), rows + 0.5 - box[[1, 3]].mean()
        at = int((across**2 + down**2).argmin())
    else:
        at = int(draw.integers(len(rows)))
    x, y = draw.random(2)
    return columns[at] + x, rows[at] + y


def _point_beside(mask: BoolArray, box: NDArray[np.float64], draw: Generator) -> Point:
    """A place near the object that is not in it; a corner of the image if none is found."""
    height, width = mask.shape
    middle, reach = (box[:2] + box[2:]) / 2, box[2:] - box[:2] + 8
    for _ in range(TRIES):
        x, y = middle + (draw.random(2) - 0.5) * 1.5 * reach
        if 0 <= x < width and 0 <= y < height and not mask[int(y), int(x)]:
            return x, y
    return 0.5, 0.5


def _corners(
    box: NDArray[np.float64], shape: tuple[int, ...], draw: Generator
) -> tuple[Point, Point]:
    """The box's corners: exact, or each edge off by up to some pixels; at least a pixel apart."""
    share = SHARES[int(draw.integers(len(SHARES)))]
    limit = 0.0 if share is None else SLACK + share * max(box[2:] - box[:2])
    off = np.clip(draw.standard_normal(4) * limit / 2, -limit, limit)
    height, width = shape
    left, top, right, bottom = np.clip(box + off, 0, [width, height, width, height])
    return (min(left, right - 1), min(top, bottom - 1)), (
        max(right, left + 1),
        max(bottom, top + 1),
    )
