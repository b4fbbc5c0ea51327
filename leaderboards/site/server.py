"""The server of `harness view`: one site, on this machine alone, for reading alone.

It binds 127.0.0.1, answers only under a random token, only to its own host name (so that a page of
another site cannot reach it by a name that resolves here), and only to GET. A path is looked up
among the site's own names; none is opened.
"""

import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Any

from harness.errors import HarnessError
from harness.leaderboards.site.index import POLICY
from harness.leaderboards.site.live import LiveSite

HOST = "127.0.0.1"
INTERVAL = 1.0  # seconds between two looks at the folders
KEEP_ALIVE = 15.0  # seconds after which a silent stream says that it lives


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
        self._told = ""
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

    def _watch(self) -> None:
        while not self._closing.wait(INTERVAL):
            try:
                changed, text = self.site.refresh(), self.site.progress()
            except HarnessError as error:  # a folder that is being written, or a bad run in it
                changed, text = [], str(error)
            if changed or text != self._told:
                self._told = text
                for listener in list(self.listeners):
                    listener.put(json.dumps({"changed": changed, "text": text}))


class _Handler(BaseHTTPRequestHandler):
    server: SiteServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        own = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        _, _, rest = self.path.partition("?")[0].partition("/")
        token, _, name = rest.partition("/")
        if self.headers.get("Host") not in own or not secrets.compare_digest(
            token.encode("utf-8", "replace"), self.server.token.encode()
        ):
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain")
        elif name == "events":
            self._events()
        elif (found := self.server.site.file(name or "index.html")) is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain")
        else:
            self._send(HTTPStatus.OK, *found)

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        text = kind.startswith("text/") or kind == "application/json"
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if text else kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", f"{POLICY}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "max-age=3600" if kind == "image/webp" else "no-store")
        self.end_headers()
        self.wfile.write(content)

    def _events(self) -> None:
        """Send every change until the page goes away."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        own: SimpleQueue[str] = SimpleQueue()
        self.server.listeners.add(own)
        try:
            own.put(json.dumps({"changed": [], "text": self.server.site.progress()}))
            while True:
                try:
                    line = f"data: {own.get(timeout=KEEP_ALIVE)}\n\n"
                except Empty:
                    line = ": here\n\n"
                self.wfile.write(line.encode())
                self.wfile.flush()
        except OSError:
            pass  # the page was closed
        finally:
            self.server.listeners.discard(own)
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: the terminal is for the address."""
