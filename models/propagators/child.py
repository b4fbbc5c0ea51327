"""Process that runs a checkout's code, seen from its parent: requests and responses."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, BinaryIO

import numpy as np

from harness.errors import ModelError, OutOfMemory
from harness.masks import BoolArray
from harness.media import Media
from harness.models.propagators.cores import Labels

SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
TOLD = 1500  # characters of what the process said before it ended


class Child:
    """The child process and its pipe. One propagation at a time."""

    def __init__(self, what: str, settings: Mapping[str, object], *, timeout: float) -> None:
        self.what, self.timeout = what, timeout
        self.lock = threading.Lock()
        self.said: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as it
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.models.propagators.checkout_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env=environment(),
            bufsize=0,
        )
        weakref.finalize(self, _end, self.process, self.said)
        self.left = b""
        self._request(settings)

    def walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Labels]]:
        """Each frame of `order` after the first, and the labels (height × width) in it."""
        shape = (len(masks), video.size[1], video.size[0])
        with self.lock:
            head = {"what": "masks", "shape": shape, "frames": len(order)}
            self._request(head, np.stack(masks).view(np.uint8).reshape(-1).data)
            for index in order:
                frame = video.frame(index)
                header = {"what": "frame", "shape": frame.shape, "last": index == order[-1]}
                labels = self._request(header, np.ascontiguousarray(frame).tobytes())
                if index != order[0]:
                    yield index, self._labels(labels, shape)

    def _labels(self, data: bytes, shape: tuple[int, int, int]) -> Labels:
        if len(data) != shape[1] * shape[2]:
            raise ModelError(
                self.what,
                expected=f"labels of {shape[1]} × {shape[2]} pixels",
                found=f"{len(data)} of them",
            )
        return np.frombuffer(data, np.uint8).reshape(shape[1:])

    def _request(self, head: Mapping[str, object], data: bytes | memoryview = b"") -> bytes:
        """Send a message; the data of its answer."""
        line = json.dumps({**head, "bytes": len(data)}).encode() + b"\n"
        assert self.process.stdin is not None, "it is a pipe"
        try:
            for part in (line, memoryview(data)):
                sent = 0
                while sent < len(part):
                    sent += self.process.stdin.write(part[sent:])
        except OSError:
            pass  # it has ended; what it said of that is read below
        answer, rest = self._answer()
        if "error" in answer:
            kind = OutOfMemory if answer.get("memory") else ModelError
            raise kind(self.what, expected="code that works", found=str(answer["error"]))
        return rest

    def _answer(self) -> tuple[dict[str, object], bytes]:
        until = monotonic() + self.timeout
        while b"\n" not in self.left:
            self.left += self._read_more(until)
        line, self.left = self.left.split(b"\n", 1)
        head: dict[str, Any] = json.loads(line)
        parts, held = [self.left], len(self.left)
        while held < head["bytes"]:
            parts.append(self._read_more(until))
            held += len(parts[-1])
        whole = b"".join(parts)
        self.left = whole[head["bytes"] :]
        return head, whole[: head["bytes"]]

    def _read_more(self, until: float) -> bytes:
        assert self.process.stdout is not None, "it is a pipe"
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            ready = waiting.select(max(0.0, until - monotonic()))
        if not ready:
            self.process.kill()
            raise ModelError(
                self.what, expected=f"an answer within {self.timeout:g} s", found="none"
            )
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        if not data:
            self.process.wait()
            raise ModelError(
                self.what,
                expected="an answer",
                found=f"its process ended ({self.process.returncode}): {self._last_words()}",
            )
        return data

    def _last_words(self) -> str:
        self.said.seek(0)
        text = self.said.read().decode("utf-8", "replace")
        return " ".join(text[-TOLD:].split()) or "it said nothing"


def _end(process: "subprocess.Popen[bytes]", output: BinaryIO) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    output.close()


def environment() -> dict[str, str]:
    """The variables of this process but for secrets; no bytecode is written into the checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in SECRET)
    }
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}
