"""Views of a request for MEMO: its images in other colours, and, if wanted, parts of them.

Other colours leave every box of a response where it is. In a part of an image the same object has
other coordinates, so each view then has its own response (`harness.models.test_time.places`).
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


def generator(name: str, *, seed: int, key: str) -> np.random.Generator:
    """Return random numbers by seed, sample and name alone."""
    digest = hashlib.blake2b(f"{seed}\0{key}\0{name}".encode(), digest_size=16).digest()
    philox = np.random.Philox(key=np.frombuffer(digest, dtype="<u8").astype(np.uint64))
    return np.random.Generator(philox)


def jitters(number: int, *, seed: int, key: str, strength: float) -> list[Jitter]:
    """Return factors drawn from 1 - strength to 1 + strength, by seed, key and place alone."""
    rng = generator("views", seed=seed, key=key)
    draws = rng.uniform(1 - strength, 1 + strength, (number, 3))
    return [Jitter(*row) for row in draws.tolist()]


def views(
    request: ChatRequest, number: int, *, seed: int, strength: float, parts: Sequence[Part] = ()
) -> list[ChatRequest]:
    """Return the request with its media in other colours, once a view; the first is itself.

    Args:
        request: Of the sample.
        number: Of views, the first one among them.
        seed: Of the colours.
        strength: Most that colours change, as a share.
        parts: What of the first medium each further view shows; none: all of it.
    """
    drawn = jitters(number - 1, seed=seed, key=request.key, strength=strength)
    whole = Part()  # its defaults show all of an image
    shown = parts or [whole] * len(drawn)
    return [
        request,
        *(
            _view(request, f"{request.key}~{place}", jitter, part)
            for place, (jitter, part) in enumerate(zip(drawn, shown, strict=True))
        ),
    ]


def _view(request: ChatRequest, key: str, jitter: Jitter, part: Part) -> ChatRequest:
    def cut_and_coloured(frame: Frame) -> Frame:
        return jitter.apply(part.apply(frame))

    media = tuple(
        _with_frames(
            medium,
            frames_shown(request, place),
            f"{jitter}/{part}",
            cut_and_coloured if place == 0 else jitter.apply,
        )
        for place, medium in enumerate(request.media)
    )
    return replace(request, key=key, media=media)


def _with_frames(
    media: Media, shown: Sequence[int], name: str, change: Callable[[Frame], Frame]
) -> Media:
    """Return a medium with its shown frames changed, and the others, which nobody sees, black."""
    seen = set(shown)
    blank = np.zeros_like(media.frame(shown[0]))
    frames = [
        change(np.asarray(media.frame(place))) if place in seen else blank
        for place in range(len(media))
    ]
    return pixels(frames, times=media.times(), is_video=media.is_video, id=f"{media.id}/{name}")
