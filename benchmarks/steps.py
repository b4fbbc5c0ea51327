"""A small data root, and the seconds of the steps of a training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from harness.testing import make_shapes


@dataclass
class Clock:
    """Progress that notes when each step ended, and what was logged of it."""

    ends: list[float] = field(default_factory=list)
    numbers: list[Mapping[str, float]] = field(default_factory=list)
    now: Callable[[], float] = perf_counter

    def start(self, name: str, total: int, done: int) -> None:
        return

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        if "reward" in numbers:
            self.ends.append(self.now())
            self.numbers.append(numbers)

    def note(self, text: str) -> None:
        return

    def end(self) -> None:
        return

    def seconds(self) -> list[float]:
        """Of each step but the first."""
        return [after - before for before, after in zip(self.ends, self.ends[1:], strict=False)]


def data(folder: Path, *, size: int = 16) -> Path:
    """Make a world of `size` scenes, with 4 · `size` questions for training; return its root."""
    make_shapes(folder / "shapes", size=size)
    return folder / "shapes"
