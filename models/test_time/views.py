"""Views of a request for MEMO: its images in other colours and, on demand, cropped or mirrored.

A change of colours keeps the coordinates of a response. A crop changes them, so each cropped view
has its own response (`harness.models.test_time.places`).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.chat import ChatRequest
from harness.media import Frame, Media, pixels
from harness.models.backends.shown_media import frames_shown
from harness.models.test_time.places import Part


@dataclass(frozen=True, slots=True)
class Jitter:
    """Factors of brightness, contrast and saturation; 1 changes nothing."""

    brightness: float
    contrast: float
    saturation: float

    def apply(self, frame: Frame) -> Frame:
        """Return a frame (height × width × 3 bytes) with its colours multiplied by the factors."""
        colours = frame.astype(np.float64) * self.brightness
        colours = colours.mean() + (colours - colours.mean()) * self.contrast
        grey = colours.mean(axis=2, keepdims=True)
        colours = grey + (colours - grey) * self.saturation
        changed: NDArray[np.uint8] = np.clip(colours.round(), 0, 255).astype(np.uint8)
        return changed


def generator(name: str, *, seed: int, key: str) -> np.random.Generator:
    """Return a random generator that depends only on `seed`, `key` and `name`."""
    digest = hashlib.blake2b(f"{seed}\0{key}\0{name}".encode(), digest_size=16).digest()
    philox = np.random.Philox(key=np.frombuffer(digest, dtype="<u8").astype(np.uint64))
    return np.random.Generator(philox)


def jitters(number: int, *, seed: int, key: str, strength: float) -> list[Jitter]:
    """Draw `number` jitters with factors between 1 - strength and 1 + strength.

    They depend only on the seed, the key and their index.
    """
    rng = generator("views", seed=seed, key=key)
    draws = rng.uniform(1 - strength, 1 + strength, (number, 3))
    return [Jitter(*row) for row in draws.tolist()]


def views(
    request: ChatRequest, number: int, *, seed: int, strength: float, parts: Sequence[Part] = ()
) -> list[ChatRequest]:
    """Return one request per view: first the request itself, then copies in other colours.

    Args:
        request: The sample's request.
        number: Number of views, the unchanged request among them.
        seed: Seed of the colours.
        strength: Largest relative change of the colours.
        parts: The part of the first medium that each copy shows; if empty, all of it.
    """
    colour_jitters = jitters(number - 1, seed=seed, key=request.key, strength=strength)
    full_image = Part()  # its defaults show all of an image
    view_parts = parts or [full_image] * len(colour_jitters)
    return [
        request,
        *(
            _view(request, f"{request.key}~{index}", jitter, part)
            for index, (jitter, part) in enumerate(zip(colour_jitters, view_parts, strict=True))
        ),
    ]


def _view(request: ChatRequest, key: str, jitter: Jitter, part: Part) -> ChatRequest:
    """Return the request with all media in other colours, and its first medium cropped."""

    def cropped_and_recoloured(frame: Frame) -> Frame:
        return jitter.apply(part.apply(frame))

    media = tuple(
        _with_frames(
            medium,
            frames_shown(request, media_index),
            f"{jitter}/{part}",
            cropped_and_recoloured if media_index == 0 else jitter.apply,
        )
        for media_index, medium in enumerate(request.media)
    )
    return replace(request, key=key, media=media)


def _with_frames(
    media: Media, frame_indices: Sequence[int], name: str, change: Callable[[Frame], Frame]
) -> Media:
    """Return a medium with `change` applied to its shown frames; the other frames are black."""
    changed_frames = set(frame_indices)
    blank = np.zeros_like(media.frame(frame_indices[0]))
    frames = [
        change(np.asarray(media.frame(frame))) if frame in changed_frames else blank
        for frame in range(len(media))
    ]
    return pixels(frames, times=media.times(), is_video=media.is_video, id=f"{media.id}/{name}")
