"""A local server that speaks as OpenAI's chat completions do, for tests and for use by hand.

    python tests/serving/chat_server.py --checkpoint DIR --port 8000
    harness eval --model "pocket(checkpoint=DIR,backend=openai(
        model=served,base_url=http://127.0.0.1:8000/v1))" …

It answers from any `Chat`, and does what a script of faults says instead, one fault a request.
"""

import argparse
import base64
import io
import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import zip_longest
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np
from PIL import Image

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.media import Media, image_bytes, pixels
from harness.observation import Observation

HUGE = 10_000_000
TELLS = frozenset({"logprobs", "return_token_ids"})
Fault: TypeAlias = str | Mapping[str, Any]
"""A word that `Handler.fail` knows, or a row of faults.jsonl or recorded.jsonl; an empty word is
none."""


@dataclass
class Served:
    """What a server answers from, and what it was asked."""

    chat: Chat
    model: str = "served"
    tells: frozenset[str] = frozenset()
    """Of `logprobs` and `return_token_ids`, those that it returns to who asks for them."""
    faults: Iterator[Fault] = field(default_factory=lambda: iter(()))
    retry_after: str | None = None
    key: str | None = None
    """The key that it wants."""
    released: threading.Event = field(default_factory=threading.Event)
    """Set when the server is closed: those who hang wake up."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def response(self, request: ChatRequest, *, with_stop: bool) -> ChatResponse:
        """The network's response, `with_stop`: with the stop string at its end if it has
        met one.
        """
        with self.one_at_a_time:
            (response,) = self.chat.generate([request])
            if not (request.stop and with_stop):
                return response
            (whole,) = self.chat.generate([replace(request, stop=())])
        rest = whole.text[len(response.text) :]
        met = [one for one in request.stop if rest.startswith(one)]
        return replace(response, text=response.text + min(met, key=len)) if met else response

    def observation(self, request: ChatRequest) -> Observation:
        """The network's response, with its tokens and their log-probabilities."""
        with self.one_at_a_time:
            return self.chat.observe([request])[0]


class Handler(BaseHTTPRequestHandler):
    """One request to the server."""

    protocol_version = "HTTP/1.1"
    served: Served

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        if not self.path.endswith("/models"):
            return self.say(404, {"error": {"message": f"no {self.path}"}})
        return self.say(200, {"object": "list", "data": [{"id": self.served.model}]})

    def do_POST(self) -> None:
        served = self.served
        with served.lock:
            served.moments.append(time.monotonic())
            served.headers.append(dict(self.headers.items()))
            fault = next(served.faults, "")
        unread = isinstance(fault, Mapping) and fault.get("ends") == "reset"
        body = b"" if unread else self.rfile.read(int(self.headers["Content-Length"]))
        try:
            if served.key is not None and self.headers["Authorization"] != f"Bearer {served.key}":
                return self.say(401, {"error": {"message": f"bad {self.headers['Authorization']}"}})
            if fault:
                return self.fail(fault) if isinstance(fault, str) else self.replay(fault)
            plain = json.loads(body)
            with served.lock:
                served.asked.append(plain)
                served.busy += 1
                served.busiest = max(served.busiest, served.busy)
            with_stop = bool(plain.get("include_stop_str_in_output") or plain.get("no_stop_trim"))
            try:
                told = {name for name in served.tells if plain.get(name)}
                request, seen = request_of(plain), None
                if told:
                    seen = served.observation(request)
                response = seen.response if seen else served.response(request, with_stop=with_stop)
            finally:  # before it is sent: who has it may ask the next at once
                with served.lock:
                    served.busy -= 1
            answer = completion(response, plain, served.model)
            if seen is not None:
                answer = with_observation(answer, seen, told)
            return self.say(200, answer)
        except ValueError as error:
            return self.say(400, {"error": {"message": str(error)}})

    def say(self, status: int, plain: Any, **headers: str) -> None:
        data = plain if isinstance(plain, bytes) else json.dumps(plain).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def replay(self, fault: Mapping[str, Any]) -> None:
        """Answer as a row says: status, headers, and a body that may not end."""
        if "ends" in fault:
            return self.repeat(fault)
        body = fault["body"]
        if not fault.get("endless"):
            data = body.encode() if isinstance(body, str) else body
            return self.say(fault["status"], data, **fault.get("headers", {}))
        self.close_connection = True
        self.send_response(fault["status"])
        self.send_header("Content-Type", fault["headers"]["Content-Type"])
        self.end_headers()
        part = bytes.fromhex(body) * 2**14
        with suppress(OSError):  # whoever reads has heard enough
            while not self.served.released.is_set():
                self.wfile.write(part)
        return None

    def repeat(self, fault: Mapping[str, Any]) -> None:
        """Send what a row of recorded.jsonl has, byte by byte, and close.

        A connection that was reset was closed while the request was still being sent. It is reset
        here too, for the request was not read.
        """
        self.close_connection = True
        named = [f"{name}: {value}" for name, value in fault["headers"]]
        head = "\r\n".join([fault["line"], *named, "", ""]) if fault["line"] else ""
        self.wfile.write((head + fault["body"]).encode("latin-1"))

    def fail(self, fault: str) -> None:
        """Do what the script says instead of answering."""
        output = {
            "no_json": b"<html>busy</html>",
            "no_object": b"[1, 2]",
            "no_choices": b'{"choices": []}',
            "empty": chosen(""),
            "null": chosen(None),
            "huge": chosen("x" * HUGE),
            "endless": b" " * (33 * 2**20),
            "wrong_model": {**chosen("a"), "model": "another"},
        }
        if fault in output:
            return self.say(200, output[fault])
        if fault == "302":
            return self.say(302, b"", Location="http://127.0.0.1:9/v1")
        if fault.isdigit():
            after = {"Retry_After": self.served.retry_after} if self.served.retry_after else {}
            return self.say(int(fault), {"error": {"message": f"fault {fault}"}}, **after)
        self.close_connection = True
        if fault == "hang":
            self.served.released.wait(60)
        elif fault == "trickle":
            self.trickle()
        elif fault == "closes_half_way":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
        elif fault == "garbage":
            chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            self.wfile.write(chunked + b"zz\r\n\xff\x00")
        elif fault == "closes":
            # A reset, not an end: what is left unsent is thrown away.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return None

    def trickle(self) -> None:
        """A byte now and then: each read succeeds, and the answer never comes."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not self.served.released.wait(0.05):
            try:
                self.wfile.write(b" ")
                self.wfile.flush()
            except OSError:
                return


def chosen(text: str | None, **usage: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


def completion(response: ChatResponse, plain: dict[str, Any], model: str) -> dict[str, Any]:
    """A chat's response as a completion; what it was made to begin with is not said again."""
    last = plain["messages"][-1]
    prefix = last["content"] if last["role"] == "assistant" else ""
    output = chosen(
        response.text.removeprefix(prefix),
        prompt_tokens=response.prompt_tokens,
        completion_tokens=response.completion_tokens,
        total_tokens=response.prompt_tokens + response.completion_tokens,
    )
    output["choices"][0]["finish_reason"] = "length" if response.cut else "stop"
    return {"id": "1", "object": "chat.completion", "created": 0, "model": model, **output}


def with_observation(answer: dict[str, Any], seen: Observation, told: set[str]) -> dict[str, Any]:
    """An answer with the tokens and log-probabilities that were asked for."""
    (choice,) = answer["choices"]
    if "logprobs" in told and seen.logprobs is not None:
        rows = [{"token": "", "logprob": value} for value in seen.logprobs.tolist()]
        choice["logprobs"] = {"content": rows}
    if "return_token_ids" in told:
        choice["token_ids"] = list(seen.response.tokens)
        answer["prompt_token_ids"] = None if seen.prompt is None else list(seen.prompt)
    return answer


def is_time(text: str, after: Mapping[str, Any]) -> bool:
    """True of the time of the frame that comes next."""
    return after["type"] == "image_url" and bool(re.fullmatch(r"<\d+\.\d seconds>", text))


def request_of(plain: dict[str, Any]) -> ChatRequest:
    """The request in a body; ValueError where it is not in the form."""
    messages = {message["role"]: message["content"] for message in plain["messages"]}
    parts = [
        part
        for part, after in zip_longest(messages["user"], messages["user"][1:])
        if not (part["type"] == "text" and after and is_time(part["text"], after))
    ]
    kinds = [part["type"] for part in parts]
    if kinds.count("text") != 1 or kinds[-1] != "text":
        raise ValueError(f"expected media, then one text, found {kinds}")
    times = plain.get("media_io_kwargs", {}).get("video", {})
    media = [medium(part, times) for part in parts[:-1]]
    if "assistant" in messages and plain.get("continue_final_message") is not True:
        raise ValueError("an assistant's message that is not to be gone on from")
    return ChatRequest(
        key=str(plain.get("seed", uuid4())),  # without a seed each response is drawn anew
        text=parts[-1]["text"],
        media=tuple(one for one, _ in media),
        frames=tuple(frames for _, frames in media),
        system=messages.get("system"),
        prefix=messages.get("assistant", ""),
        max_new_tokens=plain.get("max_tokens") or plain["max_completion_tokens"],
        stop=stops(plain),
        temperature=plain.get("temperature"),
    )


def stops(plain: dict[str, Any]) -> tuple[str, ...]:
    """The stop strings of a body: one, or several; OpenAI itself takes four."""
    given = plain.get("stop") or ()
    several = (given,) if isinstance(given, str) else tuple(given)
    if "max_completion_tokens" in plain and len(several) > 4:
        raise ValueError(f"expected at most 4 stop sequences, found {len(several)}")
    return several


def medium(part: dict[str, Any], times: dict[str, Any]) -> tuple[Media, tuple[int, ...]]:
    """An image, or a clip whose frames come one by one, and the frames of it that are shown."""
    kind, _, data = part[part["type"]]["url"].partition(";base64,")
    files = [base64.b64decode(one, validate=True) for one in data.split(",")]
    if kind != "data:video/jpeg":
        if kind not in ("data:image/png", "data:image/jpeg") or len(files) != 1:
            raise ValueError(f"an image as {kind}")
        return image_bytes(files[0], "sent"), (0,)
    if times["num_frames"] != -1:
        raise ValueError("frames would be left out")
    frames = [np.asarray(Image.open(io.BytesIO(file)).convert("RGB")) for file in files]
    places = tuple(times["frames_indices"])
    held = dict(zip(places, frames, strict=True))
    unseen = np.zeros_like(frames[0])
    whole = [held.get(index, unseen) for index in range(times["total_num_frames"])]
    moments = [index / times["fps"] for index in range(len(whole))]
    return pixels(whole, times=moments, is_video=True, id="sent"), places


class Server(ThreadingHTTPServer):
    """Says nothing of a client that has heard enough and hung up."""

    request_queue_size = (
        128  # connections that wait; of more than five at once the kernel drops some
    )

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(
    chat: Chat, *, faults: Iterable[Fault] = (), port: int = 0, **given: Any
) -> Iterator[Served]:
    """A server that runs as long as the context does; `url` is where."""
    served = Served(chat, faults=iter(faults), **given)
    handler = type("Bound", (Handler,), {"served": served})
    server = Server(("127.0.0.1", port), handler)
    server.daemon_threads = True
    server.block_on_close = False
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        served.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Scripted(Chat):
    """A network that needs none: its response is a digest of all that it was shown and told."""

    batch_size: int = 4
    coordinates: str = "pixels"
    ignores: frozenset[str] = frozenset()
    """Of text, media, system, prefix, limit, stop: what a broken server would not look at."""
    slowly: Callable[[], None] = lambda: None

    def describe(self) -> dict[str, Any]:
        return {"backend": "scripted"}

    def generate(self, requests: Any) -> list[ChatResponse]:
        self.slowly()
        return [self._response(request) for request in requests]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return request.resize or request.media[0].size

    def count_tokens(self, text: str) -> int:
        return len(text)

    def _response(self, request: ChatRequest) -> ChatResponse:
        from hashlib import blake2b

        seen = {
            "text": request.text,
            "system": request.system,
            "prefix": request.prefix,
            "limit": request.max_new_tokens,
            "media": [digests(media, request, place) for place, media in enumerate(request.media)],
        }
        kept = [seen[name] for name in sorted(seen) if name not in self.ignores]
        text = blake2b(repr(kept).encode(), digest_size=8).hexdigest()
        stop = () if "stop" in self.ignores else request.stop
        written = next((text[:end] for end in range(17) if text[:end].endswith(stop)), text)
        met = max((len(one) for one in stop if written.endswith(one)), default=0)
        return ChatResponse(
            text=f"{request.prefix}{written[: len(written) - met]}",
            prompt_tokens=len(request.text),
            completion_tokens=len(written),
        )


def digests(media: Media, request: ChatRequest, place: int) -> list[str]:
    """Hashes of the frames shown of a medium, as they reach a network."""
    from hashlib import blake2b

    from harness.models.backends.shown_media import frames_shown, squashed

    frames = (
        squashed(media.frame(one), request.squash(place)) for one in frames_shown(request, place)
    )
    return [blake2b(f"{one.shape}".encode() + one.tobytes()).hexdigest() for one in frames]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--model", default="served")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    from harness.models.backends.transformers import transformers

    chat = transformers(checkpoint=given.checkpoint)
    chat.prepare()
    with serving(chat, model=given.model, port=given.port, tells=TELLS) as served:
        print(f"{given.model} at {served.url}")
        threading.Event().wait()


if __name__ == "__main__":
    main()
