"""The node `child`: another node in a process of its own, on a GPU or within a memory of its own.

The process receives pixels and the outputs of other nodes as numbers, and no path. When it ends
or is killed, as a node that takes too long is, the next medium gets a new one.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from harness import plugins
from harness.errors import ModelError, OutOfMemory, Unavailable, UsageError
from harness.media import Media
from harness.models.nodes.messages import receive, send
from harness.models.nodes.output_file import read_output, write_output
from harness.models.propagators.child import environment
from harness.node import Node, Output
from harness.spec import Spec

LAST_WORDS = 400  # characters of a process' error output that an error quotes


@dataclass(kw_only=True)
class Child(Node):
    """A node whose work another process does. Its outputs are those of the node itself."""

    node: Spec
    gpu: int | None
    memory: float | None
    _process: "subprocess.Popen[bytes] | None" = None
    _owner: int = 0
    _stderr: BinaryIO | None = None
    _described: dict[str, Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.name

    @property
    def devices(self) -> tuple[str, ...]:
        """The GPU of the process."""
        return () if self.gpu is None else (f"cuda:{self.gpu}",)

    def describe(self) -> Mapping[str, Any]:
        """The description of the node itself, so that where it ran makes no difference."""
        with self._lock:
            if not self._described:
                self._start()
        return self._described

    def prepare(self) -> None:
        """Start the process and load what the node loads."""
        with self._lock:
            self._start()
            self._exchange({"do": "prepare"}, None)

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Output:
        """Run the node; the process asks for the frames that it decodes."""
        with self._lock:
            self._start()
            given = [write_output(one) for one in inputs]
            head = {
                "do": "run",
                "id": media.id,
                "size": media.size,
                "times": list(media.times()),
                "is_video": media.is_video,
                "indices": list(indices),
                "inputs": [len(one) for one in given],
            }
            return read_output(self._exchange(head, media, b"".join(given)))

    def close(self) -> None:
        """Kill the process, from any thread; one that waits for it gets an error."""
        process = self._process
        if process is not None:
            process.kill()
        if self._lock.acquire(blocking=False):
            try:
                self._tidy()
            finally:
                self._lock.release()

    def __del__(self) -> None:
        """End the process where nobody did; not from a fork, whose parent may still use it.

        A process that is dropped while it runs keeps its pipes, and would wait for the next medium.
        """
        if self._process is not None and self._owner == os.getpid():
            self._end()

    def _end(self) -> None:
        """Kill the process, while no other thread uses it."""
        if self._process is not None:
            self._process.kill()
        self._tidy()

    def _tidy(self) -> None:
        """Close what leads to a process that has ended."""
        if self._process is not None:
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._stderr):
                if stream is not None:
                    stream.close()
        self._process = self._stderr = None

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._tidy()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        variables = environment()
        if self.gpu is not None:
            variables["CUDA_VISIBLE_DEVICES"] = str(self.gpu)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.models.nodes.child_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=variables,
            bufsize=0,
        )
        self._owner = os.getpid()
        head = {"do": "build", "node": str(self.node), "memory": self.memory}
        try:
            self._described = json.loads(self._exchange(head, None))
        except BaseException:  # it has no node, and would be taken for one that has
            self._end()
            raise

    def _exchange(self, head: Mapping[str, Any], media: Media | None, data: bytes = b"") -> bytes:
        """Send a message, answer the questions for frames, and return the answer's bytes."""
        assert self._process is not None and self._process.stdin is not None
        assert self._process.stdout is not None
        write, read = _writer(self._process.stdin), self._process.stdout.read
        try:
            send(write, head, data)
            while True:
                answer, rest = receive(lambda size: read(size) or b"")
                if "frame" in answer and media is not None:
                    try:
                        frame = np.ascontiguousarray(media.frame(int(answer["frame"])))
                    except BaseException:  # it waits for the frame, and would take the next message
                        self._end()
                        raise
                    send(write, {"shape": list(frame.shape)}, frame.tobytes())
                elif "error" in answer:
                    raise _error(self.node.name, answer)
                else:
                    return rest
        except (OSError, EOFError, ValueError, KeyError) as error:
            if self._process is None:
                raise  # a frame cannot be decoded: the process is no part of that
            self._process.kill()
            code, words = self._process.wait(), self._last_words()
            self._tidy()
            raise ModelError(
                f"process of node {self.node.name}",
                expected="an answer",
                found=f"it ended ({code}): {words}",
            ) from error

    def _last_words(self) -> str:
        assert self._stderr is not None
        self._stderr.seek(0)
        text = self._stderr.read().decode("utf-8", "replace")
        return " ".join(text[-LAST_WORDS:].split()) or "it wrote nothing"


def child(*, node: Spec, gpu: int | None = None, memory: float | None = None) -> Child:
    """Run another node in a process of its own.

    Args:
        node: Which one, such as sam2(checkpoint=…).
        gpu: Number of the only GPU that it sees; None: as this process.
        memory: GiB of addresses that it may use, for nodes on the CPU; None: as many as there are.

    Raises:
        UsageError: the node is a process itself, or the memory is no number above 0.
    """
    if node.name == "child":
        raise UsageError("child(node=…)", expected="a node that is no process", found="child")
    if memory is not None and not 0 < memory < float("inf"):
        raise UsageError("child(memory=…)", expected="GiB, more than 0", found=str(memory))
    plugins.load("nodes", node.name)
    return Child(node=node, gpu=gpu, memory=memory)


def _writer(stream: Any) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(stream.fileno(), left) :]

    return write


def _error(name: str, answer: Mapping[str, Any]) -> Exception:
    kind = {"memory": OutOfMemory, "unavailable": Unavailable}.get(answer.get("kind", ""))
    return (kind or ModelError)(f"node {name}: {answer['error']}")
