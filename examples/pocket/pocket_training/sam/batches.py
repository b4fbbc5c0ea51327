"""Scenes of the generated world to images, prompts and true masks."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.media import Frame
from harness.world.families import draw_scene
from harness.world.raster import render, visible_masks
from harness.world.scene import Scene
from pocket_training.sam.prompts import KINDS, points_of

MIN_PIXELS = 12
"""Minimum number of visible pixels of an object that is prompted for."""

STILLS = ("still", "still", "count", "video")
"""Families of the images, in turn."""


class PromptedImage(NamedTuple):
    """An image, prompts of one kind for some of its objects, and the true masks of these."""

    image: Frame
    points: NDArray[np.float32]
    """Objects × points × 2 (x, y), as shares of the image's width and height."""
    labels: NDArray[np.int64]
    """Objects × points."""
    masks: BoolArray
    """Objects × height × width."""


class Clip(NamedTuple):
    """Frames of a video in the order in which they are shown, and objects of its first."""

    frames: Sequence[Frame]
    masks: BoolArray
    """Frames × objects × height × width. An object may leave the view later, and return."""


def stills(seed: int, step: int, *, images: int, objects: int) -> list[PromptedImage]:
    """A step's images; all prompts of a step are of one kind."""
    draw = np.random.default_rng((seed, 0, step))
    kind = KINDS[int(draw.integers(len(KINDS)))]
    made = []
    for index in range(step * images, (step + 1) * images):
        for scene in _scenes(seed, STILLS[index % len(STILLS)], index):
            frame = int(draw.integers(scene.frames))
            masks = visible_masks(scene, frame)
            chosen = _choose_masks(masks, objects, draw)
            if chosen is not None:
                points, labels = points_of(masks[chosen], kind, draw)
                points /= np.array([scene.width, scene.height], dtype=np.float32)
                made.append(PromptedImage(render(scene, frame), points, labels, masks[chosen]))
                break
    return made


def clips(seed: int, step: int, *, videos: int, objects: int, frames: int) -> list[Clip]:
    """A step's clips, each of as many frames: forward or backward, every frame or every second."""
    draw = np.random.default_rng((seed, 1, step))
    made = []
    for index in range(step * videos, (step + 1) * videos):
        for scene in _scenes(seed, "video", index):
            order = _frames_of_clip(scene, frames, draw)
            masks = np.stack([visible_masks(scene, frame) for frame in order])
            chosen = _choose_masks(masks[0], objects, draw)
            if chosen is not None:
                shown = [render(scene, frame) for frame in order]
                made.append(Clip(shown, masks[:, chosen]))
                break
    return made


def _frames_of_clip(scene: Scene, frames: int, draw: Generator) -> list[int]:
    pace = 2 if (frames - 1) * 2 < scene.frames and draw.random() < 0.25 else 1
    start = int(draw.integers(scene.frames - (frames - 1) * pace))
    order = list(range(start, start + frames * pace, pace))
    return order[::-1] if draw.random() < 0.5 else order


def _choose_masks(masks: BoolArray, number: int, draw: Generator) -> NDArray[np.int64] | None:
    """Return indices of `number` masks that are large enough; they repeat if there are fewer."""
    seen = np.flatnonzero(masks.sum((1, 2)) >= MIN_PIXELS)
    return np.resize(draw.permutation(seen), number) if len(seen) else None


def _scenes(seed: int, family: str, index: int) -> Iterator[Scene]:
    """Yield a scene, then others in place of scenes without an object to prompt for."""
    for number in count(index, 1_000_000):
        yield draw_scene(seed, family=family, split="train", index=number)
