"""An OpenAI-compatible server on 127.0.0.1 that answers for any model by `responses.draw`.

In a rehearsal it stands in for the servers of rating models, judges and API models: the backend
`openai` sends its requests to `Served.url`.
"""

import base64
import binascii
import io
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

from harness.rehearsal.responses import draw
from harness.rehearsal.wording import Asked

MAX_REQUEST_BYTES = 256 * 2**20
"""Largest number of bytes of a request."""
CHARACTERS_PER_TOKEN = 4
"""Number of characters that count as a token."""
ROUTE = "/v1"
"""Beginning of the server's paths. Only the end of a path is checked, as requests that were
redirected from another server may begin with another route."""


@dataclass
class Served:
    """A running server, and a record of the requests that it answered."""

    url: str
    """Address for `base_url=`, such as `http://127.0.0.1:40123/v1`."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of answered requests by model."""
    faults: list[str] = field(default_factory=list)
    """Reasons why requests were refused."""


@contextmanager
def serve(*, seed: int = 0, models: Sequence[str] = (), port: int = 0) -> Iterator[Served]:
    """Serve within a block, in threads of this process.

    Args:
        seed: Another seed draws other responses.
        models: Names that `/v1/models` lists; other names are refused. Empty: any name is answered.
        port: Port to listen on; 0: a free one.
    """
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    served = Served(f"http://127.0.0.1:{server.server_address[1]}{ROUTE}")
    server.answering = _Answering(served, seed, tuple(models))  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, name="rehearsal-server", daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class UnknownModel(Exception):
    """A request for a model that is not served."""


class _Handler(BaseHTTPRequestHandler):
    """The HTTP side of one connection."""

    def do_GET(self) -> None:
        """List the models."""
        if self.path.rstrip("/").endswith("/models"):
            self._send(200, self._answering.listed())
        else:
            self._send(404, _error(f"there is no {self.path}"))

    def _is_chat(self) -> bool:
        return self.path.rstrip("/").endswith("/chat/completions")

    def do_POST(self) -> None:
        """Answer a chat completion."""
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= MAX_REQUEST_BYTES:
                raise ValueError(f"a request of {length} bytes")
            body = json.loads(self.rfile.read(length))
            if not self._is_chat():
                raise LookupError(f"there is no {self.path}")
            self._send(200, self._answering.completion(body))
        except UnknownModel as error:
            self._answering.served.faults.append(str(error))
            self._send(404, {"error": {"message": str(error), "type": "NotFoundError"}})
        except LookupError as error:
            self._refuse(400 if self._is_chat() else 404, error)
        except (ValueError, TypeError, AttributeError, OSError) as error:
            self._refuse(400, error)

    @property
    def _answering(self) -> "_Answering":
        answering: _Answering = self.server.answering  # type: ignore[attr-defined]
        return answering

    def _refuse(self, status: int, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"[:300]
        self._answering.served.faults.append(reason)
        self._send(status, _error(reason))

    def _send(self, status: int, plain: Mapping[str, object]) -> None:
        data = json.dumps(plain).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to the terminal."""


@dataclass
class _Answering:
    """Makes the answers to requests."""

    served: Served
    seed: int
    models: tuple[str, ...]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def listed(self) -> dict[str, object]:
        """Return the list of models; it is empty if any name is answered."""
        rows = [{"id": name, "object": "model", "owned_by": "rehearsal"} for name in self.models]
        return {"object": "list", "data": rows}

    def completion(self, body: Mapping[str, Any]) -> dict[str, object]:
        """Return the chat completion for the body of a request.

        Raises:
            LookupError: a part of the request is missing.
            UnknownModel: the model is not served.
            ValueError: the request asks for a stream, or an image cannot be read.
        """
        if body.get("stream"):
            raise ValueError("streams are not served")
        model = str(body["model"])
        if self.models and model not in self.models:
            raise UnknownModel(f"The model `{model}` does not exist.")
        asked = asked_of(body)
        text = draw(asked, seed=self.seed).text
        limit = body.get("max_completion_tokens", body.get("max_tokens")) or len(text)
        text, ended = _ended(text, body.get("stop"), keep=_keeps_stop(body))
        cut = len(text) > limit * CHARACTERS_PER_TOKEN
        if cut:
            text = text[: limit * CHARACTERS_PER_TOKEN]
        with self.lock:
            self.served.counts[model] = self.served.counts.get(model, 0) + 1
        prompt = len(asked.system + asked.text) // CHARACTERS_PER_TOKEN + 1
        completion = len(text) // CHARACTERS_PER_TOKEN + 1
        return {
            "id": "rehearsal",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "length" if cut and not ended else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }


def _error(reason: str) -> dict[str, object]:
    return {"error": {"message": reason, "type": "invalid_request_error"}}


def asked_of(body: Mapping[str, Any]) -> Asked:
    """Return the request in the body of a chat completion.

    `Asked.key` is the seed, which the client makes from the sample, the rollout and the run's seed.

    Raises:
        LookupError: there is no message of the user.
        ValueError: an image cannot be read.
    """
    messages = list(body["messages"])
    written = ""
    if messages and messages[-1]["role"] == "assistant":
        written = _text(messages.pop())
    users = [message for message in messages if message["role"] == "user"]
    if not users:
        raise LookupError("no message of the user")
    sizes = [size for message in users for size in _sizes(message)]
    system = next((_text(message) for message in messages if message["role"] == "system"), "")
    return Asked(
        text=_text(users[-1]),
        system=system,
        extent=sizes[0] if sizes else (1000, 1000),
        written=written,
        key=str(body.get("seed", "")),
    )


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def _sizes(message: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return (width, height) of each image, and of each frame of a video, in a message."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    sizes: list[tuple[int, int]] = []
    for part in parts:
        if part["type"] in ("image_url", "video_url"):
            header, _, inlined = part[part["type"]]["url"].partition(",")
            if not header.startswith("data:"):
                raise ValueError("an address of an image; only inlined ones are read")
            sizes += [_size(image) for image in inlined.split(",")]
    return sizes


def _size(inlined: str) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(base64.b64decode(inlined, validate=True))) as image:
            return image.size
    except binascii.Error as error:
        raise ValueError(f"an image that is not base64: {error}") from error


def _keeps_stop(body: Mapping[str, Any]) -> bool:
    """Return True if the request asks, in vLLM's or SGLang's way, to keep the stop string."""
    return bool(body.get("include_stop_str_in_output") or body.get("no_stop_trim"))


def _ended(text: str, stop: object, *, keep: bool) -> tuple[str, bool]:
    """Return (the text up to its first stop string, True if it has one)."""
    strings = [stop] if isinstance(stop, str) else list(stop) if isinstance(stop, list) else []
    places = [(text.find(string), string) for string in strings if string and string in text]
    if not places:
        return text, False
    place, first = min(places)
    return text[: place + len(first) if keep else place], True
