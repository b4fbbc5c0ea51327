"""Images and masks of the batches under way: decoded ahead, and held, up to numbers of bytes.

A model names the frames that it looks at first (`looks_at`): of a long video those are few; by
default they are all. They are decoded into the cache that all readers share.

Each object has a track of masks: a byte a pixel for one frame, and run-lengths for the others. For
an hour of video with many objects these still take much memory, so samples are admitted to the
stages that make masks by the bytes of their masks as well as by their number.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.errors import HarnessError
from harness.frame_cache import CACHE
from harness.media import Media
from harness.model import Answered, Model, StagedModel
from harness.run.batching import Batch
from harness.types import AnswerForm, Prediction, Query

PREFETCH_BYTES = CACHE.max_bytes // 4
"""Bytes of one batch's pixels that are decoded ahead; the others are decoded as they are used."""

BEGUN = 4
"""Number of samples, of all batches together, that may be segmented and not finished: each of them
holds its images and masks."""
ANSWERED = 16
"""Number of samples that may be answered and not finished, for a model that answers by the sample:
while so many wait for their masks, no more are asked for."""
MASK_BYTES = 2 << 30
"""Bytes of the images and masks of the begun samples together, unless one alone needs more."""

EVERY_FRAME = frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK})
"""Forms whose answers cover every frame of the first medium."""

RUNS_A_FRAME, RUNS_A_COLUMN = 512, 16
"""Bytes that are counted for one mask as run-lengths, by frame and by column of pixels.

What holds the text takes some 300. A column takes 0.5 to 3 bytes of one object, ragged edges
included; 16 pay for a mask in tatters, with about five pieces in every column. Blots without any
shape, of 8 pixels a side, would take 85, and a checkerboard of single pixels, the worst there is, a
byte a pixel, as if it were not encoded.
"""


class MediaFrames(NamedTuple):
    """Frames of one medium to decode, in this order."""

    media: Media
    frames: Sequence[int]
    divisible: bool
    """True: some of the frames are of use without the others."""


def first_frames(model: Model, query: Query) -> list[tuple[Media, Sequence[int]]]:
    """Return the media of a query, each with the frames that the model looks at first.

    None of a model that reads no pixels. If `looks_at` raises, none are returned, and frames that
    do not exist are left out: the error shows when the model is asked.
    """
    try:
        if not model.reads_pixels(query):
            return []
        return [
            (media, [int(frame) for frame in frames if 0 <= frame < len(media)])
            for media, frames in zip(query.media, model.looks_at(query), strict=True)
        ]
    except Exception:  # noqa: BLE001 - the boundary to models
        return []


def parts(model: Model, batch: Batch) -> Iterator[MediaFrames]:
    """Yield the parts to decode ahead: frames that the model looks at first, then those of tracks.

    They have no more than `PREFETCH_BYTES` of pixels. A medium that is needed whole is decoded
    whole or not at all: a model that goes through a long video would meet its end, decoded in vain.
    """
    return _fitting(_needed_frames(model, batch.queries), PREFETCH_BYTES)


def decode(part: MediaFrames, over: Callable[[], bool]) -> None:
    """Decode frames into the cache, until `over` says that nobody will look at them."""
    try:
        for frame in part.frames:
            if over():
                return
            part.media.frame(frame)
    except HarnessError:
        return  # the model will meet it and say whose sample it is


def shown_pixels(model: Model, queries: Sequence[Query]) -> int:
    """Bytes of the decoded frames of queries that a model looks at first."""
    return sum(
        _image(media) * len(frames)
        for query in queries
        for media, frames in first_frames(model, query)
    )


def masked_pixels(query: Query, objects: int | None = None) -> int:
    """Bytes of the image that is segmented, and of masks; 0 if none are asked for, or made.

    Of one frame, masks of a byte a pixel: those of each of `objects` that are segmented, those that
    they are carried to, one of them all, and one that is encoded. Of every frame, run-lengths
    (`RUNS_A_FRAME`): of each object, and of them all. None: it is not known how many there are, and
    one is counted. What a propagator holds beyond that, such as lists of arrays, is not counted.
    """
    if not EVERY_FRAME.intersection(query.forms) or objects == 0:
        return 0
    media, several = query.media[0], 1 if objects is None else objects
    width, height = media.size
    runs = (RUNS_A_FRAME + RUNS_A_COLUMN * width) * len(media) * (several + 1)
    return _image(media) + width * height * 2 * (several + 1) + runs


def _image(media: Media) -> int:
    return media.size[0] * media.size[1] * 3


def _needed_frames(model: Model, queries: Sequence[Query]) -> Iterator[MediaFrames]:
    rest: list[MediaFrames] = []
    for query in queries:
        for place, (media, frames) in enumerate(first_frames(model, query)):
            yield MediaFrames(media, frames, len(frames) < len(media))
            if place == 0 and EVERY_FRAME.intersection(query.forms):
                seen = set(frames)
                others = [frame for frame in range(len(media)) if frame not in seen]
                rest.append(MediaFrames(media, others, divisible=False))
    yield from rest


def _fitting(wanted: Iterable[MediaFrames], limit: int) -> Iterator[MediaFrames]:
    """Yield the parts that fit into `limit` bytes of pixels, the first parts first."""
    for part in wanted:
        room = limit // _image(part.media)
        frames = part.frames[:room] if part.divisible or len(part.frames) <= room else ()
        if frames:
            limit -= _image(part.media) * len(frames)
            yield part._replace(frames=frames)


@dataclass(slots=True)
class MemoryBudget:
    """A bound on samples between segmentation and their end; safe to use from several threads.

    One sample always finds room, however large it is: none is left out, and none waits for ever.
    Samples of one thread enter in the order in which it brings them.
    """

    samples: int = BEGUN
    bytes_: int = MASK_BYTES
    _held: int = 0
    _taken: int = 0
    _closed: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def enter(self, need: int) -> None:
        """Wait until there is room for a sample of `need` bytes, or `close` is called."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_space(need))
            self._held += 1
            self._taken += need

    def leave(self, need: int) -> None:
        """Free the room of a finished sample of `need` bytes."""
        with self._changed:
            self._held -= 1
            self._taken -= need
            self._changed.notify_all()

    def close(self) -> None:
        """End all waits in `enter`, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _has_space(self, need: int) -> bool:
        within = self._held < self.samples and self._taken + need <= self.bytes_
        return within or self._held == 0


def bytes_needed(model: StagedModel[Answered], query: Query, response: Answered) -> int:
    """Bytes of the image and the masks that are made from a response, as far as they are known.

    If the model's `objects` raises, their number counts as unknown: the error shows when the sample
    is begun.
    """
    if isinstance(response, Prediction):  # it says why there is no response
        return 0
    try:
        counted = model.objects(query, response)
        objects = None if counted is None else max(0, int(counted))
    except (Exception, SystemExit):  # noqa: BLE001 - the boundary to models
        objects = None
    return masked_pixels(query, objects)
