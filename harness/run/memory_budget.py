"""Room in memory for samples on their way through the stages that make masks.

Each object has a track of masks: a byte a pixel for one frame, and run-lengths for the others. For
an hour of video with many objects these still take much memory, so samples are admitted by the
bytes of their masks as well as by their number.
"""

import threading
from dataclasses import dataclass, field

from harness.model import Answered, StagedModel
from harness.run.prefetch import masked_pixels
from harness.types import Prediction, Query

BEGUN = 4
"""Number of samples, of all batches together, that may be segmented and not finished: each of them
holds its images and masks."""
ANSWERED = 16
"""Number of samples that may be answered and not finished, for a model that answers by the sample:
while so many wait for their masks, no more are asked for."""
MASK_BYTES = 2 << 30
"""Bytes of the images and masks of the begun samples together, unless one alone needs more."""


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
