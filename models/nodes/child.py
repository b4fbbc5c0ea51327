"""The node `child`: another node in a process of its own, on a GPU or within a memory of its own.

The process receives pixels and the outputs of other nodes as numbers, and no path. When it ends
or is killed, as a node that takes too long is, the next medium gets a new one.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness import plugins
from harness.errors import UsageError
from harness.media import Media
from harness.models.child_process import ChildProcess
from harness.models.nodes.output_file import read_output, write_output
from harness.node import Node, Output
from harness.spec import Spec


@dataclass(kw_only=True)
class Child(Node):
    """A node whose work another process does. Its outputs are those of the node itself."""

    node: Spec
    gpu: int | None
    memory: float | None
    _process: ChildProcess | None = None
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
        """Return the node's own description: a record does not depend on where the node ran."""
        with self._lock:
            if not self._described:
                self._started()
        return self._described

    @property
    def by_question(self) -> bool:  # type: ignore[override]
        """True if the node looks for what a question names."""
        return bool(self.describe().get("by_question"))

    def prepare(self) -> None:
        """Start the process and load what the node loads."""
        with self._lock:
            self._started().ask({"do": "prepare"})

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Output:
        """Run the node without phrases."""
        return self.run_for(media, indices, inputs, ())

    def run_for(
        self,
        media: Media,
        indices: Sequence[int],
        inputs: Sequence[Output],
        phrases: Sequence[str],
    ) -> Output:
        """Run the node; the process asks for the frames that it decodes."""
        given = [write_output(output) for output in inputs]
        head = {
            "do": "run",
            "id": media.id,
            "size": media.size,
            "times": list(media.times()),
            "is_video": media.is_video,
            "indices": list(indices),
            "inputs": [len(written) for written in given],
            "phrases": list(phrases),
        }
        with self._lock:
            process = self._started()
            answer, data = process.ask(head, b"".join(given))
            while "frame" in answer:
                try:
                    frame = np.ascontiguousarray(media.frame(int(answer["frame"])))
                except BaseException:  # it waits for the frame, and would take the next message
                    self.close()
                    raise
                answer, data = process.ask({"shape": list(frame.shape)}, frame.tobytes())
            return read_output(data)

    def close(self) -> None:
        """Kill the process, from any thread; one that waits for it gets an error."""
        process, self._process = self._process, None
        if process is not None:
            process.process.kill()

    def _started(self) -> ChildProcess:
        known = self._process
        if known is not None and known.process.poll() is None:
            return known
        gpu = {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": str(self.gpu)}
        main, what = "harness.models.nodes.child_main", f"node {self.node.name}"
        self._process = process = ChildProcess(main, what, variables=gpu)
        try:
            head = {"do": "build", "node": str(self.node), "memory": self.memory}
            self._described = json.loads(process.ask(head)[1])
        except BaseException:  # it has no node, and would be taken for one that has
            self.close()
            raise
        return process


def child(*, node: Spec, gpu: int | None = None, memory: float | None = None) -> Child:
    """Run another node in a process of its own.

    Args:
        node: Which one, such as sam2(checkpoint=…).
        gpu: Number of the only GPU that it sees; None: as this process.
        memory: GiB of addresses that it may use, for nodes on the CPU; None: as many as there are.

    Raises:
        UsageError: the node is a process itself, or the memory is not a number above 0.
    """
    if node.name == "child":
        raise UsageError("child(node=…)", expected="a node other than child", found="child")
    if memory is not None and not 0 < memory < float("inf"):
        raise UsageError("child(memory=…)", expected="GiB, more than 0", found=str(memory))
    plugins.load("nodes", node.name)
    return Child(node=node, gpu=gpu, memory=memory)
