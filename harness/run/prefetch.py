"""Prepare the next batches (decoded frames, a model's inputs) while the model answers another.

`pipeline` gives each batch to a `Prefetcher` first, and takes it when it is submitted.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from harness.model import Model, StagedModel
from harness.run.batching import Batch
from harness.run.pixels import decode, parts
from harness.run.stage_threads import StageThreads
from harness.video.decoder import MAX_OPEN

OTHER_READERS = 4
"""Number of threads, besides the decoders, that read videos: segmentation, propagation, and the
preparation of a model's next inputs (`expect`) and of its tensors."""


def decoders() -> int:
    """Return the number of decoding threads: a quarter of the cores, from 2 on.

    A network on the CPU needs the other cores. Each thread keeps a video open, so that with the
    other readers (`OTHER_READERS`) there are at most `MAX_OPEN`.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # a job may have a part of the machine
    cores = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    return max(2, min(MAX_OPEN - OTHER_READERS, cores // 4))


@dataclass(frozen=True, slots=True)
class DecodingBatch:
    """A batch that is being decoded and will be submitted."""

    batch: Batch
    parts: "Sequence[Future[None]]" = ()
    """Settled when a part of the batch's frames is decoded."""


@dataclass(slots=True)
class Prefetcher:
    """Decodes batches before they are submitted, in the order of the plan."""

    model: Model
    threads: StageThreads
    is_ending: Callable[[], bool]
    """Returns True once the run ends: nothing more is decoded or prepared then."""
    requested: Batch | None = None
    """The batch that the network is answering; None if there is none."""
    _decoding: list[DecodingBatch] = field(default_factory=list)

    def decode(self, batch: Batch) -> None:
        """Begin to decode in the background the frames that the model looks at first."""
        threads = decoders()
        futures = [
            self.threads.submit("decode", decode, part, self.is_ending, threads=threads)
            for part in parts(self.model, batch)
        ]
        self._decoding.append(DecodingBatch(batch, futures))

    def take(self, batch: Batch) -> DecodingBatch:
        """Remove and return a batch that is submitted now, whether it was decoded before or not."""
        for index, decoding in enumerate(self._decoding):
            if decoding.batch is batch:
                return self._decoding.pop(index)
        return DecodingBatch(batch)

    def expect_next(self, decoding: DecodingBatch, *, inline: bool) -> None:
        """Have the model prepare its inputs for the batch that it is likely to be asked for next.

        Args:
            decoding: The batch that is submitted now.
            inline: True: the network is asked for `decoding` at once, so that the next batch is
                prepared; False: `decoding` waits for the batch in progress, and is prepared.
        """
        if inline:
            likely = self._decoding[0] if self._decoding else None
        else:
            likely = decoding if self.requested is not None else None
        if likely is not None:
            self.prepare_decoded(likely)

    def prepare_decoded(self, decoding: DecodingBatch) -> None:
        """Call `_prepare_next` once a batch is decoded; earlier, frames would be decoded twice."""
        for part in decoding.parts:
            if not part.done():  # a callback, because a waiting thread could not be cancelled
                part.add_done_callback(lambda _: self.prepare_decoded(decoding))
                return
        if not self.is_ending():
            with suppress(RuntimeError):  # it is ending now
                self.threads.submit("expect", self._prepare_next, decoding.batch)

    def _prepare_next(self, batch: Batch) -> None:
        """Let the model prepare its inputs for the next batch."""
        if self.is_ending() or self.requested is batch or not isinstance(self.model, StagedModel):
            return
        with suppress(Exception):  # raised again when the model is asked
            self.model.prepare_next(batch.queries)
