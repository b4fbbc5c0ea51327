"""Measure the cost of a run and of its model's stages: seconds, samples at once, peaks of memory.

It is written to `timing.json`, apart from the results, because seconds differ in every run.

The memory of one stage cannot be measured, because stages share networks, caches and frames and
work at the same time. So a stage's samples and the bytes of their pixels and masks are counted, and
peaks are measured for the process. Only a model without stages has its GPU to itself while it
works; then the GPU's peak is caused by this stage.

Each share of a run has its own file until the run is finished, so that folders can be copied
together. Then `timing.json` has the attempts of all shares, each with its commit.
"""

import os
import platform
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, time
from types import MappingProxyType, ModuleType
from typing import NamedTuple, Required, TypedDict

from harness.errors import StoreError, counted
from harness.plain import from_plain
from harness.record import TIMING
from harness.store.atomic import forget, read_json, write_json

SHARE_FILE = "timing.{}-{}.json"
"""Name of the file of share i of n."""
LANGUAGE, SEGMENTATION, PROPAGATION = "language", "segmentation", "propagation"
WHOLE = "model"
"""The only stage of a model without stages."""


class PeakMemory(NamedTuple):
    """Peak memory of one process in bytes, since it started; 0: unknown, or none."""

    memory: int = 0
    """Resident bytes of the whole process: networks, caches and images too."""
    gpu: int = 0
    """Bytes of tensors, as torch counts them, on the fullest of the GPUs that it uses."""

    def merge(self, peak: "PeakMemory") -> "PeakMemory":
        """Return the higher one of each peak."""
        return PeakMemory(max(self.memory, peak.memory), max(self.gpu, peak.gpu))


@dataclass(slots=True)
class Stage:
    """Cost of one stage of a model, over one batch or many."""

    seconds: float = 0.0
    wait_seconds: float | None = None
    """Seconds of these in which the network waited for images; None: not known for any batch."""
    samples: int = 0
    """Largest number of samples in the stage or waiting for it at once, in one process."""
    pixels: int = 0
    """Largest number of bytes of their decoded images and masks, computed from sizes, not measured;
    they are partly shared with the cache of frames."""
    gpu_peak: int = 0
    """Peak bytes on a GPU while it worked; 0 if other stages work at the same time."""
    crashed: int = 0
    """Failures that were exceptions of the model."""
    halvings: int = 0
    """Number of times that a batch was cut in two to fit into memory."""
    processes: dict[int, float] = field(default_factory=dict)
    """Seconds of each process of a launch, by its rank; empty without a launch."""
    peaks: dict[str, PeakMemory] = field(default_factory=dict)
    """Peaks of the processes in which it ran, by a unique name."""
    parts: dict[str, float] = field(default_factory=dict)
    """Seconds of its parts by name, such as the updates of a network that adapts."""

    def record_peak(self, peak: tuple[int, int], peaks: Mapping[str, PeakMemory]) -> None:
        """Set the most samples at once, with the bytes of their pixels, and the process's peak."""
        self.samples, self.pixels = peak
        self.peaks = dict(peaks)

    def end(self, start: float) -> "Stage":
        """Add the seconds of work that began at `start`, by `perf_counter`; return the stage."""
        self.seconds += perf_counter() - start
        return self

    def add(self, stage: "Stage") -> None:
        """Add the cost of another batch."""
        self.seconds += stage.seconds
        if stage.wait_seconds is not None:
            self.wait_seconds = (self.wait_seconds or 0.0) + stage.wait_seconds
        self.samples = max(self.samples, stage.samples)
        self.pixels = max(self.pixels, stage.pixels)
        self.gpu_peak = max(self.gpu_peak, stage.gpu_peak)
        self.crashed += stage.crashed
        self.halvings += stage.halvings
        for rank, seconds in stage.processes.items():
            self.processes[rank] = self.processes.get(rank, 0.0) + seconds
        for part, seconds in stage.parts.items():
            self.parts[part] = self.parts.get(part, 0.0) + seconds
        for process, peak in stage.peaks.items():
            self.peaks[process] = peak.merge(self.peaks.get(process, PeakMemory()))


def to_json(stages: Mapping[str, Stage]) -> dict[str, dict[str, object]]:
    """Return plain data of stages, for `timing.json`."""
    plain: dict[str, dict[str, object]] = {}
    for name, stage in stages.items():
        plain[name] = {
            "seconds": round(stage.seconds, 3),
            "samples_at_once": stage.samples,
            "pixel_bytes_at_once": stage.pixels,
        }
        if stage.wait_seconds is not None:
            plain[name]["wait_seconds"] = round(stage.wait_seconds, 3)
        if stage.gpu_peak:
            plain[name]["gpu_peak_bytes"] = stage.gpu_peak
        if stage.processes:
            by_rank = sorted(stage.processes.items())
            plain[name]["seconds_by_process"] = {str(rank): round(s, 3) for rank, s in by_rank}
        if stage.parts:
            plain[name]["seconds_by_part"] = {
                part: round(seconds, 3) for part, seconds in sorted(stage.parts.items())
            }
    return plain


def of_process(rank: int, stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Return the stages with their seconds and peaks attributed to one process of a launch."""
    return {
        name: replace(
            stage,
            processes={rank: stage.seconds},
            # Processes of two machines may have the same number.
            peaks={f"{rank}.{process}": peak for process, peak in stage.peaks.items()},
        )
        for name, stage in stages.items()
    }


def sum_stages(batches: Iterable[Mapping[str, Stage]]) -> dict[str, Stage]:
    """Return the total cost of each stage over many batches."""
    totals: dict[str, Stage] = {}
    for stages in batches:
        for name, stage in stages.items():
            totals.setdefault(name, Stage()).add(stage)
    return totals


def process_peaks(stages: Mapping[str, Stage]) -> dict[str, list[int]]:
    """Return the peaks in bytes of all processes in which stages ran, highest first.

    A kind of memory whose peaks are unknown is left out.
    """
    total = Stage()
    for stage in stages.values():
        total.add(stage)
    peaks_by_kind = {
        "process_peak_bytes": [peak.memory for peak in total.peaks.values()],
        "process_gpu_peak_bytes": [peak.gpu for peak in total.peaks.values()],
    }
    return {
        name: sorted(peaks, reverse=True) for name, peaks in peaks_by_kind.items() if any(peaks)
    }


@dataclass(slots=True)
class StageMemory:
    """Counts of samples and bytes in this process's stages; safe to use from several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _now: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Number of samples that are in a stage or wait for it, and bytes of their pixels, by stage."""
    _most: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Largest values of `_now`, by stage."""
    _gpu: int = 0
    """Bytes of the GPU's peak before the last `begin_alone`, which resets torch's own peak."""

    def enter(self, stage: str, pixels: int, *, samples: int = 1) -> None:
        """Add samples to a stage, whose images and masks have `pixels` bytes."""
        with self._lock:
            n_samples, bytes_ = self._now.get(stage, (0, 0))
            now = n_samples + samples, bytes_ + pixels
            most = self._most.get(stage, (0, 0))
            self._now[stage] = now
            self._most[stage] = max(most[0], now[0]), max(most[1], now[1])

    def leave(self, stage: str, pixels: int, *, samples: int = 1) -> None:
        """Remove samples from a stage, whose images and masks have `pixels` bytes."""
        with self._lock:
            n_samples, bytes_ = self._now[stage]
            self._now[stage] = (n_samples - samples, bytes_ - pixels)

    def maximum(self, stage: str) -> tuple[int, int]:
        """Return the most samples that were in a stage at once, and the most bytes."""
        return self._most.get(stage, (0, 0))

    def begin_alone(self) -> None:
        """Begin work that has the GPU to itself: until the next call, `gpu_peak` is its peak."""
        self._gpu = max(self._gpu, gpu_peak())
        if (cuda := _cuda()) is not None:
            for device in range(cuda.device_count()):
                cuda.reset_peak_memory_stats(device)

    def of_process(self) -> dict[str, PeakMemory]:
        """Return the peaks of this process, by `pid@host`."""
        peak = PeakMemory(memory_peak(), max(self._gpu, gpu_peak()))
        return {f"{os.getpid()}@{platform.node()}": peak}


def memory_peak() -> int:
    """Return the peak memory of this process in bytes since its program started; 0: unknown."""
    try:
        # Not `ru_maxrss`, which includes the memory of the program that started this one.
        text = Path("/proc/self/status").read_bytes().partition(b"VmHWM:")[2]
        return int(text.split(maxsplit=1)[0]) * 1024
    except (OSError, IndexError, ValueError):  # another system, or model code gave up the right
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    limit = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return limit if sys.platform == "darwin" else limit * 1024


def gpu_peak() -> int:
    """Return the peak bytes of tensors on one of this process's GPUs, since `begin_alone`."""
    cuda = _cuda()
    if cuda is None:
        return 0
    return max(int(cuda.max_memory_allocated(device)) for device in range(cuda.device_count()))


def _cuda() -> ModuleType | None:
    """Return `torch.cuda` if this process has imported torch and used a GPU; None otherwise."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    cuda: ModuleType = torch.cuda
    return cuda if cuda.is_available() and cuda.is_initialized() else None


class Attempt(TypedDict, total=False):
    """The cost of one attempt at a run, or at a share of it."""

    ended: float
    commit: str | None
    dirty: bool | None
    shard: tuple[int, int]
    wall_seconds: Required[float]
    samples: Required[int]
    workers: Required[int]
    stages: Mapping[str, object]
    memory: Mapping[str, object]


ATTEMPT_KEYS = tuple(Attempt.__annotations__)
"""Keys of an attempt that are read from a file."""


def add_attempt(
    folder: Path,
    *,
    seconds: float,
    samples: int,
    workers: int,
    stages: Mapping[str, Stage],
    code: Mapping[str, object] = MappingProxyType({}),
    shard: tuple[int, int] | None = None,
    finished: bool = True,
) -> str | None:
    """Add the cost of one attempt at a run, and the time of its end, to its `timing.json`.

    Args:
        folder: The run folder.
        seconds: Seconds from the first batch to the last score.
        samples: Number of samples predicted in this attempt.
        workers: Number of workers that predicted them.
        stages: Total cost of each stage of the model over all workers; of a launch, also the
            seconds of each process. Peaks of memory are recorded for each process.
        code: `commit` and `dirty` of the code that predicted them.
        shard: The share of the run that was predicted; None: all that was missing.
        finished: True if the run has all samples. A share of an unfinished run has its own file.

    Returns:
        A note on the shares of a finished run, with their samples, seconds and commits; None if it
        has no shares.
    """
    path = folder / (SHARE_FILE.format(*shard) if shard and not finished else TIMING)
    shares = sorted(folder.glob(SHARE_FILE.format("*", "*"))) if finished else []
    attempts = _attempts(path)
    for share in shares:  # one that is copied again counts once
        attempts += [attempt for attempt in _attempts(share) if attempt not in attempts]
    attempts.append(
        from_plain(
            Attempt,
            {
                "ended": round(time(), 3),
                **{name: code[name] for name in ("commit", "dirty") if name in code},
                **({"shard": list(shard)} if shard else {}),
                "wall_seconds": seconds,
                "samples": samples,
                "workers": workers,
                "stages": to_json(stages),
                "memory": process_peaks(stages),
            },
        )
    )
    wall = sum(attempt["wall_seconds"] for attempt in attempts if attempt["samples"])
    predicted = sum(attempt["samples"] for attempt in attempts)
    write_json(
        path,
        {
            "wall_seconds": wall,
            "samples_per_second": predicted / wall if wall else None,
            "attempts": attempts,
        },
    )
    for share in shares:
        forget(share)
    return _shares_text(attempts) if finished else None


def _shares_text(attempts: Iterable[Attempt]) -> str | None:
    shares = [
        f"share {attempt['shard'][0]} of {attempt['shard'][1]}: "
        f"{counted(attempt['samples'], 'sample')} in "
        f"{attempt['wall_seconds']:.1f} s, commit {(attempt.get('commit') or '?')[:12]}"
        for attempt in attempts
        if "shard" in attempt
    ]
    return "; ".join(shares) or None


def _attempts(path: Path) -> list[Attempt]:
    """Read the attempts of a file; empty if it is damaged, because no score depends on it.

    Attempts of earlier versions stay unchanged: their stages have `memory_bytes`, the memory of the
    process after a batch, and no peaks.
    """
    with suppress(StoreError, TypeError, KeyError, ValueError, AttributeError):
        return [
            from_plain(Attempt, {name: entry[name] for name in ATTEMPT_KEYS if name in entry})
            for entry in read_json(path)["attempts"]
        ]
    return []
