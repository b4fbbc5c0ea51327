"""Decide how many requests are under way at once, and how long to wait before the next try.

Slow start, then additive increase and multiplicative decrease, as in TCP (Jacobson 1988; Chiu and
Jain 1989): until the server is overloaded for the first time, each round of answers doubles the
number of requests; afterwards each round allows one more. An overloaded server halves it, once for
all requests that were under way together. `openai_session` sends every request through it.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

MAX_WAIT = 300.0  # seconds; a request whose server asks to wait longer is given up
POLL_SECONDS = 0.1  # seconds after which waiting threads look whether their call was stopped


class CallCancelled(Exception):
    """The call of this request was stopped, by `halt` or because the run has to end."""


class RateLimiter:
    """Limits requests under way to as many as the server seems to take. Safe to use from threads.

    All moments are those of `time.monotonic`.
    """

    def __init__(self, *, start: int, limit: int) -> None:
        self.limit = float(min(start, limit))
        """Requests at once at present; its whole part counts."""
        self.most = limit
        self._under_way = 0
        self._halved_at = 0.0
        self._paused_until = 0.0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, stop: threading.Event) -> Iterator[float]:
        """Wait until a request may be sent, and count it as under way; yields its start.

        Raises:
            CallCancelled: `stop` was set meanwhile.
        """
        with self._changed:
            while self._under_way >= int(self.limit) or monotonic() < self._paused_until:
                if stop.is_set():
                    raise CallCancelled
                self._changed.wait(POLL_SECONDS)
            if stop.is_set():
                raise CallCancelled
            self._under_way += 1
        try:
            yield monotonic()
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify()

    def went_well(self) -> None:
        """Raise the limit after an answered request: by 1, or by 1 a round once it was halved."""
        with self._changed:
            increase = 1.0 / self.limit if self._halved_at else 1.0
            self.limit = min(float(self.most), self.limit + increase)
            self._changed.notify()

    def was_crowded(self, began: float, *, wait: float | None = None) -> None:
        """Halve the limit, because a request met an overloaded server.

        Nothing is halved if the request `began` before the last halving. `wait`: seconds that the
        server asks for, in which nothing is sent.
        """
        with self._changed:
            now = monotonic()
            if began >= self._halved_at:
                self.limit = max(1.0, self.limit / 2)
                self._halved_at = now
            if wait is not None:
                self._paused_until = max(self._paused_until, now + min(wait, MAX_WAIT))


def back_off(
    attempt: int, *, first: float, limit: float = 60.0, retry_after: float | None = None
) -> float:
    """Seconds to wait after failed attempt number `attempt`, which counts from 0.

    `first` seconds, doubled with each attempt up to `limit`, times a random factor from 0.5 to 1;
    never less than the server asks for (`retry_after`).
    """
    longest = min(limit, first * 2.0 ** min(attempt, 30))
    return max(retry_after or 0.0, longest * random.uniform(0.5, 1.0))
