"""Record what real servers answer when something goes wrong: each row of recorded.jsonl.

    python tests/serving/record_faults.py --checkpoint models/pocket/checkpoint
    python tests/serving/record_faults.py --only nginx --only caddy

Needs fastapi, uvicorn, openai and aiohttp beside this project, and nginx, haproxy and caddy among
the programs of PATH. A kind of server that is missing is named, and its rows stay as they were.

Every server is started on 127.0.0.1, asked over a socket of its own, and stopped. A row has the
status line, the headers but for dates and identifiers, the body as it came (`body`: one character
a byte, chunks with their sizes), and how the connection ended. What is to come of a fault is
decided here, beside the fault.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
ROWS = HERE / "recorded.jsonl"
CHAT = "/v1/chat/completions"
QUESTION: dict[str, Any] = {
    "model": "served",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "where is it?"}]}],
    "max_tokens": 8,
    "temperature": 0.0,
    "top_p": 1.0,
    "seed": 1,
}
LARGE = QUESTION | {"padding": "a" * 8_000_000}  # more than is on its way at once
UNREADABLE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
DROPPED = frozenset({"date", "x-request-id"})  # new each time
ANSWERED = 300.0  # seconds until a response goes on, at most; a model may have to be loaded first
STARTED = 600.0  # seconds until a server listens; `transformers serve` loads torch


def passing(*says: str, waits: float = 0.0) -> dict[str, Any]:
    """Tried again, then a failure of the infrastructure."""
    plain = {"kind": "infrastructure", "tries": 2, "says": [*says, "2 tries"]}
    return plain | ({"waits": waits} if waits else {})


def refused(*says: str) -> dict[str, Any]:
    return {"kind": "model", "tries": 1, "says": [*says]}


def ended(*says: str) -> dict[str, Any]:
    """The run ends with code 2."""
    return {"kind": "run", "exit": 2, "tries": 1, "says": [*says]}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong, how it is provoked, and what is to come of it."""

    name: str
    by: str
    """What was set or asked, in words."""
    outcome: Mapping[str, Any]
    path: str = CHAT
    method: str = "POST"
    body: Any = field(default_factory=lambda: QUESTION)
    """Bytes, or what is sent as JSON."""
    kills: Literal["", "begun", "silent"] = ""
    """The server that answers is killed once its response has `begun`, or still `silent`
    after 1 s.
    """
    endless: bool = False
    """The response is as long as it may be: the tokens that end it are ruled out."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that listens; `victim` is the process that `Fault.kills` means."""

    port: int
    name: str
    """With its version."""
    victim: subprocess.Popen[bytes] | None = None


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def asked(fault: Fault) -> bytes:
    """The request as the backend sends it."""
    body = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
    head = [
        f"{fault.method} {fault.path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Accept-Encoding: identity",
        f"Content-Length: {len(body)}",
        "Accept: application/json",
        "Connection: close",
        "Content-Type: application/json",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def heard(running: Running, fault: Fault) -> tuple[bytes, str]:
    """All bytes of a response, and how it ended: `closed` or `reset`."""
    data, ends = b"", "closed"
    with socket.create_connection(("127.0.0.1", running.port), timeout=ANSWERED) as connection:
        try:
            connection.sendall(asked(fault))
        except (BrokenPipeError, ConnectionResetError):
            ends = "reset"
        try:
            if fault.kills:
                if fault.kills == "silent":
                    time.sleep(1.0)
                while fault.kills == "begun" and not data.partition(b"\r\n\r\n")[2]:
                    data += connection.recv(2**16)
                assert running.victim is not None
                os.kill(running.victim.pid, signal.SIGKILL)
            while part := connection.recv(2**16):
                data += part
        except ConnectionResetError:
            ends = "reset"
    return data, ends


def row(running: Running, fault: Fault) -> dict[str, Any]:
    data, ends = heard(running, fault)
    output = data.decode("latin-1")
    head, _, body = output.partition("\r\n\r\n") if output.startswith("HTTP/") else ("", "", output)
    line, *rest = head.split("\r\n")
    headers = [re.split(r":\s*", one, maxsplit=1) for one in rest]
    kept = [[name, value] for name, value in headers if name.lower() not in DROPPED]
    return {
        "name": fault.name,
        "server": running.name,
        "by": fault.by,
        "status": int(line.split()[1]) if line else None,
        "line": line,
        "headers": kept,
        "body": body,
        "ends": ends,
        "outcome": dict(fault.outcome),
    }


@contextmanager
def process(
    command: list[str],
    port: int,
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A server from its command line, from when it listens until it is stopped."""
    quiet = subprocess.DEVNULL
    one = subprocess.Popen(command, cwd=cwd, env=env, stdout=quiet, stderr=quiet)
    try:
        until = time.monotonic() + STARTED
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            if one.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"does not start: {' '.join(command)}")
            time.sleep(0.1)
        yield one
    finally:
        with suppress(ProcessLookupError):
            one.terminate()
        try:
            one.wait(10)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def applications() -> dict[str, str]:
    """Where the applications of this module are found by the servers that run them."""
    return {**os.environ, "PYTHONPATH": str(HERE)}


SERVE = """
from harness.models.backends.torchvision_cpu import ensure_torchvision
ensure_torchvision()
from transformers.cli.transformers import main
main()
"""


def serve(folder: Path, checkpoint: Path, *, pinned: bool) -> Any:
    """`transformers serve` of a checkpoint, which it knows as `served`, without a network."""
    (folder / "served").symlink_to(checkpoint.resolve(), target_is_directory=True)
    (folder / "cache" / "hub").mkdir(parents=True)
    port = free_port()
    command = [
        sys.executable,
        "-c",
        SERVE,
        "serve",
        *(["served"] if pinned else []),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    return port, process(command, port, cwd=folder, env={**os.environ, **environment})


def uvicorn(*settings: str) -> tuple[int, Any]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--factory",
        "record_faults:fastapi_application",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        *settings,
    ]
    return port, process(command, port, env=applications())


def fastapi_application() -> Any:
    """Routes that go wrong, for uvicorn."""
    from fastapi import FastAPI  # type: ignore[import-not-found]
    from pydantic import BaseModel
    from starlette.responses import StreamingResponse  # type: ignore[import-not-found]

    class Body(BaseModel):
        model: str
        seed: int

    async def parts(*, raises: bool = False) -> Any:
        yield b'{"object": "chat.completion", "choices": ['
        if raises:
            raise RuntimeError("it ran out of memory")
        await asyncio.sleep(60)

    async def right(body: Body) -> Any:
        raise RuntimeError("it ran out of memory")

    async def slow() -> Any:
        await asyncio.sleep(60)

    async def breaks() -> Any:
        return StreamingResponse(parts(raises=True), media_type="application/json")

    async def drips() -> Any:
        return StreamingResponse(parts(), media_type="application/json")

    async def promises() -> Any:
        length = {"Content-Length": "500"}
        return StreamingResponse(parts(), media_type="application/json", headers=length)

    application = FastAPI()
    for path, route in {
        CHAT: right,
        "/slow": slow,
        "/breaks": breaks,
        "/drips": drips,
        "/promises": promises,
    }.items():
        application.post(path)(route)
    return application


def aiohttp_application(_: list[str]) -> Any:
    """Routes that go wrong, for aiohttp."""
    from aiohttp import web

    async def right(request: web.Request) -> web.Response:
        await request.read()
        raise RuntimeError("it ran out of memory")

    async def breaks(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        await answer.write(b'{"object": "chat.completion", "choices": [')
        raise RuntimeError("it ran out of memory")

    application = web.Application(client_max_size=1024)
    application.router.add_post(CHAT, right)
    application.router.add_post("/breaks", breaks)
    return application


@contextmanager
def nothing_said() -> Iterator[int]:
    """A port of something that speaks no HTTP: it sends a line of its own, as SSH does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with suppress(OSError):
                while True:
                    one, _ = listener.accept()
                    one.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                    one.recv(2**16)
                    one.close()

        threading.Thread(target=greet, daemon=True).start()
        yield int(listener.getsockname()[1])


NGINX = """
daemon off; pid {folder}/pid; error_log /dev/null;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  limit_req_zone $binary_remote_addr zone=asked:1m rate=1r/m;
  server {{
    listen 127.0.0.1:{port};
    location /down {{ proxy_pass http://127.0.0.1:{dead}; }}
    location /other {{ proxy_pass http://127.0.0.1:{other}; }}
    location /slow {{ proxy_pass http://127.0.0.1:{up}; proxy_read_timeout 1s; }}
    location /drips {{ proxy_pass http://127.0.0.1:{up}; proxy_buffering off; }}
    location /small {{ client_max_body_size 64; proxy_pass http://127.0.0.1:{up}; }}
    location /often {{
      limit_req zone=asked; limit_req_status 429; add_header Retry-After 1 always;
      proxy_pass http://127.0.0.1:{dead};
    }}
    location /closed {{ add_header Retry-After 1 always; return 503; }}
    location /moved {{ return 301 https://$host$request_uri; }}
    location /locked {{ auth_basic "models"; auth_basic_user_file {folder}/none; }}
    location /dropped {{ return 444; }}
  }}
}}
"""

HAPROXY = """
defaults
  mode http
  timeout connect 1s
  timeout client 20s
  timeout server 1s
  retries 0
frontend all
  bind 127.0.0.1:{port}
  http-request deny deny_status 429 hdr Retry-After 1 if {{ path /often }}
  use_backend down if {{ path /down }}
  use_backend empty if {{ path /empty }}
  use_backend other if {{ path /other }}
  default_backend slow
backend down
  server one 127.0.0.1:{dead}
backend empty
backend other
  server one 127.0.0.1:{other}
backend slow
  server one 127.0.0.1:{up}
"""

CADDY = """
{{
  admin off
  auto_https off
  storage file_system {folder}
}}
http://127.0.0.1:{port} {{
  handle /down {{
    reverse_proxy 127.0.0.1:{dead}
  }}
  handle /slow {{
    reverse_proxy 127.0.0.1:{up} {{
      transport http {{
        response_header_timeout 1s
      }}
    }}
  }}
  handle /drips {{
    reverse_proxy 127.0.0.1:{up} {{
      flush_interval -1
    }}
  }}
  handle /small {{
    request_body {{
      max_size 64
    }}
    reverse_proxy 127.0.0.1:{up}
  }}
}}
"""


def proxy(kind: str, folder: Path, *, up: int, other: int) -> tuple[int, Any]:
    port = free_port()
    template = {"nginx": NGINX, "haproxy": HAPROXY, "caddy": CADDY}[kind]
    settings = folder / "settings"
    text = template.format(folder=folder, port=port, up=up, other=other, dead=free_port())
    settings.write_text(text, encoding="utf-8")
    tail = {
        "nginx": ["-c", str(settings), "-e", "/dev/null", "-p", str(folder)],
        "haproxy": ["-f", str(settings)],
        "caddy": ["run", "--adapter", "caddyfile", "--config", str(settings)],
    }[kind]
    environment = {**os.environ, "HOME": str(folder)}
    return port, process([kind, *tail], port, env=environment)


NAMED: dict[str, list[str]] = {"nginx": ["-v"], "haproxy": ["-v"], "caddy": ["version"]}


def named(kind: str) -> str:
    """A program's name with its version."""
    output = subprocess.run([kind, *NAMED[kind]], capture_output=True, text=True, check=True)
    found = re.search(r"\d+\.\d+\.\d+", output.stdout + output.stderr)
    assert found is not None, "a program that does not say its version"
    return f"{kind} {found[0]}"


PINNED = [
    Fault(
        name="a whole answer, of a release of the model",
        by="what the backend asks as plain",
        outcome={"kind": "parse", "tries": 1, "says": []},
    ),
    Fault(
        name="another model",
        by="transformers serve NAME, asked for another",
        body=QUESTION | {"model": "another"},
        outcome=refused("status 400: Server is pinned to 'served'; requested 'another'."),
    ),
    Fault(
        name="a setting that it does not take",
        by="repetition_penalty, as for server=vllm",
        body=QUESTION | {"repetition_penalty": 1.0},
        outcome=ended("status 422: Unexpected fields in the request", "repetition_penalty"),
    ),
    Fault(
        name="a field of the wrong form",
        by="a seed that is no number",
        body=QUESTION | {"seed": "a"},
        outcome=passing("status 500: Internal Server Error"),
    ),
    Fault(
        name="no messages",
        by="no messages",
        body={name: value for name, value in QUESTION.items() if name != "messages"},
        outcome=passing("status 500: Internal Server Error"),
    ),
    Fault(
        name="an image that cannot be read",
        by="three bytes as a PNG",
        body=QUESTION | {"messages": [{"role": "user", "content": [UNREADABLE]}]},
        outcome=passing("status 500: Internal Server Error"),
    ),
    Fault(
        name="no JSON",
        by="half of a JSON object",
        body=b'{"model": "served", "messages": [',
        outcome=refused("status 422: JSON decode error"),
    ),
    Fault(
        name="no JSON object",
        by="a list",
        body=[1, 2],
        outcome=refused("status 422: Input should be a valid dictionary"),
    ),
    Fault(
        name="a wrong address",
        by="base_url without /v1",
        path="/chat/completions",
        outcome=ended("status 404: Not Found", "base_url="),
    ),
    Fault(
        name="a wrong method",
        by="GET",
        method="GET",
        outcome=ended("status 405: Method Not Allowed", "base_url="),
    ),
    Fault(
        name="a stream of events",
        by="stream=true, which a proxy may add",
        body=QUESTION | {"stream": True},
        outcome=passing("not JSON (text/event-stream"),
    ),
    Fault(
        name="killed before it answers",
        by="kill -9 while it writes a long response",
        endless=True,
        kills="silent",
        outcome=passing("no whole answer"),
    ),
]
UNPINNED = [
    Fault(
        name="a model that it cannot load",
        by="transformers serve, asked for an unknown name",
        body=QUESTION | {"model": "another/one"},
        outcome=passing("status 500: Internal Server Error"),
    ),
    Fault(
        name="killed while it streams",
        by="kill -9 after the first event of a long response",
        body=QUESTION | {"stream": True},
        endless=True,
        kills="begun",
        outcome=passing("no whole answer"),
    ),
]
FASTAPI = [
    Fault(
        name="an exception",
        by="a route that raises",
        outcome=passing("status 500: Internal Server Error"),
    ),
    Fault(
        name="a field of the wrong form",
        by="a seed that is no number",
        body=QUESTION | {"seed": "a"},
        outcome=ended("status 422: Input should be a valid integer"),
    ),
    Fault(
        name="an exception while it streams",
        by="a generator that raises",
        path="/breaks",
        outcome=passing("no whole answer"),
    ),
    Fault(
        name="a wrong address, told before the request is read",
        by="a request of 8 MB",
        path="/chat/completions",
        body=LARGE,
        outcome=ended("status 404: Not Found", "base_url="),
    ),
]
PROMISED = [
    Fault(
        name="killed while it answers, its length told",
        by="kill -9 after the first bytes",
        path="/promises",
        kills="begun",
        outcome=passing("no whole answer"),
    ),
]
CROWDED = [
    Fault(
        name="too many connections",
        by="--limit-concurrency 1",
        outcome=passing("status 503: Service Unavailable"),
    ),
    Fault(
        name="too many connections, told before the request is read",
        by="--limit-concurrency 1, a request of 8 MB",
        body=LARGE,
        outcome=passing("status 503: Service Unavailable"),
    ),
]
AIOHTTP = [
    Fault(
        name="an exception",
        by="a handler that raises",
        outcome=passing("status 500: 500 Internal Server Error"),
    ),
    Fault(
        name="a body that is too large",
        by="client_max_size=1024",
        body=b" " * 5000,
        outcome=refused("status 413: Maximum request body size 1024 exceeded"),
    ),
    Fault(
        name="an exception while it streams",
        by="a handler that raises after the first bytes",
        path="/breaks",
        outcome=passing("no whole answer"),
    ),
]
HTTP_SERVER = [
    Fault(
        name="a server of files",
        by="POST to another service on this port",
        outcome=ended("status 501: Error response", "base_url="),
    ),
]
PROXIES = {
    "nginx": [
        Fault(
            name="a server that is down",
            by="nothing listens at proxy_pass",
            path="/down",
            outcome=passing("status 502: 502 Bad Gateway"),
        ),
        Fault(
            name="a server that speaks no HTTP",
            by="proxy_pass to a port that greets as SSH",
            path="/other",
            outcome=passing("no whole answer: SSH-2.0"),
        ),
        Fault(
            name="a server that is too slow",
            by="proxy_read_timeout 1s",
            path="/slow",
            outcome=passing("status 504: 504 Gateway Time-out"),
        ),
        Fault(
            name="a body that is too large",
            by="client_max_body_size 64",
            path="/small",
            outcome=refused("status 413: 413 Request Entity Too Large"),
        ),
        Fault(
            name="too many requests",
            by="limit_req_status 429, add_header Retry-After 1",
            path="/often",
            outcome=passing("status 429: 429 Too Many Requests", "it asks to wait 1 s", waits=1.0),
        ),
        Fault(
            name="closed for a while",
            by="return 503, add_header Retry-After 1",
            path="/closed",
            outcome=passing(
                "status 503: 503 Service Temporarily Unavailable", "it asks to wait 1 s", waits=1.0
            ),
        ),
        Fault(
            name="moved to https",
            by="return 301 https://…",
            path="/moved",
            outcome=ended("status 301: 301 Moved Permanently", "Redirections"),
        ),
        Fault(
            name="no name and password",
            by="auth_basic",
            path="/locked",
            outcome=ended("status 401: 401 Authorization Required", "key_variable=NAME"),
        ),
        Fault(
            name="dropped without a word",
            by="return 444",
            path="/dropped",
            outcome=passing("no whole answer"),
        ),
        Fault(
            name="a server that dies while it answers",
            by="kill -9 behind proxy_buffering off",
            path="/drips",
            kills="begun",  # nginx ends the chunks as if all had come
            outcome=passing("not JSON (application/json)"),
        ),
    ],
    "haproxy": [
        Fault(
            name="a server that is down",
            by="nothing listens at its only server",
            path="/down",
            outcome=passing("status 503: 503 Service Unavailable No server is available"),
        ),
        Fault(
            name="no server",
            by="a backend without servers",
            path="/empty",
            outcome=passing("status 503: 503 Service Unavailable"),
        ),
        Fault(
            name="a server that speaks no HTTP",
            by="a server that greets as SSH",
            path="/other",
            outcome=passing("status 502: 502 Bad Gateway"),
        ),
        Fault(
            name="a server that is too slow",
            by="timeout server 1s",
            path="/slow",
            outcome=passing("status 504: 504 Gateway Time-out"),
        ),
        Fault(
            name="too many requests",
            by="deny deny_status 429 hdr Retry-After 1",
            path="/often",
            outcome=passing("status 429: Too Many Requests", "it asks to wait 1 s", waits=1.0),
        ),
    ],
    "caddy": [
        Fault(
            name="a server that is down",
            by="nothing listens at reverse_proxy",
            path="/down",
            outcome=passing("status 502: Bad Gateway"),
        ),
        Fault(
            name="a server that is too slow",
            by="response_header_timeout 1s",
            path="/slow",
            outcome=passing("status 504: Gateway Timeout"),
        ),
        Fault(
            name="a body that is too large",
            by="request_body max_size 64",
            path="/small",
            outcome=passing("status 502: Bad Gateway"),
        ),  # from Caddy 2.7 it is a 413
        Fault(
            name="a server that dies while it answers",
            by="kill -9 behind flush_interval -1",
            path="/drips",
            kills="begun",
            outcome=passing("not JSON (application/json)"),
        ),
        Fault(
            name="no such route",
            by="no handle for this path",
            path="/nothing",
            outcome=passing("not JSON (of no type): ''"),
        ),
    ],
}


def faults() -> Iterator[tuple[str, Fault]]:
    """All faults, by kind of server."""
    kinds = {
        "transformers": PINNED + UNPINNED,
        "uvicorn": FASTAPI + PROMISED + CROWDED,
        "aiohttp.web": AIOHTTP,
        "http.server": HTTP_SERVER,
        **PROXIES,
    }
    for kind, several in kinds.items():
        yield from ((kind, one) for one in several)


def of_transformers(checkpoint: Path) -> Iterator[dict[str, Any]]:
    name = f"transformers serve {version('transformers')}"
    for several, pinned in ((PINNED, True), (UNPINNED, False)):
        with tempfile.TemporaryDirectory() as folder:
            port, started = serve(Path(folder), checkpoint, pinned=pinned)
            with started as victim:
                running = Running(port=port, name=name, victim=victim)
                for fault in several:
                    one = replace(fault, body=without_end(fault.body, checkpoint))
                    yield with_response(row(running, one if fault.endless else fault))


def without_end(body: Any, checkpoint: Path) -> Any:
    """A question whose response does not end before 4000 tokens."""
    settings = json.loads((checkpoint / "generation_config.json").read_text(encoding="utf-8"))
    ends = settings["eos_token_id"]
    several = ends if isinstance(ends, list) else [ends]
    never = {str(one): -1e9 for one in several}
    return body | {"max_tokens": 4000, "logit_bias": never} if isinstance(body, dict) else body


def with_response(made: dict[str, Any]) -> dict[str, Any]:
    """A row whose outcome has the response that a network wrote, where there is one."""
    if made["outcome"]["kind"] != "parse":
        return made
    message = json.loads(made["body"].encode("latin-1"))["choices"][0]["message"]
    thoughts = message.get("reasoning_content")
    response = f"<think>{thoughts}</think>{message['content']}" if thoughts else message["content"]
    return made | {"outcome": made["outcome"] | {"response": response}}


def of_uvicorn() -> Iterator[dict[str, Any]]:
    name = f"uvicorn {version('uvicorn')}, FastAPI {version('fastapi')}"
    limited = ("--limit-concurrency", "1")
    for several, settings in ((FASTAPI, ()), (PROMISED, ()), (CROWDED, limited)):
        port, started = uvicorn(*settings)
        with started as victim:
            running = Running(port=port, name=name, victim=victim)
            yield from (row(running, fault) for fault in several)


def of_aiohttp() -> Iterator[dict[str, Any]]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "aiohttp.web",
        "-H",
        "127.0.0.1",
        "-P",
        str(port),
        "record_faults:aiohttp_application",
    ]
    with process(command, port, env=applications()):
        running = Running(port=port, name=f"aiohttp.web {version('aiohttp')}")
        yield from (row(running, fault) for fault in AIOHTTP)


def of_http_server() -> Iterator[dict[str, Any]]:
    port = free_port()
    name = f"http.server of Python {sys.version.split()[0]}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
        with process(command, port, cwd=folder):
            running = Running(port=port, name=name)
            yield from (row(running, fault) for fault in HTTP_SERVER)


def of_proxy(kind: str) -> Iterator[dict[str, Any]]:
    if shutil.which(kind) is None:
        raise FileNotFoundError(f"{kind} is not among the programs of PATH")
    up, upstream = uvicorn()
    with tempfile.TemporaryDirectory() as folder, upstream as victim, nothing_said() as other:
        port, started = proxy(kind, Path(folder), up=up, other=other)
        with started:
            running = Running(port=port, name=named(kind), victim=victim)
            for fault in PROXIES[kind]:
                if fault.path == "/often":  # the first of a minute is let through
                    heard(running, fault)
                yield row(running, fault)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, default=Path("models/pocket/checkpoint"))
    parser.add_argument("--only", action="append", help="kinds of server; all of them without it")
    given = parser.parse_args()
    kinds: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "transformers": lambda: of_transformers(given.checkpoint),
        "uvicorn": of_uvicorn,
        "aiohttp.web": of_aiohttp,
        "http.server": of_http_server,
        **{kind: lambda kind=kind: of_proxy(kind) for kind in PROXIES},  # type: ignore[misc]
    }
    before = ROWS.read_text(encoding="utf-8").splitlines() if ROWS.exists() else []
    rows = [json.loads(line) for line in before]
    after = []
    for kind, record in kinds.items():
        old = [one for one in rows if one["server"].split()[0] == kind]
        if given.only and kind not in given.only:
            after += old
            continue
        try:
            new = [*record()]
        except (PackageNotFoundError, FileNotFoundError, RuntimeError) as error:
            print(f"{kind}: not recorded: {error}")
            new = old
        after += new
        print(f"{kind}: {len(new)} rows")
    text = "".join(f"{json.dumps(one)}\n" for one in after)
    ROWS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
