"""Share requests among several servers of one network: the least busy that answers gets each one.

`openai_session` sends its requests through an `EndpointPool`, which may hold a single server.
"""

import threading
from collections.abc import Sequence
from time import monotonic

from harness.models.backends.openai_http import Endpoint, RetryableError

FIRST_REST, LONGEST_REST = 2.0, 120.0
"""Seconds in which a server gets no requests after its first fault; doubled with each further fault
in a row, up to the longest rest. A server may ask for a longer one."""


class EndpointPool:
    """The addresses of one or more servers. Safe to use from several threads.

    A request whose server fails is sent to another at once, and fails only if all of them do. A
    server that failed gets requests again after a rest, or if no other server is left.
    """

    def __init__(self, members: Sequence[Endpoint]) -> None:
        self.members = tuple(members)
        self._under_way = dict.fromkeys(self.members, 0)  # requests that wait for an answer
        self._sent = dict.fromkeys(self.members, 0)  # requests so far
        self._faults = dict.fromkeys(self.members, 0)  # in a row
        self._resting_until = dict.fromkeys(self.members, 0.0)  # moments of time.monotonic
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """All addresses, with commas."""
        return ",".join(endpoint.url for endpoint in self.members)

    def post(self, route: str, body: bytes) -> tuple[Endpoint, dict[str, object]]:
        """Return the server that answered and its answer; see `Endpoint.post`.

        Raises:
            RetryableError: every server failed.
            UsageError, MissingDependency, ModelError: a server refuses the request.
        """
        untried = list(self.members)
        while True:
            with self._lock:
                now = monotonic()
                # one that does not rest, then the least busy, then the least used
                endpoint = min(
                    untried,
                    key=lambda candidate: (
                        self._resting_until[candidate] > now,
                        self._under_way[candidate],
                        self._sent[candidate],
                    ),
                )
                self._under_way[endpoint] += 1
                self._sent[endpoint] += 1
            try:
                answer = endpoint.post(route, body)
            except RetryableError as fault:
                self.rest(endpoint, wait=fault.wait)
                untried.remove(endpoint)
                if not untried:
                    raise
            else:
                with self._lock:
                    self._faults[endpoint] = 0
                return endpoint, answer
            finally:
                with self._lock:
                    self._under_way[endpoint] -= 1

    def rest(self, endpoint: Endpoint, *, wait: float | None = None) -> None:
        """Send no requests to a server that failed, for at least the `wait` seconds it asks for."""
        with self._lock:
            now = monotonic()
            # Requests that were under way together meet the same fault: it is counted once.
            if self._resting_until[endpoint] <= now:
                self._faults[endpoint] += 1
            seconds = min(FIRST_REST * 2.0 ** min(self._faults[endpoint] - 1, 30), LONGEST_REST)
            # A later fault of the same time never shortens a rest that the server asked for.
            until = now + max(seconds, wait or 0.0)
            self._resting_until[endpoint] = max(self._resting_until[endpoint], until)
