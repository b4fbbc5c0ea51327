"""Bound the memory of images and masks of the batches in progress.

A model names the frames that it looks at first (`looks_at`): few of a long video, by default all.
They are decoded ahead into the cache that all readers share, up to `PREFETCH_BYTES`.

Each object has a track of masks: one byte per pixel for one frame, run-lengths for the others.
Because these are large for long videos with many objects, samples enter the stages that make masks
by the bytes of their masks as well as by their number (`MemoryBudget`).
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
"""Largest number of bytes of one batch's pixels that are decoded ahead; others are decoded when
they are used."""

MAX_BEGUN = 4
"""Largest number of samples that are segmented and not finished, each with images and masks."""
MAX_ANSWERED = 16
"""Largest number of samples that are answered and not finished, for a model that answers by the
sample; then no more are asked for."""
MAX_MASK_BYTES = 2 << 30
"""Largest number of bytes of images and masks of the samples that are segmented and not finished,
unless one alone needs more."""

EVERY_FRAME = frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK})
"""Forms whose answers cover every frame of the first medium."""

RUNS_A_FRAME, RUNS_A_COLUMN = 512, 16
"""Assumed bytes of one mask as run-lengths: for the mask, and further for each column of pixels.

The object that holds the text takes about 300 bytes. A column of one object takes 0.5 to 3 bytes,
ragged edges included; 16 suffice for about five pieces in every column. Random blots of 8 pixels a
side would take 85, and the worst case, a checkerboard of single pixels, one byte per pixel.
"""


class MediaFrames(NamedTuple):
    """Frames of one medium to decode, in this order."""

    media: Media
    frames: Sequence[int]
    divisible: bool
    """True: a part of the frames is useful without the others."""


def first_frames(model: Model, query: Query) -> list[tuple[Media, Sequence[int]]]:
    """Return the media of a query, each with the frames that the model looks at first.

    Empty for a model that reads no pixels, or if `looks_at` raises; frames that do not exist are
    left out. Such an error is raised again when the model is asked.
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
    """Yield the frames to decode ahead: what the model looks at first, then frames of tracks.

    They have at most `PREFETCH_BYTES` of pixels. A medium whose frames are all needed is decoded as
    a whole or not at all, because the cache would drop its first frames before they are read.
    """
    return _fitting(_needed_frames(model, batch.queries), PREFETCH_BYTES)


def decode(part: MediaFrames, over: Callable[[], bool]) -> None:
    """Decode frames into the cache, until `over` returns True because the run ends."""
    try:
        for frame in part.frames:
            if over():
                return
            part.media.frame(frame)
    except HarnessError:
        return  # raised again when the model reads the frame


def shown_pixels(model: Model, queries: Sequence[Query]) -> int:
    """Return bytes of the decoded frames of queries that a model looks at first."""
    return sum(
        _frame_bytes(media) * len(frames)
        for query in queries
        for media, frames in first_frames(model, query)
    )


def masked_pixels(query: Query, objects: int | None = None) -> int:
    """Return bytes of the segmented image and of the masks; 0 if no masks are asked for or made.

    For one frame, arrays of one byte per pixel: two for each object (segmented and propagated), and
    two for all objects together (the union and its copy for encoding). For every frame, run-lengths
    (`RUNS_A_FRAME`) of each object and of their union. Further memory of a propagator, such as
    lists of arrays, is not counted.

    Args:
        query: The query.
        objects: Number of objects; None: not known, one is assumed.
    """
    if not EVERY_FRAME.intersection(query.forms) or objects == 0:
        return 0
    media, n_objects = query.media[0], 1 if objects is None else objects
    width, height = media.size
    runs = (RUNS_A_FRAME + RUNS_A_COLUMN * width) * len(media) * (n_objects + 1)
    return _frame_bytes(media) + width * height * 2 * (n_objects + 1) + runs


def _frame_bytes(media: Media) -> int:
    """Return bytes of one decoded frame."""
    return media.size[0] * media.size[1] * 3


def _needed_frames(model: Model, queries: Sequence[Query]) -> Iterator[MediaFrames]:
    """Yield the first frames of all queries, then the other frames of media with masks."""
    later: list[MediaFrames] = []
    for query in queries:
        for medium_index, (media, frames) in enumerate(first_frames(model, query)):
            yield MediaFrames(media, frames, len(frames) < len(media))
            if medium_index == 0 and EVERY_FRAME.intersection(query.forms):
                first = set(frames)
                others = [frame for frame in range(len(media)) if frame not in first]
                later.append(MediaFrames(media, others, divisible=False))
    yield from later


def _fitting(needed: Iterable[MediaFrames], limit: int) -> Iterator[MediaFrames]:
    """Yield the parts that fit into `limit` bytes of pixels, the first parts first."""
    for part in needed:
        room = limit // _frame_bytes(part.media)
        frames = part.frames[:room] if part.divisible or len(part.frames) <= room else ()
        if frames:
            limit -= _frame_bytes(part.media) * len(frames)
            yield part._replace(frames=frames)


@dataclass(slots=True)
class MemoryBudget:
    """A bound on the samples between segmentation and their end; safe to use from several threads.

    One sample always finds room, however large it is, so that none waits for ever. Samples of one
    thread enter in its order.
    """

    samples: int = MAX_BEGUN
    bytes_: int = MAX_MASK_BYTES
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
    """Return bytes of the image and the masks that are made from a response.

    If the model's `objects` raises, the number of objects counts as unknown; the error is raised
    again when the sample is begun.
    """
    if isinstance(response, Prediction):  # a failure, without a response
        return 0
    try:
        counted = model.objects(query, response)
        objects = None if counted is None else max(0, int(counted))
    except (Exception, SystemExit):  # noqa: BLE001 - the boundary to models
        objects = None
    return masked_pixels(query, objects)
