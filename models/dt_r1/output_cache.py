"""Outputs of nodes, shared by every plan that needs them: in memory up to a bound, and in a folder.

An output is named by its medium, the frames that are described, the node with its settings and its
code, and the names of its inputs. The rollouts of a group, whose plans differ, so share what is
alike in them; two that want the same output at once wait for one computation.
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
"""Folder of the outputs, in one that `harness twin build` fills."""


@dataclass(frozen=True, slots=True)
class NodeFault:
    """Reason why a node gave no output."""

    reason: str
    """In one line, without paths."""
    infrastructure: bool = False
    """True where a server or a machine failed, and the same again may succeed."""


class OutputCache:
    """Outputs and faults by key; safe to use from several threads, its folder from several
    processes.
    """

    def __init__(self, max_bytes: int = 512 * MEBIBYTE, folder: Path | None = None) -> None:
        self.max_bytes, self.folder = max_bytes, folder
        self._held: OrderedDict[str, tuple[Output | NodeFault, int]] = OrderedDict()
        self._bytes = 0
        self._under_way: dict[str, Future[Output | NodeFault | None]] = {}
        """Outputs that are computed now; None of one whose computation raises."""
        self._lock = threading.Lock()
        self.counts = {"memory": 0, "folder": 0, "computed": 0, "failed": 0}

    @property
    def held_bytes(self) -> int:
        """Bytes of outputs that are held in memory."""
        return self._bytes

    def get(self, key: str, compute: Callable[[], Output | NodeFault]) -> Output | NodeFault:
        """Return an output, computing it if it is neither held nor stored.

        A fault is kept in memory unless it is of the infrastructure, and is never stored.
        """
        while True:
            with self._lock:
                if key in self._held:
                    self._held.move_to_end(key)
                    self.counts["memory"] += 1
                    return self._held[key][0]
                pending = self._under_way.get(key)
                if pending is None:
                    mine = self._under_way[key] = Future()
                    break
            given = pending.result()
            if given is not None:  # given to all that wait, also if it is too large to hold
                with self._lock:
                    self.counts["memory"] += 1
                return given
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
                del self._under_way[key]
            mine.set_result(output)

    def _hold(self, key: str, output: Output | NodeFault) -> None:
        if isinstance(output, NodeFault) and output.infrastructure:
            return
        size = 200 if isinstance(output, NodeFault) else held_bytes(output)
        if size > self.max_bytes:
            return
        with self._lock:
            self._held[key] = output, size
            self._bytes += size
            while self._bytes > self.max_bytes:
                _, (_, dropped) = self._held.popitem(last=False)
                self._bytes -= dropped

    def _place(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / f"{key}.npz"

    def _stored(self, key: str) -> Output | None:
        place = self._place(key)
        if place is None:
            return None
        try:
            output = read_output(read_bytes(place))
        except FileNotFoundError:
            return None
        except (OSError, DataError):  # cut off when a disk was full: computed again
            return None
        with self._lock:
            self.counts["folder"] += 1
        return output

    def _store(self, key: str, output: Output) -> None:
        place = self._place(key)
        if place is None:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            temporary.write_bytes(write_output(output))
            temporary.replace(place)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def built_ahead(twins: Path) -> OutputCache:
    """Return the outputs of a folder that `harness twin build` filled; what it lacks is added.

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
    """The name of an output: a hash of all that decides it."""
    plain = json.dumps([media, list(indices), node, list(inputs)], sort_keys=True, default=str)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
