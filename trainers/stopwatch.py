"""Measure the seconds of each part of a training step, for loggers and the terminal.

The recorded curve has no times, so that equal trainings have equal curves.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

GENERATION, REWARD, UPDATE = "generation", "reward", "update"  # names of parts


class Stopwatch:
    """Sums the seconds of each part of a step, from one `take` to the next."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._began = self._lapped = time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to a part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - began

    def lap(self, name: str) -> None:
        """Add the seconds since the last `lap` or `take` to a part."""
        now = time.perf_counter()
        self._seconds[name] += now - self._lapped
        self._lapped = now

    def take(self, tokens: float) -> Mapping[str, float]:
        """Return the seconds since the last call, in all and by part, and start again.

        Args:
            tokens: Tokens that were written since then, in all processes; 0: no speed is returned.
        """
        now = time.perf_counter()
        step_time = now - self._began
        self._began = self._lapped = now
        parts = {f"timing_s/{name}": seconds for name, seconds in self._seconds.items()}
        self._seconds.clear()
        speed = {"perf/tokens_per_second": tokens / step_time} if tokens and step_time else {}
        return {"step_time": step_time, **parts, **speed}
