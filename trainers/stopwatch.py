"""Seconds of a training's parts: for loggers and terminals, never for the curve."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

GENERATION, REWARD, UPDATE = "generation", "reward", "update"


class Stopwatch:
    """Sums seconds by the name of a part, from one `take` to the next."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._began = self._lapped = time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block's seconds as those of a part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - began

    def lap(self, name: str) -> None:
        """Count the seconds since the last lap, or `take`, as those of a part."""
        now = time.perf_counter()
        self._seconds[name] += now - self._lapped
        self._lapped = now

    def take(self, tokens: float) -> Mapping[str, float]:
        """Return seconds and tokens a second since the last call, and begin anew.

        Args:
            tokens: Tokens that were written since then, in all processes.
        """
        now = time.perf_counter()
        whole, self._began, self._lapped = now - self._began, now, now
        parts = {f"timing_s/{name}": seconds for name, seconds in self._seconds.items()}
        self._seconds.clear()
        speed = {"perf/tokens_per_second": tokens / whole} if tokens and whole else {}
        return {"step_time": whole, **parts, **speed}
