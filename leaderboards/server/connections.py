"""Deadlines for connections, which uvicorn does not have, against clients that hold them open.

A connection is cut if its request header does not arrive in time, if its request is not received
and answered in time, if its response is not read in time, and, while it only waits for a request,
if there are too many connections.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

WAITING = 10.0
"""Seconds for a complete header to arrive, and for a response to be read."""
SERVING = 900.0
"""Seconds for a request to be received and answered."""
MAX_CONNECTIONS = 500  # open at once; above it, the longest-waiting one is cut


class BoundedProtocol(H11Protocol):
    """A connection by HTTP/1.1 with deadlines."""

    waiting: ClassVar[dict["BoundedProtocol", None]] = {}
    """Connections without a request, the longest wait first (an ordered set)."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for a request; if there are too many connections, cut the longest-waiting one."""
        super().connection_made(transport)
        self._renew()
        if len(self.connections) > MAX_CONNECTIONS and self.waiting:
            next(iter(self.waiting))._cut()

    def data_received(self, data: bytes) -> None:
        """Receive bytes; once the header is complete, start the deadline of serving."""
        super().data_received(data)
        if self in self.waiting and self._is_served():
            self._renew()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived."""
        super().on_response_complete()
        self._renew()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    def _is_served(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _renew(self) -> None:
        """Start a new deadline: for the next request, or for the end of the current one."""
        self._forget()
        if not self._is_served():
            self.waiting[self] = None
        seconds = SERVING if self._is_served() else WAITING
        self._deadline = self.loop.call_later(seconds, self._cut)

    def _forget(self) -> None:
        self.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def _cut(self) -> None:
        self._forget()
        self.transport.abort()  # `close` would wait for a peer that does not read
