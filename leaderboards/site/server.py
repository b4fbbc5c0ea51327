"""The HTTP server of `harness view`: one read-only site, for this machine alone.

It binds 127.0.0.1 and answers only GET requests with a random token in the path and its own host
name in the header, so that a page of another site cannot reach it by a name that resolves here. A
path is looked up among the site's own names; no path of a request is opened. A connection without a
request is closed after a while, or when there are too many.
"""

import json
import secrets
import socket
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from harness.errors import one_line
from harness.leaderboards.site.index import POLICY
from harness.leaderboards.site.live import LiveSite

HOST = "127.0.0.1"
INTERVAL = 1.0  # seconds between two reads of the folders
IDLE = 10.0  # seconds for a complete request header to arrive
MAX_CONNECTIONS = 100  # at a time; each has a thread and a file handle
KEEP_ALIVE = 15.0  # seconds after which a silent stream sends a comment


class SiteServer(ThreadingHTTPServer):
    """Serves a live site until it is closed."""

    daemon_threads = True

    def __init__(self, site: LiveSite, *, port: int = 0) -> None:
        """Bind a port of this machine; 0 chooses a free one.

        Raises:
            OSError: the port is taken.
        """
        self.site = site
        self.token = secrets.token_urlsafe(16)
        self.listeners: set[SimpleQueue[str]] = set()
        self._closing = threading.Event()
        self._last_text = ""
        self._connections: set[socket.socket] = set()
        self._waiting: dict[socket.socket, float] = {}
        """Connections without a request, and since when; the one that waits longest is first."""
        super().__init__((HOST, port), _Handler)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def url(self) -> str:
        """The address of the start page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/index.html{self.site.start()}"

    def server_close(self) -> None:
        """Stop watching, and close the socket."""
        self._closing.set()
        super().server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; if there are too many, close the longest-waiting one."""
        if len(self._connections) >= MAX_CONNECTIONS:
            if not self._waiting:
                self.shutdown_request(request)
                return
            self._hang_up(next(iter(self._waiting)))
        self._connections.add(request)
        self.wait_for_request(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.take_request(request)
        self._connections.discard(request)
        super().shutdown_request(request)

    def wait_for_request(self, connection: socket.socket) -> None:
        """Note that a connection waits for its first or its next request."""
        self._waiting[connection] = monotonic()

    def take_request(self, connection: socket.socket) -> None:
        """Note that a connection has sent a request."""
        self._waiting.pop(connection, None)

    def service_actions(self) -> None:
        """Close connections that sent no request in time; called twice a second."""
        for connection, since in list(self._waiting.items()):
            if monotonic() - since > IDLE:
                self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        """End a connection; its thread closes it."""
        self.take_request(connection)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print one line on why a request was not served; nothing if the client went away."""
        error = sys.exception()
        if not isinstance(error, OSError):
            sys.stderr.write(one_line(f"harness view: {type(error).__name__}: {error}") + "\n")

    def _watch(self) -> None:
        while not self._closing.wait(INTERVAL):
            try:
                changed, text = self.site.refresh(), self.site.progress()
            except Exception as error:  # noqa: BLE001 - one failed read must not end the watching
                changed, text = [], str(error)
            if changed or text != self._last_text:
                self._last_text = text
                for listener in list(self.listeners):
                    listener.put(json.dumps({"changed": changed, "text": text}))


class _Handler(BaseHTTPRequestHandler):
    """Answers requests for files of the site, on this machine only."""

    server: SiteServer
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        self.server.wait_for_request(self.connection)
        super().handle_one_request()

    def do_GET(self) -> None:
        self.server.take_request(self.connection)
        hosts = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        path = self.path.partition("?")[0].partition("/")[2]  # without the first slash
        token, _, name = path.partition("/")
        if self.headers.get("Host") not in hosts or not secrets.compare_digest(
            token.encode("utf-8", "replace"), self.server.token.encode()
        ):
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain")
        elif name == "events":
            self._events()
        else:
            self._file(name or "index.html")

    def _file(self, name: str) -> None:
        """Send a file of the site; an error in it does not stop the server."""
        try:
            content = self.server.site.file(name)
        except Exception as error:  # noqa: BLE001 - an odd record must not stop the other files
            text = one_line(f"{type(error).__name__}: {error}\n")
            self._send(
                HTTPStatus.INTERNAL_SERVER_ERROR, text.encode("utf-8", "replace"), "text/plain"
            )
            return
        if content is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain")
        else:
            self._send(HTTPStatus.OK, *content)

    def _send(self, status: HTTPStatus, content: bytes, mime: str) -> None:
        self.send_response(status)
        text = mime.startswith("text/") or mime == "application/json"
        self.send_header("Content-Type", f"{mime}; charset=utf-8" if text else mime)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", f"{POLICY}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "max-age=3600" if mime == "image/webp" else "no-store")
        self.end_headers()
        self.wfile.write(content)

    def _events(self) -> None:
        """Send each change as a server-sent event until the page is closed."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        changes: SimpleQueue[str] = SimpleQueue()
        self.server.listeners.add(changes)
        try:
            changes.put(json.dumps({"changed": [], "text": self.server.site.progress()}))
            while True:
                try:
                    line = f"data: {changes.get(timeout=KEEP_ALIVE)}\n\n"
                except Empty:
                    line = ": here\n\n"
                self.wfile.write(line.encode())
                self.wfile.flush()
        except OSError:
            pass  # the page was closed
        finally:
            self.server.listeners.discard(changes)
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the terminal shows the address."""
