"""Perceptual hashes, which recognise an image under another name, size or compression.

An image has 255 bits: whether each of its lowest spatial frequencies is above their median (the
discrete cosine transform of a grey copy of 32 × 32 pixels; Zauner 2010 compares such hashes).
Resizing, squashing to a square and compression change few bits; two different images differ in
about half of them. Of a video several frames are hashed: it matches another video if one frame of
each does. `contamination` compares training samples with benchmarks.
"""

from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from os import cpu_count

import numpy as np
from PIL import Image

from harness.errors import HarnessError
from harness.media import Frame, Media
from harness.video.decoder import MAX_OPEN

SIDE = 32  # pixels of the grey copy's sides
FREQUENCIES = 16  # frequencies in each direction
PLAIN = 4.0
"""Smallest standard deviation, in grey levels, of an image that is hashed; a more uniform one looks
like many others."""
ALIKE = 24
"""Largest number of differing bits of two copies of an image. Photographs that were squashed to
840 × 840, halved, or saved at quality 30 differed in at most 6 of the 255 bits; different
photographs in 110 or more, frames of different films in 94 or more. How long the frames of a video
stay alike depends on its motion: in six short films of 25 or 30 frames a second, half of all frames
had become another image after 0.04 s in the fastest and 1.2 s in the calmest."""
UNLIKE = 64
"""Smallest number of differing bits of two images that are not copies of each other. Images
of low contrast that were saved at quality 10 differed from themselves in up to 42."""
KEPT, ASKED = 8, 32
"""Numbers of equal parts of a video, at whose bounds frames are hashed: for training samples, whose
hashes are stored, and for samples that are compared with them. Frames of the first are frames of
the second, and of a half or a quarter of the video. Another cut of the video is found if two frames
happen to be close, which 31 frames make about four times as likely as 7 would. For a film of a
minute, 7 frames took 1.8 times as long to decode as one, and 31 a tenth longer than 7, because key
frames are farther apart."""
BYTES = FREQUENCIES * FREQUENCIES // 8  # of a hash
TOGETHER = 1024  # samples whose hashes are requested together

WAVES = np.cos(
    np.pi * (2 * np.arange(SIDE) + 1)[None] * np.arange(FREQUENCIES)[:, None] / (2 * SIDE)
)


def image_hash(image: Frame) -> str:
    """Return the bits of an image as 64 hexadecimal digits; empty for one that is too uniform."""
    small = Image.fromarray(image).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    grey = np.asarray(small, dtype=np.float64)
    if grey.std() < PLAIN:
        return ""
    waves = (WAVES @ grey @ WAVES.T).ravel()
    bits = waves > np.median(waves[1:])
    bits[0] = False  # the mean brightness, which is not a shape
    return np.packbits(bits).tobytes().hex()


def differing_bits(one: str, other: str) -> int:
    """Return the number of bits in which two hashes differ."""
    return (int(one, 16) ^ int(other, 16)).bit_count()


def frames_between(frames: int, parts: int) -> tuple[int, ...]:
    """Return the indices of the frames at the bounds between `parts` equal parts of a video.

    The beginning and the end are left out, because unrelated videos share titles and fades.

    >>> frames_between(100, 8), frames_between(4, 8), frames_between(1, 8)
    ((12, 25, 37, 50, 62, 75, 87), (0, 1, 2, 3), (0,))
    """
    return tuple(sorted({part * frames // parts for part in range(1, parts)}))


def media_hash(media: Media, parts: int = KEPT) -> tuple[str, ...]:
    """Return the distinct hashes of an image, or of frames of a video, in order.

    Frames that are too uniform or cannot be decoded have none; the middle frame is included.
    """
    hashes: dict[str, None] = {}
    for number in frames_between(len(media), parts):
        try:
            hashes[image_hash(media.frame(number))] = None
        except HarnessError:  # reported when the benchmark is checked
            continue
    return tuple(filter(None, hashes))


def media_hashes(
    samples: Iterable[tuple[str, tuple[Media, ...]]], parts: int = KEPT
) -> Iterator[tuple[str, ...]]:
    """Yield the hashes of each sample's media, in order; media are decoded in parallel.

    Args:
        samples: (group, media) of each sample. A video is decoded once for all samples of its
            group, because a benchmark may ask many questions about it.
        parts: Number of parts of a video; see `media_hash`.
    """
    stream = iter(samples)
    begun: dict[Hashable, Future[tuple[str, ...]]] = {}
    # More threads than video files that stay open would open their files again and again.
    pool = ThreadPoolExecutor(min(MAX_OPEN, cpu_count() or 1))

    def hashes_of(group: str, index: int, media: Media) -> Future[tuple[str, ...]]:
        if not media.is_video:
            return pool.submit(media_hash, media, parts)
        name = (group, index, *_shape(media))
        if name not in begun:
            begun[name] = pool.submit(media_hash, media, parts)
        return begun[name]

    try:
        while part := list(islice(stream, TOGETHER)):
            unhashed = [
                [hashes_of(group, index, medium) for index, medium in enumerate(media)]
                for group, media in part
            ]
            for sample in unhashed:
                yield tuple(digest for hashes in sample for digest in hashes.result())
    finally:
        pool.shutdown(cancel_futures=True)


def _shape(video: Media) -> tuple[Hashable, ...]:
    """Return size, frames, first and last time and bytes, which differ for videos of one name."""
    times = video.times()
    try:
        weight = video.weight or video.id
    except OSError:  # frames are missing; decoding them raises the error
        weight = -1
    return video.size, len(video), times[0], times[-1], weight


class PerceptualIndex:
    """A set of image hashes, 32 bytes each; it contains all within `ALIKE` bits of a member."""

    def __init__(self, hashes: Iterable[str]) -> None:
        packed = bytearray()
        for digest in hashes:
            packed += bytes.fromhex(digest) if len(digest) == 2 * BYTES else b""
        words = np.frombuffer(packed, dtype=np.uint64).reshape(-1, BYTES // 8)
        self._words = np.ascontiguousarray(np.unique(words, axis=0).T)  # (words, hashes)

    def __len__(self) -> int:
        return int(self._words.shape[1])

    def __contains__(self, digest: str) -> bool:
        if not len(self) or len(digest) != 2 * BYTES:
            return False
        bits = np.frombuffer(bytes.fromhex(digest), dtype=np.uint64)
        # The first word alone excludes 29 of 30 other images.
        near = np.flatnonzero(np.bitwise_count(self._words[0] ^ bits[0]) <= ALIKE)
        differ = np.bitwise_count(self._words.take(near, axis=1) ^ bits[:, None]).sum(axis=0)
        return bool((differ <= ALIKE).any())
