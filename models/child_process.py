"""Run a plugin's code in a child process, and exchange messages with it over pipes.

A message is one line of JSON, which says how many bytes follow it, and those bytes (pixels, masks).
Nothing is unpickled. The child's environment has no variables that look like secrets; an answer
with `error` becomes an exception here. Perception nodes and the propagators of a checkout run in
such a child, so that a crash of their code fails one sample and not the run.
"""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, BinaryIO

from harness.errors import HarnessError, ModelError, OutOfMemory, Unavailable

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")  # in names of variables
QUOTED_CHARACTERS = 1500  # characters of the standard error that are quoted when the process ends
MAX_LINE_BYTES = 1 << 26  # bytes of a JSON line; it may hold the time of every frame of a video
ERROR_TYPES: Mapping[str, type[HarnessError]] = {"memory": OutOfMemory, "unavailable": Unavailable}
"""Exceptions for an answer with `error`, by its `kind`; any other kind is a ModelError."""

Message = tuple[dict[str, Any], bytes]
"""The head (the JSON object) and the bytes after it."""


class Channel:
    """Sends and receives messages over two file descriptors: one to read, one to write."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._unread = b""
        """Bytes that were read but belong to the next message."""

    def send(self, head: Mapping[str, object], data: bytes | memoryview = b"") -> None:
        """Write a message."""
        line = json.dumps({**head, "bytes": len(data)}).encode() + b"\n"
        for part in (memoryview(line), memoryview(data)):
            while part:  # `os.write` may write only the beginning
                part = part[os.write(self._target, part) :]

    def receive(self, timeout: float | None = None) -> Message:
        """Read a message, within `timeout` seconds.

        Raises:
            EOFError: the other side has ended.
            TimeoutError: the message took longer.
            ValueError: the other side wrote something that is not a message.
        """
        deadline = None if timeout is None else monotonic() + timeout
        while b"\n" not in self._unread:
            if len(self._unread) > MAX_LINE_BYTES:
                raise ValueError("a line that is too long")
            self._unread += self._read_more(deadline)
        line, after_line = self._unread.split(b"\n", 1)
        try:
            head: dict[str, Any] = json.loads(line)
        except RecursionError as error:
            raise ValueError("a line that is nested too deeply") from error
        length = head.get("bytes") if isinstance(head, dict) else None
        if type(length) is not int or length < 0:
            raise ValueError("a line that is not a message")
        parts, received = [after_line], len(after_line)
        while received < length:
            parts.append(self._read_more(deadline))
            received += len(parts[-1])
        received_bytes = b"".join(parts)
        self._unread = received_bytes[length:]
        return head, received_bytes[:length]

    def _read_more(self, deadline: float | None) -> bytes:
        """Return the next bytes, at least one; TimeoutError after `deadline` (`monotonic`)."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._source, selectors.EVENT_READ)
            if not selector.select(None if deadline is None else max(0.0, deadline - monotonic())):
                raise TimeoutError
        data = os.read(self._source, 1 << 20)
        if not data:
            raise EOFError("the other side has ended")
        return data


def parent() -> Channel:
    """Return the child's channel to its parent.

    The channel takes over the standard output; what code prints goes to the standard error.
    """
    target = os.dup(1)
    os.dup2(2, 1)
    return Channel(0, target)


class ChildProcess:
    """A process of `python -m module`, killed when this object is no longer referenced.

    Args:
        module: Module to run; it answers messages over `parent()`.
        what: Name of the part in errors.
        timeout: Seconds that an answer may take; None: unlimited.
        variables: More environment variables.
    """

    def __init__(
        self,
        module: str,
        what: str,
        *,
        timeout: float | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.what, self.timeout = what, timeout
        self.lock = threading.Lock()
        """Held by a caller whose messages must not be mixed with those of other threads."""
        self._stderr: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - open while it runs
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**environment(), **(variables or {})},
            bufsize=0,
        )
        assert self.process.stdin is not None and self.process.stdout is not None, "pipes"
        self._channel = Channel(self.process.stdout.fileno(), self.process.stdin.fileno())
        weakref.finalize(self, _end, self.process, self._stderr, os.getpid())

    def ask(self, head: Mapping[str, object], data: bytes | memoryview = b"") -> Message:
        """Send a message and return the answer.

        Raises:
            ModelError: the process has ended or does not answer, or the code failed.
            OutOfMemory, Unavailable: the process answered with an error of that kind.
        """
        try:
            with suppress(OSError):  # the process has ended; `receive` then raises EOFError
                self._channel.send(head, data)
            answer, payload = self._channel.receive(self.timeout)
        except TimeoutError as error:
            self.process.kill()
            expected = f"an answer within {self.timeout:g} s"
            raise ModelError(self.what, expected=expected, found="none") from error
        except (OSError, EOFError, ValueError, KeyError) as error:
            self.process.kill()
            reason = f"its process ended ({self.process.wait()}): {self._end_of_stderr()}"
            raise ModelError(self.what, expected="an answer", found=reason) from error
        if "error" in answer:
            raise ERROR_TYPES.get(answer.get("kind", ""), ModelError)(
                f"{self.what}: {answer['error']}"
            )
        return answer, payload

    def _end_of_stderr(self) -> str:
        """Return the end of what the process wrote to its standard error, on one line."""
        self._stderr.seek(0)
        text = self._stderr.read().decode("utf-8", "replace")
        return " ".join(text[-QUOTED_CHARACTERS:].split()) or "it said nothing"


def _end(process: "subprocess.Popen[bytes]", stderr: BinaryIO, owner: int) -> None:
    """Kill a process and close its streams; in a fork of `owner` (a process id), do nothing."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, stderr):
        if stream is not None:
            stream.close()


def environment() -> dict[str, str]:
    """Return this process's environment variables without secrets, for a child process.

    The child writes no bytecode, which would land beside other people's code.
    """
    harmless = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in SECRET_WORDS)
    }
    return {**harmless, "PYTHONDONTWRITEBYTECODE": "1"}
