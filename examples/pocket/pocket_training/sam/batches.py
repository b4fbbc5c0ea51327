"""Images of generated scenes, true masks, and prompts like a reasoner's.

Boxes are a little off, points are inside.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.media import Frame
from harness.world.families import draw_scene
from harness.world.raster import edges, render, visible_masks
from harness.world.scene import Scene

Floats: TypeAlias = NDArray[np.float64]

STILLS = ("still", "still", "count", "video")  # families of the images, in turn
MIN_PIXELS = 12  # visible ones of an object that is prompted for

INSIDE, BESIDE, TOP_LEFT, BOTTOM_RIGHT = 1, 0, 2, 3  # SAM 2's labels of its points
SLACK, SHARES = 2.0, (None, None, 0.1, 0.1, 0.25)
"""Largest shift of boxes' edges: pixels, and shares of the longer side; None: no shift."""
CENTRAL = 0.5  # of points inside
TRIES = 50  # to find a point beside an object; then it is a corner of the image


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


class PromptedImage(NamedTuple):
    """An image, prompts of one kind for some of its objects, and the true masks of these."""

    image: Frame
    points: NDArray[np.float32]  # objects × points × 2 (x, y), as shares of width and height
    labels: NDArray[np.int64]  # objects × points
    masks: BoolArray  # objects × height × width


class Clip(NamedTuple):
    """Frames of a video in the order in which they are shown, and objects of its first."""

    frames: Sequence[Frame]
    masks: BoolArray  # frames × objects × height × width; an object may leave, and return


def stills(seed: int, step: int, *, images: int, objects: int) -> list[PromptedImage]:
    """A step's images; all prompts of a step are of one kind."""
    draw = np.random.default_rng((seed, 0, step))
    kind = KINDS[int(draw.integers(len(KINDS)))]
    made = []
    for index in range(step * images, (step + 1) * images):
        family = STILLS[index % len(STILLS)]
        scene, (frame,), (masks,) = _drawn(draw, seed, family, index, objects, frames=1)
        points, labels = points_of(masks, kind, draw)
        points /= np.array([scene.width, scene.height], dtype=np.float32)
        made.append(PromptedImage(render(scene, frame), points, labels, masks))
    return made


def clips(seed: int, step: int, *, videos: int, objects: int, frames: int) -> list[Clip]:
    """A step's clips, each of as many frames."""
    draw = np.random.default_rng((seed, 1, step))
    made = []
    for index in range(step * videos, (step + 1) * videos):
        scene, order, masks = _drawn(draw, seed, "video", index, objects, frames=frames)
        made.append(Clip([render(scene, frame) for frame in order], masks))
    return made


def _drawn(
    draw: Generator, seed: int, family: str, index: int, objects: int, *, frames: int
) -> tuple[Scene, list[int], BoolArray]:
    """Return a scene, frames of it, and the masks there of objects that the first one shows.

    Objects repeat if there are fewer; another scene takes the place of one without any.
    """
    while True:
        scene = draw_scene(seed, family=family, split="train", index=index)
        order = _frames(scene, frames, draw)
        masks = np.stack([visible_masks(scene, frame) for frame in order])
        seen = np.flatnonzero(masks[0].sum((1, 2)) >= MIN_PIXELS)
        if len(seen):
            return scene, order, masks[:, np.resize(draw.permutation(seen), objects)]
        index += 1_000_000


def _frames(scene: Scene, number: int, draw: Generator) -> list[int]:
    """Frames of a clip, forward or backward, every one or every second; or any one."""
    if number == 1:
        return [int(draw.integers(scene.frames))]
    pace = 2 if (number - 1) * 2 < scene.frames and draw.random() < 0.25 else 1
    start = int(draw.integers(scene.frames - (number - 1) * pace))
    order = list(range(start, start + number * pace, pace))
    return order[::-1] if draw.random() < 0.5 else order


def points_of(
    masks: BoolArray, kind: Kind, draw: Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """A prompt for each mask: objects × points × 2 (x, y) in pixels, and objects × points labels.

    Every mask has a pixel.
    """
    points = [_points(mask, kind, draw) for mask in masks]
    labels = [INSIDE] * kind.inside + [BESIDE] * kind.beside
    labels += [TOP_LEFT, BOTTOM_RIGHT] if kind.box else []
    return np.array(points, dtype=np.float32), np.array([labels] * len(masks))


def _points(mask: BoolArray, kind: Kind, draw: Generator) -> list[Floats]:
    """The points of a prompt for a mask: inside, beside, and the corners of its box."""
    (height, width), (rows, columns) = mask.shape, np.nonzero(mask)
    box = np.array(edges(mask), dtype=np.float64)
    middle, sides, points = (box[:2] + box[2:]) / 2, box[2:] - box[:2], list[Floats]()
    for _ in range(kind.inside):
        if draw.random() < CENTRAL:  # the one nearest to the middle of the box
            across, down = columns + 0.5 - middle[0], rows + 0.5 - middle[1]
            at = int((across**2 + down**2).argmin())
        else:
            at = int(draw.integers(len(rows)))
        points.append(np.array([columns[at], rows[at]]) + draw.random(2))
    for _ in range(kind.beside):
        for _ in range(TRIES):
            x, y = place = middle + (draw.random(2) - 0.5) * 1.5 * (sides + 8)
            if 0 <= x < width and 0 <= y < height and not mask[int(y), int(x)]:
                break
        else:
            place = np.array([0.5, 0.5])
        points.append(place)
    if kind.box:  # exact, or each edge off by up to some pixels; corners at least a pixel apart
        share = SHARES[int(draw.integers(len(SHARES)))]
        limit = 0.0 if share is None else SLACK + share * max(sides)
        off = np.clip(draw.standard_normal(4) * limit / 2, -limit, limit)
        first, last = np.clip(box + off, 0, [width, height] * 2).reshape(2, 2)
        points += [np.minimum(first, last - 1), np.maximum(last, first + 1)]
    return points
