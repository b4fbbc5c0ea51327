"""Memory of a process: measured peaks, what its stages hold, and how much that may be.

The memory of one stage cannot be measured: stages share networks, caches and frames, and work at
the same time. A stage's own part is therefore counted (samples, and bytes of their pixels, masks
of most frames as run-lengths), and measured peaks are those of the process. Only a model without
stages has its GPU to itself while it works; the GPU's peak is then that of this work.

Each object has a track of masks: a byte a pixel for one frame, and run-lengths for the others. For
an hour of video with many objects these still take much memory, so samples are admitted to the
stages that make masks by the bytes of their masks as well as by their number.
"""

import os
import platform
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

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


class PeakMemory(NamedTuple):
    """The most bytes that one process held at once, since it began; 0: unknown, or none."""

    memory: int = 0
    """Resident bytes of the whole process: networks, caches and images too."""
    gpu: int = 0
    """Bytes of tensors, as torch counts them, on the fullest of the GPUs that it uses."""

    def merge(self, other: "PeakMemory") -> "PeakMemory":
        """Return the higher one of each peak."""
        return PeakMemory(max(self.memory, other.memory), max(self.gpu, other.gpu))


@dataclass(slots=True)
class StageMemory:
    """Counts of samples and bytes in this process's stages; safe to use from several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _now: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By stage: number of samples that are in it or wait for it, and bytes of their pixels."""
    _most: dict[str, tuple[int, int]] = field(default_factory=dict)
    _gpu: int = 0
    """Bytes of the GPU's peak before the last `begin_alone`, which resets torch's own peak."""

    def enter(self, stage: str, pixels: int, *, samples: int = 1) -> None:
        """Add samples to a stage, with `pixels` bytes of images and masks of theirs."""
        with self._lock:
            held, bytes_ = self._now.get(stage, (0, 0))
            self._now[stage] = now = (held + samples, bytes_ + pixels)
            limit = self._most.get(stage, (0, 0))
            self._most[stage] = (max(limit[0], now[0]), max(limit[1], now[1]))

    def leave(self, stage: str, pixels: int, *, samples: int = 1) -> None:
        """Remove samples from a stage, with `pixels` bytes of images and masks of theirs."""
        with self._lock:
            held, bytes_ = self._now[stage]
            self._now[stage] = (held - samples, bytes_ - pixels)

    def maximum(self, stage: str) -> tuple[int, int]:
        """Return the most samples that were in a stage at once, and the most bytes."""
        return self._most.get(stage, (0, 0))

    def begin_alone(self) -> None:
        """Begin work that has the GPU to itself: until the next call, `gpu_peak` is its peak."""
        self._gpu = max(self._gpu, gpu_peak())
        begin_gpu_peak()

    def of_process(self) -> dict[str, PeakMemory]:
        """Return the peaks of this process, by `pid@host`."""
        peak = PeakMemory(memory_peak(), max(self._gpu, gpu_peak()))
        return {f"{os.getpid()}@{platform.node()}": peak}


def memory_peak() -> int:
    """The most bytes of memory that this process has held since its program began; 0: unknown."""
    try:
        # Not `ru_maxrss`, which a program takes over from the one that began it.
        text = Path("/proc/self/status").read_bytes().partition(b"VmHWM:")[2]
        return int(text.split(maxsplit=1)[0]) * 1024
    except (OSError, IndexError, ValueError):  # another system, or a model without the right
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    limit = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return limit if sys.platform == "darwin" else limit * 1024


def gpu_peak() -> int:
    """The most bytes of tensors on one of this process's GPUs since `begin_gpu_peak`, or ever."""
    cuda = _cuda()
    if cuda is None:
        return 0
    return max(int(cuda.max_memory_allocated(one)) for one in range(cuda.device_count()))


def begin_gpu_peak() -> None:
    """Reset the peak that `gpu_peak` returns."""
    cuda = _cuda()
    if cuda is not None:
        for one in range(cuda.device_count()):
            cuda.reset_peak_memory_stats(one)


def _cuda() -> ModuleType | None:
    """`torch.cuda`, if something here has loaded torch and used a GPU."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    cuda: ModuleType = torch.cuda
    return cuda if cuda.is_available() and cuda.is_initialized() else None


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
