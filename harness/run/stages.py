"""What the stages of a model cost: seconds, and the memory that was held."""

import mmap
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

LANGUAGE, SEGMENTATION, PROPAGATION = "language", "segmentation", "propagation"
WHOLE = "model"
"""The one stage of a model that has no others."""


@dataclass(slots=True)
class Stage:
    """What one stage of a model did with a batch, or with many."""

    seconds: float = 0.0
    memory: int = 0
    """The most bytes that the process was seen to hold at the end of a piece of its work."""
    crashed: int = 0
    """Failures that were exceptions of the model."""
    halvings: int = 0
    """How often a batch had to be cut in two to fit into memory."""
    processes: dict[int, float] = field(default_factory=dict)
    """The seconds of each process of a launch, by its rank; empty if there was no launch."""

    def end(self, start: float) -> "Stage":
        """Count a piece of work that began at `start`, by `perf_counter`."""
        self.seconds += perf_counter() - start
        self.memory = max(self.memory, memory_used())
        return self

    def add(self, other: "Stage") -> None:
        """Count what was done with another batch."""
        self.seconds += other.seconds
        self.memory = max(self.memory, other.memory)
        self.crashed += other.crashed
        self.halvings += other.halvings
        for rank, seconds in other.processes.items():
            self.processes[rank] = self.processes.get(rank, 0.0) + seconds


def memory_used() -> int:
    """Bytes that this process holds now: on its GPU if it uses one, else in memory; 0: unknown."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.memory_allocated())
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:  # another system, or a model that gave up the right to read
        return 0
    return int(pages) * mmap.PAGESIZE


def told(stages: Mapping[str, Stage]) -> dict[str, dict[str, Any]]:
    """Plain data for `timing.json`."""
    plain: dict[str, dict[str, Any]] = {}
    for name, one in stages.items():
        plain[name] = {"seconds": round(one.seconds, 3), "memory_bytes": one.memory}
        if one.processes:
            by_rank = sorted(one.processes.items())
            plain[name]["seconds_by_process"] = {str(rank): round(s, 3) for rank, s in by_rank}
    return plain


def read(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, Stage]:
    """The stages that `told` told of, of whatever processes.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is something else.
    """
    return {
        str(name): Stage(float(one["seconds"]), int(one["memory_bytes"]))
        for name, one in plain.items()
    }


def of_process(rank: int, stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """The same stages, as those of one process of a launch."""
    return {name: replace(one, processes={rank: one.seconds}) for name, one in stages.items()}


def summed(every: Iterable[Mapping[str, Stage]]) -> dict[str, Stage]:
    """The stages of many batches together."""
    whole: dict[str, Stage] = {}
    for stages in every:
        for name, one in stages.items():
            whole.setdefault(name, Stage()).add(one)
    return whole
