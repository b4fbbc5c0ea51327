"""Processes that run a plugin's code for this one, and the messages between the two.

A message is a line of JSON that says how many bytes follow it, and those bytes. Nothing is
unpickled. The process gets no variables that look like secrets; an answer of its own with `error`
is raised here.
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

SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
TOLD = 1500  # characters of what the process said before it ended
LONGEST = 1 << 26  # bytes of a line; it has the time of every frame of a video
KINDS: Mapping[str, type[HarnessError]] = {"memory": OutOfMemory, "unavailable": Unavailable}
"""Errors that are not the code's own, by the `kind` in an answer."""

Message = tuple[dict[str, Any], bytes]


class Channel:
    """One side's messages, over two file descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target, self._left = source, target, b""

    def send(self, head: Mapping[str, object], data: bytes | memoryview = b"") -> None:
        """Write a message."""
        line = json.dumps({**head, "bytes": len(data)}).encode() + b"\n"
        for part in (memoryview(line), memoryview(data)):
            while part:
                part = part[os.write(self._target, part) :]

    def receive(self, timeout: float | None = None) -> Message:
        """Read a message, within `timeout` seconds.

        Raises:
            EOFError: the other side has ended.
            TimeoutError: it takes longer.
            ValueError: what it wrote is not a message.
        """
        until = None if timeout is None else monotonic() + timeout
        while b"\n" not in self._left:
            if len(self._left) > LONGEST:
                raise ValueError("a line that is too long")
            self._left += self._more(until)
        line, rest = self._left.split(b"\n", 1)
        try:
            head: dict[str, Any] = json.loads(line)
        except RecursionError as error:
            raise ValueError("a line that is nested too deeply") from error
        length = head.get("bytes") if isinstance(head, dict) else None
        if type(length) is not int or length < 0:
            raise ValueError("a line that is not a message")
        parts, held = [rest], len(rest)
        while held < head["bytes"]:
            parts.append(self._more(until))
            held += len(parts[-1])
        whole = b"".join(parts)
        self._left = whole[head["bytes"] :]
        return head, whole[: head["bytes"]]

    def _more(self, until: float | None) -> bytes:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._source, selectors.EVENT_READ)
            if not waiting.select(None if until is None else max(0.0, until - monotonic())):
                raise TimeoutError
        data = os.read(self._source, 1 << 20)
        if not data:
            raise EOFError("the other side has ended")
        return data


def parent() -> Channel:
    """Return the channel to the parent; what code prints goes to the standard error from now on."""
    target = os.dup(1)
    os.dup2(2, 1)
    return Channel(0, target)


class ChildProcess:
    """A process of `python -m module`, which is killed when nothing refers to this any more.

    Args:
        module: What it runs; it talks by `parent()`.
        what: What errors are blamed on.
        timeout: Seconds that an answer may take; None: any time.
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
        """For callers whose messages belong together."""
        self._said: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as it
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**environment(), **(variables or {})},
            bufsize=0,
        )
        assert self.process.stdin is not None and self.process.stdout is not None, "pipes"
        self._channel = Channel(self.process.stdout.fileno(), self.process.stdin.fileno())
        weakref.finalize(self, _end, self.process, self._said, os.getpid())

    def ask(self, head: Mapping[str, object], data: bytes | memoryview = b"") -> Message:
        """Send a message and return the answer.

        Raises:
            ModelError: the process has ended or does not answer, or the code failed.
            OutOfMemory, Unavailable: that is what the process says.
        """
        try:
            with suppress(OSError):  # it has ended; what it said of that is read below
                self._channel.send(head, data)
            answer, rest = self._channel.receive(self.timeout)
        except TimeoutError as error:
            self.process.kill()
            expected = f"an answer within {self.timeout:g} s"
            raise ModelError(self.what, expected=expected, found="none") from error
        except (OSError, EOFError, ValueError, KeyError) as error:
            self.process.kill()
            reason = f"its process ended ({self.process.wait()}): {self._last_words()}"
            raise ModelError(self.what, expected="an answer", found=reason) from error
        if "error" in answer:
            raise KINDS.get(answer.get("kind", ""), ModelError)(f"{self.what}: {answer['error']}")
        return answer, rest

    def _last_words(self) -> str:
        self._said.seek(0)
        text = self._said.read().decode("utf-8", "replace")
        return " ".join(text[-TOLD:].split()) or "it said nothing"


def _end(process: "subprocess.Popen[bytes]", said: BinaryIO, owner: int) -> None:
    """End a process, and close what leads to it; not from a fork, whose parent may still use it."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, said):
        if stream is not None:
            stream.close()


def environment() -> dict[str, str]:
    """The variables of this process but for secrets; no bytecode is written beside other code."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in SECRET)
    }
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}
