"""Execution of plans: nodes that do not wait for each other run side by side."""

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
HANGS = 2
"""Times that a node may take too long before it is not run any more: in all, or, where it has a
process that is killed, one after another."""
LOADING = 1800.0
"""Seconds that a node may take to load what it needs, beside those for its first medium."""


class TwinBuilder:
    """Builds the twin that a plan describes. `build` may be called from several threads.

    Each node has a thread of its own, which runs it on one medium at a time; its network is loaded
    when it first runs. Outputs are shared through `cache`.

    Args:
        nodes: The node behind each name of a plan (catalog.py); it is in `describe`.
        frames: Rule for the frames of a video that the twin describes.
        timeout: Seconds that a node may take for one medium, what it loads first aside. A node that
            takes longer is an error of the twin. In process its thread cannot be ended; a node in a
            process of its own is.
        cache: Outputs that are kept; None: 512 MiB in memory, and no folder.
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
        """Build the nodes (of a plan) and load what they load.

        Raises:
            HarnessError: what cannot be built or loaded, all of it.
        """
        raise_all("perception", self.faults(plan))

    def faults(self, plan: Plan | None = None, *, load: bool = True) -> dict[str, HarnessError]:
        """Return the error of each node (of a plan) that cannot be built or, with `load`, loaded;
        by role and SPEC.
        """
        faults: dict[str, HarnessError] = {}
        for role in self.nodes if plan is None else plan.nodes:
            worker = self._worker(role)
            try:
                with plugin_errors(f"node {role}", ModelError):
                    worker.node.prepare() if load else worker.node.describe()
            except HarnessError as error:
                faults[f"{role}={worker.spec}"] = error
        return faults

    def by_question(self, plan: Plan) -> bool:
        """Return True if the twin of a plan depends on what the question names."""
        return any(self._worker(role).node.by_question for role in plan.nodes)

    def describe(self) -> dict[str, Any]:
        """Return plain data for a record: the node behind each role with its settings."""
        return {
            "nodes": {role: str(spec) for role, spec in self.nodes.items()},
            "frames": str(self.frames.spec),
            "timeout": self.timeout,
        }

    def build(self, media: Media, plan: Plan, phrases: Sequence[str] = ()) -> Twin:
        """Run a plan over a medium, for a question that names `phrases`.

        What a node raises, a node that takes too long, and one that runs out of memory are errors
        of the twin; what depends on it is left out.

        Raises:
            MediaError: a frame cannot be decoded, which is not a node's fault.
        """
        indices = tuple(dict.fromkeys(self.frames.choose(media.times())))
        for index in indices:
            media.frame(index)
        run = _Run(self, media, indices, plan, tuple(phrases))
        return assemble(
            media, indices, plan, run.outputs(), {r: str(s) for r, s in self.nodes.items()}
        )

    def close(self) -> None:
        """End the processes of nodes."""
        with self._lock:
            workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.close()

    def _worker(self, role: str) -> "_Worker":
        with self._lock:
            if role not in self._workers:
                self._workers[role] = _Worker(role, self.nodes[role], self.timeout)
            return self._workers[role]


@dataclass
class _Run:
    """One plan over one medium."""

    builder: TwinBuilder
    media: Media
    indices: tuple[int, ...]
    plan: Plan
    phrases: tuple[str, ...]
    _done: "queue.SimpleQueue[tuple[str, str, Output | NodeFault | BaseException]]" = field(
        default_factory=queue.SimpleQueue
    )

    def outputs(self) -> dict[str, Output | NodeFault]:
        """The output of each node of the plan, in the plan's order, or its fault."""
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
        needed = self.plan.nodes[name]
        inputs: list[Output] = []
        for before in needed:
            given = outputs[before]
            if isinstance(given, NodeFault):
                fault = NodeFault(f"it needs {before}, which failed", given.infrastructure)
                self._done.put((name, "", fault))
                return
            inputs.append(given)
        threading.Thread(
            target=self._run, args=(name, inputs, [keys[before] for before in needed]), daemon=True
        ).start()

    def _run(self, name: str, inputs: Sequence[Output], keys: Sequence[str]) -> None:
        key = ""
        try:
            try:
                worker = self.builder._worker(name)
                phrases = self.phrases if worker.node.by_question else ()
                asked = [json.dumps(phrases)] if phrases else []
                key = output_key(self.media.id, self.indices, worker.identity, [*keys, *asked])
            except Exception as error:  # noqa: BLE001 - of a plugin that is built, of whatever kind
                self._done.put((name, key, replace(_fault(error), infrastructure=True)))
                return
            job = _Job(key, self.media, self.indices, inputs, phrases)
            self._done.put((name, key, self.builder.cache.get(key, lambda: worker.run(job))))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that builds
            self._done.put((name, key, error))


@dataclass(frozen=True)
class _Job:
    key: str
    media: Media
    indices: tuple[int, ...]
    inputs: Sequence[Output]
    phrases: Sequence[str]
    answer: "queue.SimpleQueue[Output | NodeFault | None]" = field(
        default_factory=queue.SimpleQueue
    )
    """None once the node is loaded; then its output or fault."""


class _Worker:
    """A node and the thread that runs it, one medium at a time."""

    def __init__(self, role: str, spec: Spec, timeout: float) -> None:
        check_role(role, spec)
        self.role, self.spec, self.timeout = role, spec, timeout
        self.hangs = 0
        self._turn = threading.Lock()
        self._built: dict[str, Node] = {}
        self._loaded: Node | None = None

    @property
    def node(self) -> Node:
        """The node. Of two that two threads build at once the first is kept, without a lock: one
        that hangs while it is built must not hold the next medium up.
        """
        if "node" not in self._built:
            return self._built.setdefault("node", plugins.build("nodes", self.spec))
        return self._built["node"]

    @property
    def _is_loaded(self) -> bool:
        return self._loaded is not None and self._loaded is self._built.get("node")

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Plain data that decides an output: the node's settings, and its code."""
        node_type = node_class(without_process(self.spec).name)
        code = code_hash(Path(inspect.getfile(node_type)))
        return {"version": __version__, "code": code, **self.node.describe()}

    def run(self, job: _Job) -> Output | NodeFault:
        """Run the node on one medium, after the media that came before."""
        with self._turn:
            if self.hangs >= HANGS:
                return NodeFault(
                    f"it took longer than {self.timeout:g} s {HANGS} times, and is not run again"
                )
            thread = threading.Thread(target=self._work, args=(job,), daemon=True)
            thread.start()
            limit = self.timeout if self._is_loaded else max(self.timeout, LOADING)
            try:
                answer = job.answer.get(timeout=limit)
                if answer is None:
                    limit = self.timeout
                    answer = job.answer.get(timeout=limit)
                    assert answer is not None, "a node is loaded once"
                if hasattr(self._built.get("node"), "close"):  # what hung before has been killed
                    self.hangs = 0
                return answer
            except queue.Empty:
                self.hangs += 1
                self.close()  # kills a process, if the node has one
                # The thread that hangs keeps the old node; the next medium gets a new one.
                self._built.pop("node", None)
                return NodeFault(f"it took longer than {limit:g} s")

    def _work(self, job: _Job) -> None:
        who, loaded = f"node {self.role}", self._is_loaded
        try:
            node = self.node  # kept: a thread that was left behind must not use the next one
            if not loaded:
                node.prepare()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's code
            # Such as weights that are not here: no plan is to blame for it.
            job.answer.put(replace(_fault(error), infrastructure=True))
            return
        if not loaded:
            self._loaded = node
            job.answer.put(None)
        try:
            output = node.run_for(job.media, job.indices, job.inputs, job.phrases)
            check_output(who, output, ROLES[self.role].produces, job.media)
            job.answer.put(_named(output, job.key))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's code
            job.answer.put(_fault(error))

    def close(self) -> None:
        node = self._built.get("node")
        end: Callable[[], None] | None = getattr(node, "close", None)
        if end is not None:
            end()


@cache
def code_hash(module: Path) -> str:
    """A hash of a node's module and, in a package, of the modules and texts beside it.

    Nodes share helpers, and have their prompts, there; what is written about masks and boxes in
    `harness.models.tracks` decides outputs, too.
    """
    files = [module]
    if (module.parent / "__init__.py").exists():
        files = sorted(path for path in module.parent.iterdir() if path.suffix in (".py", ".txt"))
    files.append(Path(tracks.__file__))
    whole = hashlib.blake2b(digest_size=8)
    for file in files:
        whole.update(file.name.encode() + b"\0" + hashlib.blake2b(file.read_bytes()).digest())
    return whole.hexdigest()


def _named(output: Output, key: str) -> Output:
    """Give new instances their keys."""
    if not isinstance(output, Instances):
        return output
    named = (
        instance if instance.key else replace(instance, key=f"{key[:12]}/{place}")
        for place, instance in enumerate(output.found)
    )
    return Instances(tuple(named))


def _fault(error: BaseException) -> NodeFault:
    if isinstance(error, (MemoryError, OutOfMemory)) or "OutOfMemory" in type(error).__name__:
        return NodeFault("it ran out of memory")
    if isinstance(error, Unavailable):
        return NodeFault(str(error), infrastructure=True)
    return NodeFault(plugins.describe_error(error))
