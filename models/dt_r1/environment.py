"""DT-R1's environment: builds the planned twin, runs code over it, and resolves the answer.

    … </dt_plan> ─▶ parse ─▶ nodes ─▶ <dt_rep>…</dt_rep>
    … </execute> ─▶ sandbox ────────▶ <results>…</results>
    … </answer>  ─▶ masks looked up in the twin, boxes, or text

It sees the query's text and media, and nothing else: not the form of answer that is scored. What a
network writes never raises here. Perception and code run in threads, while other rollouts are
written.
"""

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.errors import HarnessError, ParseError, raise_all
from harness.masks import Track
from harness.media import Media
from harness.models.dt_r1.code import CodeResult, run_code
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.grammar import (
    ANSWER,
    EXECUTE,
    PLAN,
    RESULTS,
    STOPS,
    TAG,
    TASK,
    TWIN,
    Instance,
    Layout,
    Span,
    Task,
    harmless,
    read_instances,
    read_layout,
    read_task,
    shortened,
)
from harness.models.dt_r1.phrases import phrases_of
from harness.models.dt_r1.plan import Plan, PlanError, parse_plan
from harness.models.dt_r1.twin import Twin
from harness.models.rollout import Turn
from harness.plugins import describe_error
from harness.responses import MAX_TEXT
from harness.sandbox.pool import Sandbox, open_sandbox
from harness.types import Query

CYCLES = 5
"""m: blocks of code of one rollout; the paper's curve saturates there."""
TWIN_TOKENS = 2048
NO_TWIN = "error: there is no digital twin, for there is no plan yet"
REFUSED = "error: there is no digital twin, for the plan was refused"
UNSEEN = "error: there is no digital twin, for perception failed"
USED_UP = "error: all {cycles} executions are used; write <task> and <answer>"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one rollout beside its tokens."""

    cycles: int = CYCLES
    """Blocks of code that are run."""
    twin_tokens: int = TWIN_TOKENS
    """Longest twin, in tokens."""
    code_seconds: float = 10.0
    """Seconds that a block may take."""
    persist: bool = False
    """Run earlier blocks again before each one, so that their names are there."""


@dataclass(frozen=True)
class ResolvedAnswer:
    """An answer whose masks were looked up; one of the three, by its task."""

    task: Task
    masks: Track | None = None
    """Union of the instances named, in every frame."""
    tracks: tuple[Track, ...] = ()
    """Masks of each of them."""
    instances: tuple[Instance, ...] | None = None
    """Instances with boxes."""
    text: str | None = None
    empty: bool = False
    """True if no instance is named: there is no target."""


@dataclass(eq=False)
class Perception:
    """The parts that all rollouts share: perception nodes, the sandbox and threads for both."""

    builder: TwinBuilder
    tier: str = "auto"
    workers: int = 2
    """Sandbox workers, and threads for perception and code."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sandbox: Sandbox | None = None

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, opened when code is to run for the first time, or by `prepare`.

        One for all threads: a second one would never be closed.
        """
        with self._lock:
            if self._sandbox is None:
                self._sandbox = open_sandbox(tier=self.tier, workers=self.workers)
            return self._sandbox

    @cached_property
    def threads(self) -> ThreadPoolExecutor:
        """Threads in which perception and code run."""
        return ThreadPoolExecutor(self.workers, thread_name_prefix="twin")

    def prepare(self, **before: Callable[[], object]) -> None:
        """Open the sandbox and load the nodes, after other parts, so that a machine that lacks one
        is refused before any request. With twins that were built ahead, a node is loaded when they
        lack something.

        Raises:
            HarnessError: what cannot be opened or loaded, all of it.
        """
        faults: dict[str, HarnessError] = {}
        loads: dict[str, Callable[[], object]] = {**before, "sandbox": lambda: self.sandbox}
        for name, load in loads.items():
            try:
                load()
            except HarnessError as error:
                faults[name] = error
        faults |= self.builder.faults(load=self.builder.cache.folder is None)
        raise_all("the parts of the model", faults)

    def close(self) -> None:
        """End the sandbox's workers, the threads and the nodes' processes."""
        if "threads" in vars(self):
            self.threads.shutdown()
        if self._sandbox is not None:
            self._sandbox.close()
        self.builder.close()

    def describe(self) -> dict[str, Any]:
        """Return plain data for the record: nodes, frames, and the sandbox's tier."""
        return {**self.builder.describe(), "sandbox": dict(self.sandbox.describe())}


@dataclass(frozen=True, kw_only=True)
class TwinEnvironment:
    """Begins the episode of a query."""

    perception: Perception
    limits: Limits = field(default_factory=Limits)
    count_tokens: Callable[[str], int]

    def __call__(self, query: Query) -> "TwinEpisode":
        """Return the environment's side of one rollout."""
        return TwinEpisode(self, query.media[0], phrases_of(query.text))


class TwinEpisode:
    """The environment's side of one rollout: the twin and the masks that it has by now."""

    def __init__(
        self, environment: TwinEnvironment, media: Media, phrases: tuple[str, ...]
    ) -> None:
        self._environment, self.media, self._phrases = environment, media, phrases
        self.spans: list[Span] = []
        self.plan: Plan | None = None
        self.plan_error: str | None = None
        """Reason why the plan was refused; None: it was not, or there is no plan yet."""
        self.twin: Twin | None = None
        self.results: list[CodeResult] = []
        self.made: dict[str, Track] = {}
        """Masks that code saved, by path."""
        self.infrastructure: list[str] = []
        """Faults that are not the network's."""
        self.answer: ResolvedAnswer | None = None
        self.answer_error: str = ""
        self._ran: list[str] = []

    def __call__(self, written: str) -> Turn | Future[Turn]:
        """Go on from what the network wrote: inject, or end with the facts."""
        self.spans.append(Span(written))
        block = self._last_block(written)
        if block is None:
            return self._end()
        tag, text = block
        if tag == PLAN and self.plan is None and self.plan_error is None:
            return self._environment.perception.threads.submit(self._perceive, text)
        if tag == EXECUTE:
            return self._environment.perception.threads.submit(self._execute, text)
        return self._injected("", "")  # a second plan, or a tag that closes nothing: it goes on

    @property
    def layout(self) -> Layout:
        """Blocks so far."""
        return read_layout(self.spans)

    def _last_block(self, written: str) -> tuple[str, str] | None:
        """Return (tag, text) of the block that a stop string ended; None: none did.

        The tag is empty where the stop string closes no block of its own.
        """
        ends = {stop: written.rfind(stop) for stop in STOPS}
        stop = max(ends, key=ends.__getitem__)
        # What stands behind it in the same token, such as the "<" of "><", ends nothing.
        if ends[stop] < 0 or TAG.search(written, ends[stop] + len(stop)) is not None:
            return None
        tag = stop[2:-1]
        started = written[: ends[stop]].rpartition(f"<{tag}>")
        if not started[1]:
            return "", ""
        return tag.replace(".", "_"), started[2][:MAX_TEXT]

    def _perceive(self, text: str) -> Turn:
        perception, limits = self._environment.perception, self._environment.limits
        try:
            self.plan = parse_plan(text, perception.builder.catalog)
        except PlanError as error:
            self.plan_error = shortened(harmless(str(error)), 512)
            return self._injected(TWIN, json.dumps({"error": self.plan_error}))
        try:
            self.twin = perception.builder.build(self.media, self.plan, self._phrases)
        except Exception as error:  # noqa: BLE001 - a medium's or a node's fault, not the network's
            self.infrastructure.append(shortened(describe_error(error), 512))
            return self._injected(TWIN, '{"error": "perception failed"}')
        self.infrastructure += [
            f"{name}: {fault.reason}"
            for name, fault in self.twin.faults.items()
            if fault.infrastructure
        ]
        whole = self.twin.text(self._environment.count_tokens, limits.twin_tokens)
        return self._injected(TWIN, harmless(whole))

    def _execute(self, code: str) -> Turn:
        result = self._run(code)
        self.results.append(result)
        self.made |= result.masks
        if result.infrastructure is not None:
            self.infrastructure.append(result.infrastructure)
        elif result.error is None:
            self._ran.append(code)
        return self._injected(RESULTS, result.text)

    def _run(self, code: str) -> CodeResult:
        perception, limits = self._environment.perception, self._environment.limits
        if self.twin is None:
            if self.plan is not None:  # a medium's or a node's fault
                return CodeResult(UNSEEN, infrastructure=UNSEEN)
            line = NO_TWIN if self.plan_error is None else REFUSED
            return CodeResult(line, error=line)
        if len(self.results) >= limits.cycles:
            line = USED_UP.format(cycles=limits.cycles)
            return CodeResult(line, error=line)
        try:
            return run_code(
                perception.sandbox,
                code,
                self.twin,
                self.media,
                before=self._ran if limits.persist else (),
                timeout=limits.code_seconds,
            )
        except HarnessError as error:  # a sandbox is lost, or there is none any more
            return CodeResult("error: the code could not be run", infrastructure=str(error)[:500])

    def _injected(self, tag: str, text: str) -> Turn:
        block = f"<{tag}>{text}</{tag}>" if tag else ""
        if block:
            self.spans.append(Span(block, injected=True))
        over = len(self.results) > self._environment.limits.cycles
        return Turn(inject=block, stop=() if over else STOPS, facts=self.facts())

    def _end(self) -> Turn:
        layout = self.layout
        try:
            self.answer = resolve_answer(layout, self.twin, self.made, self.media)
        except ParseError as error:
            self.answer_error = str(error)[:500]
        return Turn(inject=None, facts=self.facts())

    def facts(self) -> dict[str, Any]:
        """Return plain data about the rollout so far, for rewards and pages."""
        layout = self.layout
        task = read_task(layout.last(TASK))
        return {
            "spans": [[len(span.text), span.injected] for span in self.spans],
            "fault": layout.fault,
            "plan": None if self.plan is None else {k: list(v) for k, v in self.plan.nodes.items()},
            "plan_error": self.plan_error,
            "blocks": [
                {
                    "error": result.error,
                    "refused": result.refused,
                    "unavailable": result.infrastructure,
                }
                for result in self.results
            ],
            "task": None if task is None else str(task),
            "answer": None if self.answer is None else _plain(self.answer),
            "answer_error": self.answer_error,
            "infrastructure": list(self.infrastructure),
        }


def resolve_answer(
    layout: Layout, twin: Twin | None, saved: Mapping[str, Track], media: Media
) -> ResolvedAnswer:
    """Return what the last task and answer of a response say.

    A mask is looked up by the path that the twin printed, or that code saved it under. Any other
    text is not a mask, and is never opened as a path.

    Raises:
        ParseError: there is no task or answer, or the answer is not one of the task's kind.
    """
    task, text = read_task(layout.last(TASK)), layout.last(ANSWER)
    if task is None:
        written = layout.last(TASK)
        raise ParseError(
            "task",
            expected=", ".join(Task),
            found="none" if written is None else repr(written[:60]),
        )
    if not text:
        raise ParseError("response", expected="<answer>…</answer>", found="none")
    if task in (Task.SUMMARIZATION, Task.VQA):
        return ResolvedAnswer(task, text=text)
    instances = read_instances(task, text)
    if task is Task.GROUNDING:
        late = [instance.frame for instance in instances if instance.frame >= len(media)]
        if late:
            expected = f"a frame from 0 to {len(media) - 1}"
            raise ParseError("answer", expected=expected, found=str(late[0]))
        return ResolvedAnswer(task, instances=instances, empty=not instances)
    width, height = media.size
    known = {**({} if twin is None else twin.masks), **saved}
    tracks = []
    for instance in instances:
        if instance.mask not in known:
            path = repr(str(instance.mask)[:60])
            raise ParseError("mask", expected="a path that the twin has", found=path)
        tracks.append(known[instance.mask])
    union = tracks[0].union(*tracks[1:]) if tracks else Track(len(media), height, width)
    return ResolvedAnswer(task, masks=union, tracks=tuple(tracks), empty=not instances)


def _plain(answer: ResolvedAnswer) -> dict[str, Any]:
    if answer.masks is not None:
        return {"masks": [rle.to_json() for rle in answer.masks.rles], "empty": answer.empty}
    if answer.instances is not None:
        boxes = [
            {"name": instance.name, "bbox": list(instance.box or ()), "frame": instance.frame}
            for instance in answer.instances
        ]
        return {"boxes": boxes, "empty": answer.empty}
    return {"text": answer.text}
