"""Cache the outputs of perception nodes: in memory up to a limit, and optionally in a folder.

The key of an output is a hash of the medium, the frames described, the node with its settings and
code, and the keys of its inputs. So rollouts with different plans share the outputs that their
plans have in common; threads that need the same output at once wait for one computation.
"""

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError, UsageError
from harness.files import read_bytes
from harness.models.nodes.output_file import held_bytes, read_output, write_output
from harness.node import Output

MEBIBYTE = 2**20
OUTPUTS = "outputs"
"""Name of the folder of outputs within the folder that `harness twin build` fills."""


@dataclass(frozen=True, slots=True)
class NodeFault:
    """The reason why a node gave no output."""

    reason: str
    """The reason in one line, without paths."""
    infrastructure: bool = False
    """True if a server or machine failed, so that a second attempt may succeed."""


class OutputCache:
    """Outputs and faults by key.

    It may be used from several threads, and its folder from several processes. The outputs used
    least recently leave the memory first.
    """

    def __init__(self, max_bytes: int = 512 * MEBIBYTE, folder: Path | None = None) -> None:
        self.max_bytes, self.folder = max_bytes, folder
        self._held: OrderedDict[str, tuple[Output | NodeFault, int]] = OrderedDict()
        """(output, its bytes) by key, the least recently used first."""
        self._bytes = 0
        self._computing: dict[str, Future[Output | NodeFault | None]] = {}
        """Outputs that a thread is computing; the result is None if the computation raises."""
        self._lock = threading.Lock()
        self.counts = {"memory": 0, "folder": 0, "computed": 0, "failed": 0}
        """Number of outputs by where they came from."""

    def get(self, key: str, compute: Callable[[], Output | NodeFault]) -> Output | NodeFault:
        """Return an output from memory or the folder, or else compute and store it.

        A fault stays in memory, unless it is of the infrastructure, and never goes to the folder.
        """
        while True:
            with self._lock:
                if key in self._held:
                    self._held.move_to_end(key)
                    self.counts["memory"] += 1
                    return self._held[key][0]
                pending = self._computing.get(key)
                if pending is None:
                    future = self._computing[key] = Future()
                    break
            computed = pending.result()
            if computed is not None:  # else the other thread's computation raised: try again
                with self._lock:
                    self.counts["memory"] += 1
                return computed
        output: Output | NodeFault | None = None
        try:
            output = self._stored(key)
            if output is None:
                output = compute()
                with self._lock:
                    self.counts["failed" if isinstance(output, NodeFault) else "computed"] += 1
                if not isinstance(output, NodeFault):
                    self._store(key, output)
            self._hold(key, output)
            return output
        finally:
            with self._lock:
                del self._computing[key]
            future.set_result(output)

    def _hold(self, key: str, output: Output | NodeFault) -> None:
        """Keep an output in memory, and drop those used least recently beyond the limit."""
        if isinstance(output, NodeFault) and output.infrastructure:
            return
        size = 200 if isinstance(output, NodeFault) else held_bytes(output)  # bytes, about
        if size > self.max_bytes:
            return
        with self._lock:
            self._held[key] = output, size
            self._bytes += size
            while self._bytes > self.max_bytes:
                _, (_, dropped) = self._held.popitem(last=False)
                self._bytes -= dropped

    def _path(self, key: str) -> Path | None:
        """Return the file of an output; None: there is no folder."""
        return None if self.folder is None else self.folder / key[:2] / f"{key}.npz"

    def _stored(self, key: str) -> Output | None:
        """Return an output from the folder; None if it is absent or its file is damaged."""
        path = self._path(key)
        if path is None:
            return None
        try:
            output = read_output(read_bytes(path))
        except FileNotFoundError:
            return None
        except (OSError, DataError):  # such as a file cut off by a full disk: compute again
            return None
        with self._lock:
            self.counts["folder"] += 1
        return output

    def _store(self, key: str, output: Output) -> None:
        """Write an output into the folder, complete or not at all."""
        path = self._path(key)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            temporary.write_bytes(write_output(output))
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def built_ahead(twins: Path) -> OutputCache:
    """Return the cache over a folder that `harness twin build` filled; new outputs are added.

    Raises:
        UsageError: `twin build` did not make this folder.
    """
    if not (twins / OUTPUTS).is_dir():
        raise UsageError(
            f"twins={twins}",
            expected=f"a folder with {OUTPUTS}/, as `harness twin build --out` makes",
            found="none",
        )
    return OutputCache(folder=twins / OUTPUTS)


def output_key(
    media: str, indices: Sequence[int], node: Mapping[str, Any], inputs: Sequence[str]
) -> str:
    """Return the key of an output: a hash of everything that determines it.

    Args:
        media: Content id of the image or video.
        indices: Numbers of the frames described.
        node: The node's settings and code hash.
        inputs: Keys of the inputs.
    """
    plain = json.dumps([media, list(indices), node, list(inputs)], sort_keys=True, default=str)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
