"""Requests through a real proxy of the environment, plain and encrypted."""

import shutil
import socket
import ssl
import subprocess
import sys
import threading
from base64 import b64decode
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.errors import UsageError
from harness.models.backends.http_proxy import connection_to, proxy_for
from harness.models.backends.openai_http import Endpoint, RetryableError

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import Scripted, serving

KEY = "a key of sixteen"
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Proxy(BaseHTTPRequestHandler):
    """Passes everything on to one address, whatever host is named; notes what it sees."""

    def log_message(self, *_):
        pass

    def refused(self):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        account = self.headers.get("Proxy-Authorization", "Basic ").removeprefix("Basic ")
        if self.server.account is None or b64decode(account).decode() == self.server.account:
            return False
        self.send_error(407)
        return True

    def do_GET(self):
        if self.refused():
            return
        host, port = self.server.target
        onward = HTTPConnection(host, port)
        onward.request("GET", urlsplit(self.path).path, headers=dict(self.headers))
        answer = onward.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        onward.close()

    def do_CONNECT(self):
        if self.refused():
            return
        with socket.create_connection(self.server.target) as onward:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=pass_on, args=(onward, self.connection))
            back.start()
            pass_on(self.connection, onward)
            back.join()


def pass_on(source, target):
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def proxy_to(url, account=None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    parts = urlsplit(url)
    server.target, server.account, server.seen = (parts.hostname, parts.port), account, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def endpoint(url):
    return Endpoint(url=url, timeout=10.0, key=KEY)


def test_a_plain_server_is_reached_through_the_proxy_with_its_account(monkeypatch):
    with serving(Scripted()) as served, proxy_to(served.url, "we:p@ss") as proxy:
        url = f"http://we:p%40ss@127.0.0.1:{proxy.server_port}"
        monkeypatch.setenv("HTTP_PROXY", url)
        assert endpoint("http://server.example:81/v1").get("/models")["data"]
        ((_, path, headers),) = proxy.seen
        assert (path, headers["Host"]) == (
            "http://server.example:81/v1/models",
            "server.example:81",
        )
        monkeypatch.setenv("HTTP_PROXY", url.replace("we:p%40ss@", ""))
        with pytest.raises(UsageError, match="status 407 through HTTP_PROXY"):
            endpoint("http://server.example:81/v1").get("/models")


@pytest.mark.parametrize("account", [None, "we:secret"])
def test_through_a_tunnel_the_proxy_sees_neither_key_nor_route(monkeypatch, tmp_path, account):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate of this test's server")
    chain = tmp_path / "chain.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=server.example -addext"
    command = ["openssl", *words.split(), "subjectAltName=DNS:server.example"]
    files = ["-keyout", chain, "-out", tmp_path / "trusted.pem"]
    subprocess.run([*command, *files], check=True, capture_output=True)
    with chain.open("ab") as file:
        file.write((tmp_path / "trusted.pem").read_bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain)
    with (
        serving(Scripted(), faults=["500"]) as served,
        encrypted(served.url, context) as inner,
        proxy_to(inner, account) as proxy,
    ):
        there = f"127.0.0.1:{proxy.server_port}"
        monkeypatch.setenv("https_proxy", f"http://{account}@{there}" if account else there)
        server = endpoint("https://server.example/v1")
        with pytest.raises(RetryableError, match="CERTIFICATE"):
            server.get("/models")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
        assert server.get("/models")["data"]
        with pytest.raises(RetryableError, match="500"):
            server.post("/chat/completions", b"{}")
        (sent,) = served.headers
        assert sent["Authorization"] == f"Bearer {KEY}"
        assert "Proxy-Authorization" not in sent
        for command, path, headers in proxy.seen:
            assert (command, path) == ("CONNECT", "server.example:443")
            assert "Authorization" not in headers
        proxy.account = "another:one"
        with pytest.raises(UsageError, match=r"407 through HTTPS_PROXY.*NAME:PASSWORD@"):
            server.get("/models")


@contextmanager
def encrypted(url, context):
    """A door with TLS in front of a plain server."""
    parts = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve():
            with suppress(OSError):
                while True:
                    raw, _ = door.accept()
                    threading.Thread(target=one, args=(raw,), daemon=True).start()

        def one(raw):
            with (
                suppress(OSError),
                context.wrap_socket(raw, server_side=True) as inside,
                socket.create_connection((parts.hostname, parts.port)) as onward,
            ):
                back = threading.Thread(target=pass_on, args=(onward, inside))
                back.start()
                pass_on(inside, onward)
                back.join()

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{door.getsockname()[1]}"


def test_this_machine_and_excepted_hosts_are_reached_directly(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serving(Scripted()) as served:
        assert endpoint(served.url).get("/models")["data"]
        assert endpoint(served.url.replace("127.0.0.1", "localhost")).get("/models")["data"]
    with pytest.raises(RetryableError, match=r"through ALL_PROXY: .*refused"):
        endpoint("http://server.invalid/v1").get("/models")  # the proxy is not there
    monkeypatch.setenv("NO_PROXY", ".invalid")
    connection, start, headers = connection_to(urlsplit("http://server.invalid:81/v1"), 1.0)
    assert (connection.host, connection.port, start, headers) == ("server.invalid", 81, "", {})


@pytest.mark.parametrize(
    ("server", "excepted", "direct"),
    [
        ("http://0.0.0.0:8000/v1", "", True),
        ("http://[::1]:8000/v1", "", True),
        ("http://10.1.2.3:8000/v1", "192.168.0.0/16, 10.0.0.0/8", True),
        ("http://11.1.2.3:8000/v1", "192.168.0.0/16, 10.0.0.0/8", False),
        ("http://[fd00::7]:8000/v1", "fd00::/8", True),
        ("http://[fd00::7]:8000/v1", "[fd00:0::7]", True),
        ("http://gpu.lan:8000/v1", "gpu.lan:8000", True),
        ("http://gpu.lan:8001/v1", "gpu.lan:8000", False),
        ("http://gpu.lan/v1", ".lan", True),
        ("http://gpu.plan/v1", "lan", False),
    ],
)
def test_addresses_and_ranges_are_excepted(monkeypatch, server, excepted, direct):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", excepted)
    assert (proxy_for(urlsplit(server)) is None) == direct


@pytest.mark.parametrize(
    "address",
    [
        "socks5://me:word@host:1080",
        "socks5://me:word/1@host:1080",
        "me:word@1@host:x",
        "https://me:word@host",
        "http://:0",
    ],
)
def test_a_proxy_that_is_none_for_http_is_refused_without_its_password(monkeypatch, address):
    monkeypatch.setenv("https_proxy", address)
    with pytest.raises(UsageError, match="HTTPS_PROXY") as refusal:
        endpoint("https://server.example/v1").get("/models")
    assert "word" not in str(refusal.value)
