"""Scenes of the generated world to images, prompts and true masks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.media import Frame
from harness.world.families import draw_scene
from harness.world.raster import render, visible_masks
from harness.world.scene import Scene
from pocket_training.sam.prompts import KINDS, Kind, points_of

T = TypeVar("T")

MIN_PIXELS = 12
"""Minimum number of visible pixels of an object that is prompted for."""

STILLS = ("still", "still", "count", "video")
"""Families of the images, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptedImage:
    """An image, prompts of one kind for some of its objects, and the true masks of these."""

    image: Frame
    points: NDArray[np.float32]
    """Objects × points × 2 (x, y), in pixels of the image."""
    labels: NDArray[np.int64]
    """Objects × points."""
    masks: BoolArray
    """Objects × height × width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Frames of a video in the order in which they are shown, and objects of its first."""

    frames: tuple[Frame, ...]
    masks: BoolArray
    """Frames × objects × height × width. An object may leave the view later, and return."""


def stills(seed: int, step: int, *, images: int, objects: int) -> list[PromptedImage]:
    """A step's images; all prompts of a step are of one kind."""
    draw = np.random.default_rng((seed, 0, step))
    kind = KINDS[int(draw.integers(len(KINDS)))]
    return [
        _make_prompted_image(seed, step * images + place, kind, objects, draw)
        for place in range(images)
    ]


def clips(seed: int, step: int, *, videos: int, objects: int, frames: int) -> list[Clip]:
    """A step's clips, each of as many frames: forward or backward, every frame or every second."""
    draw = np.random.default_rng((seed, 1, step))
    return [_clip(seed, step * videos + place, objects, frames, draw) for place in range(videos)]


def _make_prompted_image(
    seed: int, index: int, kind: Kind, objects: int, draw: Generator
) -> PromptedImage:
    def attempt_image(attempt: int) -> PromptedImage | None:
        scene = _scene(seed, STILLS[index % len(STILLS)], index, attempt)
        frame = int(draw.integers(scene.frames))
        masks = visible_masks(scene, frame)
        chosen = _choose_masks(masks, objects, draw)
        if chosen is None:
            return None
        points, labels = points_of(masks[chosen], kind, draw)
        return PromptedImage(
            image=render(scene, frame), points=points, labels=labels, masks=masks[chosen]
        )

    return _first_valid(attempt_image)


def _clip(seed: int, index: int, objects: int, frames: int, draw: Generator) -> Clip:
    def attempt_clip(attempt: int) -> Clip | None:
        return _clip_of(_scene(seed, "video", index, attempt), objects, frames, draw)

    return _first_valid(attempt_clip)


def _clip_of(scene: Scene, objects: int, frames: int, draw: Generator) -> Clip | None:
    pace = 2 if (frames - 1) * 2 < scene.frames and draw.random() < 0.25 else 1
    start = int(draw.integers(scene.frames - (frames - 1) * pace))
    order = list(range(start, start + frames * pace, pace))
    if draw.random() < 0.5:
        order.reverse()
    masks = np.stack([visible_masks(scene, frame) for frame in order])
    chosen = _choose_masks(masks[0], objects, draw)
    if chosen is None:
        return None
    return Clip(frames=tuple(render(scene, frame) for frame in order), masks=masks[:, chosen])


def _choose_masks(masks: BoolArray, number: int, draw: Generator) -> NDArray[np.int64] | None:
    """Return indices of `number` masks that are large enough; they repeat if there are fewer."""
    seen = np.flatnonzero(masks.sum((1, 2)) >= MIN_PIXELS)
    return np.resize(draw.permutation(seen), number) if len(seen) else None


def _scene(seed: int, family: str, index: int, attempt: int) -> Scene:
    """Return a scene; those beyond a million replace scenes without an object to prompt for."""
    return draw_scene(seed, family=family, split="train", index=index + attempt * 1_000_000)


def _first_valid(made: Callable[[int], T | None]) -> T:
    attempt = 0
    while (found := made(attempt)) is None:
        attempt += 1
    return found
