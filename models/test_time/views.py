"""Views of a request for MEMO: its images with other brightness, contrast and saturation.

Colours alone change, so that every box of an answer is at the same place in each view.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.media import Frame, Media, pixels
from harness.model import ChatRequest
from harness.models.backends.inputs import frames_shown


@dataclass(frozen=True, slots=True)
class Jitter:
    """Factors of colours: 1 leaves them as they are."""

    brightness: float
    contrast: float
    saturation: float

    def apply(self, frame: Frame) -> Frame:
        """Return a frame (height × width × 3 bytes) with these colours."""
        colours = frame.astype(np.float64) * self.brightness
        colours = colours.mean() + (colours - colours.mean()) * self.contrast
        grey = colours.mean(axis=2, keepdims=True)
        colours = grey + (colours - grey) * self.saturation
        changed: NDArray[np.uint8] = np.clip(colours.round(), 0, 255).astype(np.uint8)
        return changed


def jitters(number: int, *, seed: int, key: str, strength: float) -> list[Jitter]:
    """Return factors drawn from 1 - strength to 1 + strength, by seed, key and place alone."""
    digest = hashlib.blake2b(f"{seed}\0{key}\0views".encode(), digest_size=16).digest()
    philox = np.random.Philox(key=np.frombuffer(digest, dtype="<u8").astype(np.uint64))
    draws = np.random.Generator(philox).uniform(1 - strength, 1 + strength, (number, 3))
    return [Jitter(*row) for row in draws.tolist()]


def views(
    request: ChatRequest, number: int, *, seed: int, strength: float
) -> Sequence[ChatRequest]:
    """Return the request with its media in other colours, once a view; the first is itself."""
    changed = jitters(number - 1, seed=seed, key=request.key, strength=strength)
    return [request, *(_with_colours(request, place, one) for place, one in enumerate(changed))]


def _with_colours(request: ChatRequest, place: int, jitter: Jitter) -> ChatRequest:
    media = tuple(
        _jittered(one, frames_shown(request, number), jitter)
        for number, one in enumerate(request.media)
    )
    return replace(request, key=f"{request.key}~{place}", media=media)


def _jittered(media: Media, shown: Sequence[int], jitter: Jitter) -> Media:
    """Return a medium whose shown frames are changed; the others are not looked at."""
    seen = set(shown)
    blank = np.zeros_like(media.frame(shown[0]))
    frames = [
        jitter.apply(np.asarray(media.frame(place))) if place in seen else blank
        for place in range(len(media))
    ]
    return pixels(frames, times=media.times(), is_video=media.is_video, id=f"{media.id}/{jitter}")
