"""Number of requests under way at once, and the wait before the next try.

Slow start, then additive increase and multiplicative decrease, as TCP has them (Jacobson 1988; Chiu
and Jain 1989): until the server is crowded for the first time each round that goes well doubles
the requests, afterwards it allows one more; a server that is crowded halves them. What was under
way already when they were halved says nothing new, and halves nothing.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

LONGEST_WAIT = 300.0  # seconds that a server may ask for before it is given up
GLANCE = 0.1  # seconds after which those who wait look whether all was stopped


class CallCancelled(Exception):
    """Another request of the same call has failed for good."""


class RateLimiter:
    """A gate that lets as many through as the server seems to take. Safe to use from threads."""

    def __init__(self, *, start: int, limit: int) -> None:
        self.limit = float(min(start, limit))
        self.most = limit
        self._busy = 0
        self._halved = 0.0
        self._resume = 0.0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, stop: threading.Event) -> Iterator[float]:
        """Wait for a place, and hold it; gives the moment at which it was had.

        Raises:
            Stopped: `stop` was set meanwhile.
        """
        with self._changed:
            while self._busy >= int(self.limit) or monotonic() < self._resume:
                if stop.is_set():
                    raise CallCancelled
                self._changed.wait(GLANCE)
            if stop.is_set():
                raise CallCancelled
            self._busy += 1
        try:
            yield monotonic()
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def went_well(self) -> None:
        """One request was answered."""
        with self._changed:
            more = 1.0 / self.limit if self._halved else 1.0
            self.limit = min(float(self.most), self.limit + more)
            self._changed.notify()

    def was_crowded(self, began: float, *, wait: float | None = None) -> None:
        """A request that began then met a crowded server, which asks to wait."""
        with self._changed:
            now = monotonic()
            if began >= self._halved:
                self.limit = max(1.0, self.limit / 2)
                self._halved = now
            if wait is not None:
                self._resume = max(self._resume, now + min(wait, LONGEST_WAIT))


def back_off(
    attempt: int, *, first: float, limit: float = 60.0, retry_after: float | None = None
) -> float:
    """Seconds to wait after a failed attempt (the first is 0): doubled each time, with jitter.

    From half of the doubled time to all of it, and never less than the server asks for.
    """
    grown = min(limit, first * 2.0 ** min(attempt, 30))
    return max(retry_after or 0.0, grown * random.uniform(0.5, 1.0))
