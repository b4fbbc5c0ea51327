"""Several servers of one network: each request goes to the least busy one that answers."""

import threading
from collections.abc import Sequence
from time import monotonic

from harness.models.backends.openai_http import Endpoint, RetryableError

REST, LONGEST_REST = 2.0, 120.0
"""Seconds that a server is spared after a fault; doubled with each further one up to the second."""


class EndpointPool:
    """The addresses of one or more servers. Safe to use from several threads.

    A request whose server fails is sent to the next at once; only if all of them fail does it count
    as failed. A server that failed is asked again after a rest, or if no other is left.
    """

    def __init__(self, members: Sequence[Endpoint]) -> None:
        self.members = tuple(members)
        self._busy = dict.fromkeys(self.members, 0)
        self._begun = dict.fromkeys(self.members, 0)
        self._faults = dict.fromkeys(self.members, 0)
        self._resting_until = dict.fromkeys(self.members, 0.0)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """All addresses, with commas."""
        return ",".join(endpoint.url for endpoint in self.members)

    def post(self, route: str, body: bytes) -> tuple[Endpoint, dict[str, object]]:
        """Return the server that answered and its answer; see `Endpoint.post`.

        Raises:
            RetryableError: every server failed.
            UsageError, MissingDependency, ModelError: one of them refuses the request.
        """
        left = list(self.members)
        while True:
            with self._lock:
                now = monotonic()
                endpoint = min(
                    left,
                    key=lambda candidate: (
                        self._resting_until[candidate] > now,
                        self._busy[candidate],
                        self._begun[candidate],
                    ),
                )
                self._busy[endpoint] += 1
                self._begun[endpoint] += 1
            try:
                answer = endpoint.post(route, body)
            except RetryableError as fault:
                self.rest(endpoint, wait=fault.wait)
                left.remove(endpoint)
                if not left:
                    raise
            else:
                with self._lock:
                    self._faults[endpoint] = 0
                return endpoint, answer
            finally:
                with self._lock:
                    self._busy[endpoint] -= 1

    def rest(self, endpoint: Endpoint, *, wait: float | None = None) -> None:
        """Spare a server that failed, for at least the seconds that it asks for."""
        with self._lock:
            now = monotonic()
            if self._resting_until[endpoint] <= now:  # not one of many that met the same fault
                self._faults[endpoint] += 1
            rest = min(REST * 2.0 ** min(self._faults[endpoint] - 1, 30), LONGEST_REST)
            # A fault of what was under way already does not shorten the rest that was asked for.
            until = now + max(rest, wait or 0.0)
            self._resting_until[endpoint] = max(self._resting_until[endpoint], until)
