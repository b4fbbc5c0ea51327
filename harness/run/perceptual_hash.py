"""Perceptual hashes, which find an image again under another name, size or compression.

An image becomes 255 bits: which of its lowest spatial frequencies are above their median (the
discrete cosine transform of a grey copy of 32 × 32 pixels; Zauner 2010 compares such hashes).
Resizing, squashing to a square and compression change few of the bits; another image, about
half of them. A video is looked at in several places, and looks like another one if a frame of one
looks like a frame of the other.
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

SIDE = 32
FREQUENCIES = 16
PLAIN = 4.0
"""Grey levels of standard deviation below which an image is too plain to be told from others."""
ALIKE = 24
"""Differing bits up to which two images are the same one. Of photographs that were squashed to
840 × 840, halved, or saved at quality 30, at most 6 of the 255 bits differed; of other photographs
110 or more, of frames of different films 94 or more. The time for which frames of a video stay the
same image depends on its motion: in six short films of 25 or 30 frames a second, half of all frames
had become another image after 0.04 s in the fastest and 1.2 s in the calmest."""
KEPT, ASKED = 8, 32
"""Numbers of equal parts of a video between which its frames are hashed: for training samples, of
which the hashes are kept, and for samples that are compared with them. Places of the first are
places of the second, and of a half or a quarter of the video. A cut to other ends is found if two
frames happen to be close, which 31 make about four times as likely as 7 would. For a film of a
minute, 7 frames took 1.8 times as long to decode as one, and 31 a tenth longer than 7: key frames
lie further apart than they do."""
BYTES = FREQUENCIES * FREQUENCIES // 8
TOGETHER = 1024  # samples whose hashes are asked for at once

WAVES = np.cos(
    np.pi * (2 * np.arange(SIDE) + 1)[None] * np.arange(FREQUENCIES)[:, None] / (2 * SIDE)
)


def image_hash(image: Frame) -> str:
    """Return the bits of an image as 64 hexadecimal digits; empty for one that is too plain."""
    small = Image.fromarray(image).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    grey = np.asarray(small, dtype=np.float64)
    if grey.std() < PLAIN:
        return ""
    waves = (WAVES @ grey @ WAVES.T).ravel()
    bits = waves > np.median(waves[1:])
    bits[0] = False  # the mean brightness, which is not a shape
    return np.packbits(bits).tobytes().hex()


def frames_between(frames: int, parts: int) -> tuple[int, ...]:
    """Return the indices of the frames at the bounds between `parts` equal parts of a video.

    The beginning and the end are left out: titles and fades to black are alike in videos that have
    nothing else in common.

    >>> frames_between(100, 8), frames_between(4, 8), frames_between(1, 8)
    ((12, 25, 37, 50, 62, 75, 87), (0, 1, 2, 3), (0,))
    """
    return tuple(sorted({part * frames // parts for part in range(1, parts)}))


def media_hash(media: Media, parts: int = KEPT) -> tuple[str, ...]:
    """Return the distinct hashes of an image, or of frames of a video, in order.

    Frames that are too plain or cannot be decoded have none; a video's middle frame is included.
    """
    hashes: dict[str, None] = {}
    for number in frames_between(len(media), parts):
        try:
            hashes[image_hash(media.frame(number))] = None
        except HarnessError:  # it is told elsewhere, and looks like nothing
            continue
    return tuple(filter(None, hashes))


def media_hashes(
    several: Iterable[tuple[str, tuple[Media, ...]]], parts: int = KEPT
) -> Iterator[tuple[str, ...]]:
    """Yield the hashes of each sample's media, in order; media are decoded in parallel.

    Args:
        several: Each sample's group and media. A video that comes again in its group is not decoded
            again: a benchmark may ask many questions about one.
        parts: As of `media_hash`.
    """
    stream = iter(several)
    begun: dict[Hashable, Future[tuple[str, ...]]] = {}
    # With more threads than video files stay open, each would open its file again and again.
    pool = ThreadPoolExecutor(min(MAX_OPEN, cpu_count() or 1))

    def hashes_of(group: str, place: int, media: Media) -> Future[tuple[str, ...]]:
        if not media.is_video:
            return pool.submit(media_hash, media, parts)
        name = (group, place, *_shape(media))
        if name not in begun:
            begun[name] = pool.submit(media_hash, media, parts)
        return begun[name]

    try:
        while part := list(islice(stream, TOGETHER)):
            unhashed = [
                [hashes_of(group, place, medium) for place, medium in enumerate(media)]
                for group, media in part
            ]
            for sample in unhashed:
                yield tuple(digest for hashes in sample for digest in hashes.result())
    finally:
        pool.shutdown(cancel_futures=True)


def _shape(video: Media) -> tuple[Hashable, ...]:
    """Size, frames, first and last time and bytes, which tell apart videos of the same name."""
    times = video.times()
    try:
        weight = video.weight or video.id
    except OSError:  # frames are missing, which is found when they are decoded
        weight = -1
    return video.size, len(video), times[0], times[-1], weight


class PerceptualIndex:
    """A set of image hashes, 32 bytes each; it contains any hash within `ALIKE` bits of one."""

    def __init__(self, hashes: Iterable[str]) -> None:
        packed = bytearray()
        for digest in hashes:
            packed += bytes.fromhex(digest) if len(digest) == 2 * BYTES else b""
        words = np.frombuffer(packed, dtype=np.uint64).reshape(-1, BYTES // 8)
        self._known = np.ascontiguousarray(np.unique(words, axis=0).T)

    def __len__(self) -> int:
        return int(self._known.shape[1])

    def __contains__(self, wanted: str) -> bool:
        if not len(self) or len(wanted) != 2 * BYTES:
            return False
        bits = np.frombuffer(bytes.fromhex(wanted), dtype=np.uint64)
        # The first word alone leaves one in thirty of other images.
        near = np.flatnonzero(np.bitwise_count(self._known[0] ^ bits[0]) <= ALIKE)
        differ = np.bitwise_count(self._known.take(near, axis=1) ^ bits[:, None]).sum(axis=0)
        return bool((differ <= ALIKE).any())
