"""Pictures that look alike, whatever they are called and however they were saved.

A picture becomes 255 bits: which of its lowest spatial frequencies are above their median (the
discrete cosine transform of a grey copy of 32 × 32 pixels; Zauner 2010 compares such hashes).
Resizing, squashing to a square and compression change few of the bits; another picture, about
half of them.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from os import cpu_count

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.errors import HarnessError
from harness.media import Frame, Media

SIDE = 32
FREQUENCIES = 16
PLAIN = 4.0
"""Grey levels of standard deviation below which a picture is too plain to be told from others."""
ALIKE = 24
"""Differing bits up to which two pictures are the same one. Of photographs that were squashed to
840 × 840, halved, or saved at quality 30, at most 6 of the 255 bits differed; of frames of one
video that follow each other 52 or more, of other photographs 110 or more."""
BYTES = FREQUENCIES * FREQUENCIES // 8
TOGETHER = 1024  # media whose hashes are asked for at once

WAVES = np.cos(
    np.pi * (2 * np.arange(SIDE) + 1)[None] * np.arange(FREQUENCIES)[:, None] / (2 * SIDE)
)


def picture_hash(picture: Frame) -> str:
    """The bits of a picture as hexadecimal digits; empty for one that is too plain."""
    small = Image.fromarray(picture).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    grey = np.asarray(small, dtype=np.float64)
    if grey.std() < PLAIN:
        return ""
    waves = (WAVES @ grey @ WAVES.T).ravel()
    bits = waves > np.median(waves[1:])
    bits[0] = False  # how bright it is, which is no shape
    return np.packbits(bits).tobytes().hex()


def media_hash(media: Media) -> str:
    """The hash of a picture, or of a video's middle frame; empty where it cannot be decoded."""
    try:
        return picture_hash(media.frame(len(media) // 2))
    except HarnessError:  # what cannot be decoded is told elsewhere, and looks like nothing
        return ""


def media_hashes(several: Iterable[tuple[Media, ...]]) -> Iterator[tuple[str, ...]]:
    """The hashes of samples' media, in order; pictures are decoded side by side."""

    def hashed(media: tuple[Media, ...]) -> tuple[str, ...]:
        return tuple(found for one in media if (found := media_hash(one)))

    stream = iter(several)
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        while part := list(islice(stream, TOGETHER)):
            yield from pool.map(hashed, part)


class Likeness:
    """Pictures that are known, to ask whether another one is among them."""

    def __init__(self, hashes: Iterable[str]) -> None:
        self._exactly = {one for one in hashes if len(one) == 2 * BYTES}
        packed = b"".join(map(bytes.fromhex, sorted(self._exactly)))
        self._known = _words(packed)

    def __len__(self) -> int:
        return len(self._exactly)

    def __contains__(self, wanted: str) -> bool:
        if wanted in self._exactly:
            return True
        if not self._exactly or len(wanted) != 2 * BYTES:
            return False
        (asked,) = _words(bytes.fromhex(wanted))
        return int(np.bitwise_count(self._known ^ asked).sum(axis=1).min()) <= ALIKE


def _words(packed: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(packed, dtype=np.uint64).reshape(-1, BYTES // 8)
