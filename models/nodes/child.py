"""The node `child`: runs another node in a separate process, with its own GPU or memory limit.

The process receives pixels and the outputs of other nodes as bytes; it receives no paths. A node
that takes too long is killed. After a process has ended, the next medium starts a new one.
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
    """A node that another process runs; the outputs are those of the node itself."""

    node: Spec
    gpu: int | None
    """Index of the only GPU that the process sees; None: all."""
    memory: float | None
    """Limit of the process's address space in GiB; None: no limit."""
    _process: ChildProcess | None = None
    _described: dict[str, Any] = field(default_factory=dict)
    """The node's own description; empty until a process was started."""
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
        """Return the node's own description, so that a record does not depend on the process."""
        with self._lock:
            if not self._described:
                self._running_process()
        return self._described

    @property
    def by_question(self) -> bool:  # type: ignore[override]
        """True if the node uses the phrases of a question."""
        return bool(self.describe().get("by_question"))

    def prepare(self) -> None:
        """Start the process and load the node's weights."""
        with self._lock:
            self._running_process().ask({"do": "prepare"})

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
        """Run the node for a question with `phrases`; send the process the frames it requests."""
        encoded_inputs = [write_output(output) for output in inputs]
        head = {
            "do": "run",
            "id": media.id,
            "size": media.size,
            "times": list(media.times()),
            "is_video": media.is_video,
            "indices": list(indices),
            "inputs": [len(encoded) for encoded in encoded_inputs],
            "phrases": list(phrases),
        }
        with self._lock:
            process = self._running_process()
            answer, data = process.ask(head, b"".join(encoded_inputs))
            while "frame" in answer:
                try:
                    frame = np.ascontiguousarray(media.frame(int(answer["frame"])))
                except BaseException:  # the process would take the next message for the frame
                    self.close()
                    raise
                answer, data = process.ask({"shape": list(frame.shape)}, frame.tobytes())
            return read_output(data)

    def close(self) -> None:
        """Kill the process, from any thread; a thread that waits for its answer gets an error."""
        process, self._process = self._process, None
        if process is not None:
            process.process.kill()

    def _running_process(self) -> ChildProcess:
        """Return the running process; start one and build the node if there is none."""
        running = self._process
        if running is not None and running.process.poll() is None:
            return running
        variables = {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": str(self.gpu)}
        main, what = "harness.models.nodes.child_main", f"node {self.node.name}"
        self._process = process = ChildProcess(main, what, variables=variables)
        try:
            head = {"do": "build", "node": str(self.node), "memory": self.memory}
            self._described = json.loads(process.ask(head)[1])
        except BaseException:  # else a process without a node would be reused
            self.close()
            raise
        return process


def child(*, node: Spec, gpu: int | None = None, memory: float | None = None) -> Child:
    """Run another node in a process of its own.

    Args:
        node: The node to run, such as sam2(checkpoint=…).
        gpu: Index of the only GPU that the process sees; None: the same GPUs as this process.
        memory: Limit of the process's address space in GiB, for nodes on the CPU; None: no limit.

    Raises:
        UsageError: the node is a process itself, or the memory is not a number above 0.
    """
    if node.name == "child":
        raise UsageError("child(node=…)", expected="a node other than child", found="child")
    if memory is not None and not 0 < memory < float("inf"):
        raise UsageError("child(memory=…)", expected="GiB, more than 0", found=str(memory))
    plugins.load("nodes", node.name)
    return Child(node=node, gpu=gpu, memory=memory)
