"""Drawn scenes: a bright disc on dark ground, standing or moving right."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from harness import media
from harness.media import Frame, Media
from harness.types import AnswerForm, Query, query_id

GROUND = (40, 60, 50)
PAINT = (230, 160, 60)


@dataclass(frozen=True)
class Scene:
    media: Media
    masks: tuple[NDArray[np.bool_], ...]

    @property
    def image(self) -> Frame:
        return self.media.frame(0)

    def query(self, *forms: AnswerForm, text: str = "", name: str = "disc") -> Query:
        return Query(id=query_id(name), text=text, media=(self.media,), forms=forms)


def disc(size: tuple[int, int], centre: tuple[float, float], radius: float) -> NDArray[np.bool_]:
    y, x = np.mgrid[: size[1], : size[0]]
    return np.hypot(x + 0.5 - centre[0], y + 0.5 - centre[1]) <= radius


def textured(size: tuple[int, int], seed: int) -> NDArray[np.int16]:
    """Blocks of 4 × 4 pixels that differ a little: flow needs something to hold on to."""
    random = np.random.Generator(np.random.Philox(key=seed))
    blocks = random.integers(-12, 13, size=(size[1] // 4 + 1, size[0] // 4 + 1, 1))
    return np.kron(blocks, np.ones((4, 4, 1), dtype=np.int16))[: size[1], : size[0]]


def drawn(masks: list[NDArray[np.bool_]], steps: list[int]) -> tuple[Frame, ...]:
    """One frame a mask; the paint's texture moves by the steps, the ground's stands still."""
    size = (masks[0].shape[1], masks[0].shape[0])
    ground = np.array(GROUND) + textured(size, 1)
    paint = np.array(PAINT) + textured(size, 2)
    return tuple(
        np.where(mask[..., None], np.roll(paint, step, axis=1), ground).astype(np.uint8)
        for mask, step in zip(masks, steps, strict=True)
    )


@pytest.fixture(scope="session")
def standing() -> Scene:
    mask = disc((160, 120), (70, 64), 26)
    (frame,) = drawn([mask], [0])
    return Scene(media.pixels([frame], times=[0.0], is_video=False, id="standing"), (mask,))


@pytest.fixture(scope="session")
def moving() -> Scene:
    steps = [4 * index for index in range(7)]
    masks = [disc((160, 120), (60 + step, 60), 22) for step in steps]
    frames = drawn(masks, steps)
    video = media.pixels(frames, times=range(7), is_video=True, id="moving")
    return Scene(video, tuple(masks))


@pytest.fixture(scope="session")
def plain() -> Scene:
    frame = np.full((48, 64, 3), 127, dtype=np.uint8)
    empty = np.zeros((48, 64), dtype=np.bool_)
    return Scene(media.pixels([frame], times=[0.0], is_video=False, id="plain"), (empty,))
