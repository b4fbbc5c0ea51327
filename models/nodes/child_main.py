"""The program of the process that runs one perception node for its parent (`child.py`).

Messages are `{"do": "build" | "prepare" | "run", …}`. While it runs, the node requests frames of
the medium from the parent.
"""

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from harness import plugins
from harness.errors import OutOfMemory, Unavailable
from harness.media import Frame, Media
from harness.models.child_process import Channel, parent
from harness.models.nodes.output_file import read_output, write_output
from harness.node import Node

GIBIBYTE = 2**30


class _ParentFrame:
    """A frame of `Media` that is loaded by a request to the parent."""

    def __init__(self, request: Callable[[int], Frame], id: str, index: int) -> None:
        self._request, self._id, self._index = request, id, index

    @property
    def key(self) -> str:
        return f"parent:{self._id}:{self._index}"

    def __call__(self) -> Frame:
        return self._request(self._index)


class _MediaId:
    """The digest of `Media`: the content id that the parent sent."""

    def __init__(self, id: str) -> None:
        self._id = id

    def __call__(self) -> str:
        return self._id

    def weight(self) -> int:
        return 0


class Server:
    """Answers messages until the parent is gone."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._node: Node | None = None

    def serve(self) -> None:
        """Answer one message after another."""
        while True:
            try:
                head, data = self._channel.receive()
            except EOFError:
                return
            try:
                answer = self._answer(head, data)
            except (MemoryError, OutOfMemory):
                self._channel.send({"error": "it ran out of memory", "kind": "memory"})
            except Unavailable as error:
                self._channel.send({"error": str(error), "kind": "unavailable"})
            except (Exception, SystemExit) as error:  # noqa: BLE001 - reported to the parent
                self._channel.send({"error": plugins.describe_error(error)})
            else:
                self._channel.send({}, answer)

    def _answer(self, head: dict[str, Any], data: bytes) -> bytes:
        """Carry out a message; return the node's description, nothing, or the encoded output."""
        if head["do"] == "build":
            _limit_memory(head["memory"])
            self._node = plugins.build("nodes", head["node"])
            assert self._node is not None
            return json.dumps(dict(self._node.describe()), default=str).encode()
        assert self._node is not None, "it is built first"
        if head["do"] == "prepare":
            self._node.prepare()
            return b""
        inputs = []
        for size in head["inputs"]:
            inputs.append(read_output(data[:size]))
            data = data[size:]
        media = Media(
            [_ParentFrame(self._frame, head["id"], index) for index in range(len(head["times"]))],
            size=(head["size"][0], head["size"][1]),
            times=head["times"],
            digest=_MediaId(head["id"]),
            is_video=head["is_video"],
        )
        return write_output(self._node.run_for(media, head["indices"], inputs, head["phrases"]))

    def _frame(self, index: int) -> Frame:
        """Request a frame from the parent; return it as height × width × 3, uint8, RGB."""
        with self._lock:
            self._channel.send({"frame": index})
            head, data = self._channel.receive()
        return np.frombuffer(data, np.uint8).reshape(head["shape"]).copy()


def _limit_memory(gibibytes: float | None) -> None:
    """Limit the address space of this process; None sets no limit."""
    if gibibytes is not None:
        import resource

        limit = int(gibibytes * GIBIBYTE)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    Server(parent()).serve()
