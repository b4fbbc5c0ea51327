"""Run the perception nodes of a plan over an image or video, and build the digital twin.

An episode calls `TwinBuilder.build` for each plan. Nodes that do not need each other's output run
in parallel; outputs are shared through an `OutputCache`. A node that fails or takes too long is an
error in the twin (`NodeFault`), never an exception.
"""

import hashlib
import inspect
import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from harness import plugins
from harness.errors import HarnessError, ModelError, OutOfMemory, Unavailable, UsageError, raise_all
from harness.frames import FramePolicy, frame_policy
from harness.media import Media
from harness.models import tracks
from harness.models.dt_r1.catalog import (
    ROLES,
    Catalog,
    assignment,
    catalog,
    check_role,
    node_class,
    without_process,
)
from harness.models.dt_r1.output_cache import NodeFault, OutputCache, output_key
from harness.models.dt_r1.plan import Plan
from harness.models.dt_r1.twin import Twin, assemble
from harness.node import Instances, Node, Output, check_output
from harness.plugins import plugin_errors
from harness.spec import Spec
from harness.version import __version__

LOCAL = Spec("local")
MAX_TIMEOUTS = 2
"""Number of timeouts after which a node is not run again. They are counted in all, or consecutively
for a node whose process can be killed."""
LOADING_SECONDS = 1800.0
"""Seconds that a node may take to load its weights, before its first medium."""


class TwinBuilder:
    """Builds the twin that a plan describes. `build` may be called from several threads.

    Each node runs on one medium at a time, in a thread; its network is loaded at the first run.

    Args:
        nodes: The assignment of nodes to the roles of a plan (catalog.py).
        frames: Rule for the frames of a video that the twin describes.
        timeout: Seconds that a node may take for one medium, without loading. A node that takes
            longer is an error in the twin. Its thread cannot be ended; its process, if it has one,
            is killed.
        cache: Cache of outputs; None: 512 MiB in memory, and no folder.
    """

    def __init__(
        self,
        nodes: Spec | str = LOCAL,
        *,
        frames: int | FramePolicy = 8,
        timeout: float = 120.0,
        cache: OutputCache | None = None,
    ) -> None:
        spec = Spec(nodes) if isinstance(nodes, str) else nodes
        self.nodes = assignment(spec)
        self.catalog: Catalog = catalog(spec)
        self.frames = frame_policy(frames) if isinstance(frames, int) else frames
        if not 0 < timeout < float("inf"):
            raise UsageError("timeout", expected="seconds, more than 0", found=str(timeout))
        self.timeout = timeout
        self.cache = cache if cache is not None else OutputCache()
        self._workers: dict[str, _Worker] = {}
        self._lock = threading.Lock()

    def prepare(self, plan: Plan | None = None) -> None:
        """Build the nodes (of a plan, or all) and load their weights.

        Raises:
            HarnessError: it lists every node that cannot be built or loaded.
        """
        raise_all("perception", self.faults(plan))

    def faults(self, plan: Plan | None = None, *, load: bool = True) -> dict[str, HarnessError]:
        """Return the error of each node (of a plan, or all) that cannot be built, by `role=SPEC`.

        With `load`, nodes are loaded too, and errors of loading included.
        """
        faults: dict[str, HarnessError] = {}
        for role in self.nodes if plan is None else plan.nodes:
            worker = self._worker(role)
            try:
                with plugin_errors(f"node {role}", ModelError):
                    if load:
                        worker.node.prepare()
                    else:
                        worker.node.describe()  # builds the node, without its weights
            except HarnessError as error:
                faults[f"{role}={worker.spec}"] = error
        return faults

    def by_question(self, plan: Plan) -> bool:
        """Return True if a node of the plan looks for the objects that the question names."""
        return any(self._worker(role).node.by_question for role in plan.nodes)

    def describe(self) -> dict[str, Any]:
        """Return plain data for a record: the node of each role with its settings."""
        return {
            "nodes": {role: str(spec) for role, spec in self.nodes.items()},
            "frames": str(self.frames.spec),
            "timeout": self.timeout,
        }

    def build(self, media: Media, plan: Plan, phrases: Sequence[str] = ()) -> Twin:
        """Return the twin that a plan's nodes give for a medium.

        A node that raises, takes too long or runs out of memory is an error in the twin, and so are
        the nodes that need its output.

        Args:
            media: The image or video.
            plan: A valid plan.
            phrases: Names of objects in the question, for nodes with `by_question`.

        Raises:
            MediaError: a frame cannot be decoded.
        """
        indices = tuple(dict.fromkeys(self.frames.choose(media.times())))
        for index in indices:
            media.frame(index)
        run = _PlanRun(self, media, indices, plan, tuple(phrases))
        specs = {role: str(spec) for role, spec in self.nodes.items()}
        return assemble(media, indices, plan, run.outputs(), specs)

    def close(self) -> None:
        """End the processes of nodes."""
        with self._lock:
            workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.close()

    def _worker(self, role: str) -> "_Worker":
        """Return the worker of a role's node, made at the first use."""
        with self._lock:
            if role not in self._workers:
                self._workers[role] = _Worker(role, self.nodes[role], self.timeout)
            return self._workers[role]


@dataclass
class _PlanRun:
    """The run of one plan over one medium."""

    builder: TwinBuilder
    media: Media
    indices: tuple[int, ...]
    """Numbers of the frames that the twin describes."""
    plan: Plan
    phrases: tuple[str, ...]
    _done: "queue.SimpleQueue[tuple[str, str, Output | NodeFault | BaseException]]" = field(
        default_factory=queue.SimpleQueue
    )
    """(node, key of its output, output or error) of each node that has ended."""

    def outputs(self) -> dict[str, Output | NodeFault]:
        """Return the output or fault of each node of the plan, in the plan's order."""
        sorter = TopologicalSorter(self.plan.nodes)
        sorter.prepare()
        outputs: dict[str, Output | NodeFault] = {}
        keys: dict[str, str] = {}
        while sorter.is_active():
            for name in sorter.get_ready():
                self._start(name, outputs, keys)
            name, key, output = self._done.get()
            if isinstance(output, BaseException):
                raise output
            outputs[name], keys[name] = output, key
            sorter.done(name)
        return {name: outputs[name] for name in self.plan.nodes}

    def _start(
        self, name: str, outputs: Mapping[str, Output | NodeFault], keys: Mapping[str, str]
    ) -> None:
        """Start a node whose inputs are complete; it fails at once if an input failed."""
        needed = self.plan.nodes[name]
        inputs: list[Output] = []
        for before in needed:
            output = outputs[before]
            if isinstance(output, NodeFault):
                fault = NodeFault(f"it needs {before}, which failed", output.infrastructure)
                self._done.put((name, "", fault))
                return
            inputs.append(output)
        threading.Thread(
            target=self._run, args=(name, inputs, [keys[before] for before in needed]), daemon=True
        ).start()

    def _run(self, name: str, inputs: Sequence[Output], keys: Sequence[str]) -> None:
        """Take a node's output from the cache, or compute it, and put it into `_done`."""
        key = ""
        try:
            try:
                worker = self.builder._worker(name)
                phrases = self.phrases if worker.node.by_question else ()
                question = [json.dumps(phrases)] if phrases else []
                key = output_key(self.media.id, self.indices, worker.identity, [*keys, *question])
            except Exception as error:  # noqa: BLE001 - a plugin's constructor may raise anything
                self._done.put((name, key, replace(_as_fault(error), infrastructure=True)))
                return
            job = _Job(key, self.media, self.indices, inputs, phrases)
            self._done.put((name, key, self.builder.cache.get(key, lambda: worker.run(job))))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that builds
            self._done.put((name, key, error))


@dataclass(frozen=True)
class _Job:
    """One medium for a node, and the queue for its answers."""

    key: str
    media: Media
    indices: tuple[int, ...]
    inputs: Sequence[Output]
    phrases: Sequence[str]
    answer: "queue.SimpleQueue[Output | NodeFault | None]" = field(
        default_factory=queue.SimpleQueue
    )
    """Gets None when the node has been loaded (first run only), then its output or fault."""


class _Worker:
    """A node and the thread that runs it, one medium at a time."""

    def __init__(self, role: str, spec: Spec, timeout: float) -> None:
        check_role(role, spec)
        self.role, self.spec, self.timeout = role, spec, timeout
        self.hangs = 0
        """Number of timeouts so far."""
        self._turn = threading.Lock()
        self._built: dict[str, Node] = {}
        """The current node under "node", so that `setdefault` is atomic."""
        self._loaded: Node | None = None
        """The node whose weights have been loaded."""

    @property
    def node(self) -> Node:
        """The node, built at the first use.

        There is no lock, because a node that hangs while it is built must not block the next
        medium; if two threads build it, the first result counts.
        """
        if "node" not in self._built:
            return self._built.setdefault("node", plugins.build("nodes", self.spec))
        return self._built["node"]

    @property
    def _is_loaded(self) -> bool:
        """True if the weights of the current node have been loaded."""
        return self._loaded is not None and self._loaded is self._built.get("node")

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Plain data that determines an output: the node's settings, and a hash of its code."""
        node_type = node_class(without_process(self.spec).name)
        code = code_hash(Path(inspect.getfile(node_type)))
        return {"version": __version__, "code": code, **self.node.describe()}

    def run(self, job: _Job) -> Output | NodeFault:
        """Run the node on one medium, when those before it are done; return its output or fault."""
        with self._turn:
            if self.hangs >= MAX_TIMEOUTS:
                return NodeFault(
                    f"it took longer than {self.timeout:g} s {MAX_TIMEOUTS} times, "
                    "and is not run again"
                )
            thread = threading.Thread(target=self._work, args=(job,), daemon=True)
            thread.start()
            limit = self.timeout if self._is_loaded else max(self.timeout, LOADING_SECONDS)
            try:
                answer = job.answer.get(timeout=limit)
                if answer is None:  # the node has been loaded; its output follows
                    limit = self.timeout
                    answer = job.answer.get(timeout=limit)
                    assert answer is not None, "a node is loaded once"
                if hasattr(self._built.get("node"), "close"):  # earlier processes were killed
                    self.hangs = 0
                return answer
            except queue.Empty:
                self.hangs += 1
                self.close()  # kills a process, if the node has one
                # The thread that hangs keeps the old node; the next medium gets a new one.
                self._built.pop("node", None)
                return NodeFault(f"it took longer than {limit:g} s")

    def _work(self, job: _Job) -> None:
        """Load the node if needed and run it, in a thread that may outlive a timeout."""
        what, loaded = f"node {self.role}", self._is_loaded
        try:
            node = self.node  # a local: after a timeout, `self.node` is another node
            if not loaded:
                node.prepare()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's code
            # For example missing weights, which is not a fault of the plan.
            job.answer.put(replace(_as_fault(error), infrastructure=True))
            return
        if not loaded:
            self._loaded = node
            job.answer.put(None)
        try:
            output = node.run_for(job.media, job.indices, job.inputs, job.phrases)
            check_output(what, output, ROLES[self.role].produces, job.media)
            job.answer.put(_with_keys(output, job.key))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's code
            job.answer.put(_as_fault(error))

    def close(self) -> None:
        """End the node's process, if it has one."""
        node = self._built.get("node")
        close_node: Callable[[], None] | None = getattr(node, "close", None)
        if close_node is not None:
            close_node()


@cache
def code_hash(module: Path) -> str:
    """Return a hash of the code that a node's outputs depend on.

    These are its module and, in a package, the modules and texts beside it (helpers and prompts),
    and `harness.models.tracks`, which computes masks and boxes.
    """
    files = [module]
    if (module.parent / "__init__.py").exists():
        files = sorted(path for path in module.parent.iterdir() if path.suffix in (".py", ".txt"))
    files.append(Path(tracks.__file__))
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


def _with_keys(output: Output, key: str) -> Output:
    """Return the output; instances without a key get one from the output's key and their place."""
    if not isinstance(output, Instances):
        return output
    keyed = (
        instance if instance.key else replace(instance, key=f"{key[:12]}/{number}")
        for number, instance in enumerate(output.found)
    )
    return Instances(tuple(keyed))


def _as_fault(error: BaseException) -> NodeFault:
    """Return the fault for an exception of a node; an unavailable server is infrastructure."""
    if isinstance(error, (MemoryError, OutOfMemory)) or "OutOfMemory" in type(error).__name__:
        return NodeFault("it ran out of memory")
    if isinstance(error, Unavailable):
        return NodeFault(str(error), infrastructure=True)
    return NodeFault(plugins.describe_error(error))
