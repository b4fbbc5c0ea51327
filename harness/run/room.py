"""Room in memory for samples on their way through the stages that make masks.

Masks are a byte a pixel of one frame and run-lengths of the others, and there is a track of them an
object: of an hour of video with many objects that is still much. So samples are let in by the bytes
of their masks as well as by their number.
"""

import threading
from dataclasses import dataclass, field
from typing import Any

from harness.model import Staged
from harness.run.prefetch import masked_pixels
from harness.types import Prediction, Query

BEGUN = 4
"""Samples, of all batches together, that may be segmented and not finished: each of them holds its
images and masks."""
ANSWERED = 16
"""Samples that may be answered and not finished, of a model that answers by the sample: while so
many wait for their masks, no more are asked for."""
MASK_BYTES = 2 << 30
"""Of the images and masks of those samples together, unless one alone needs more."""


@dataclass(slots=True)
class Room:
    """Held by each sample from its segmentation to its end; safe to use from several threads.

    One sample finds room always, however large it is: none is left out, and none waits for ever.
    Samples come in in the order in which they are brought by one thread.
    """

    samples: int = BEGUN
    bytes_: int = MASK_BYTES
    _held: int = 0
    _taken: int = 0
    _closed: bool = False
    _changed: Any = field(default_factory=threading.Condition)

    def enter(self, need: int) -> None:
        """Wait until there is room for a sample of `need` bytes, or all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(need))
            self._held += 1
            self._taken += need

    def leave(self, need: int) -> None:
        """A sample that was let in is done with."""
        with self._changed:
            self._held -= 1
            self._taken -= need
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, need: int) -> bool:
        within = self._held < self.samples and self._taken + need <= self.bytes_
        return within or self._held == 0


def needed(model: Staged[Any], query: Query, response: Any) -> int:
    """Bytes of the image and the masks that are made of a response, as far as that is known.

    An `objects` that raises is as none: what is wrong shows when the sample is begun.
    """
    if isinstance(response, Prediction):  # it says why there is no response
        return 0
    try:
        counted = model.objects(query, response)
        objects = None if counted is None else max(0, int(counted))
    except (Exception, SystemExit):  # noqa: BLE001 - the boundary to models
        objects = None
    return masked_pixels(query, objects)
