"""DT-R1's environment: builds the planned twin, runs code over it, and resolves the answer.

    … </dt_plan> ─▶ parse ─▶ nodes ─▶ <dt_rep>…</dt_rep>
    … </execute> ─▶ sandbox ────────▶ <results>…</results>
    … </answer>  ─▶ masks looked up in the twin, boxes, or text

The environment sees the query's text and media only, not the form of answer that is scored.
Nothing that the network writes raises an exception. Perception and code run in threads, so that
other rollouts proceed. `models.rollout.write_rollout` calls a `TwinEpisode` after each turn of the
network.
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

MAX_CYCLES = 5
"""Most blocks of code in one rollout (the paper's m); the paper's curve saturates there."""
MAX_TWIN_TOKENS = 2048
"""Longest twin in a rollout, in tokens."""
NO_TWIN = "error: there is no digital twin, for there is no plan yet"
REFUSED = "error: there is no digital twin, for the plan was refused"
UNSEEN = "error: there is no digital twin, for perception failed"
USED_UP = "error: all {cycles} executions are used; write <task> and <answer>"
"""Results of a block of code that is not run."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one rollout, in addition to its limit of tokens."""

    cycles: int = MAX_CYCLES
    """Most blocks of code that are run."""
    twin_tokens: int = MAX_TWIN_TOKENS
    """Longest twin, in tokens."""
    code_seconds: float = 10.0
    """Seconds that a block may take."""
    persist: bool = False
    """Run the earlier blocks again before each block, so that their variables exist."""


@dataclass(frozen=True)
class ResolvedAnswer:
    """The answer of a rollout; its task decides which of masks, instances and text is set."""

    task: Task
    masks: Track | None = None
    """Segmentation: the union of the named instances, in every frame."""
    tracks: tuple[Track, ...] = ()
    """Segmentation: the masks of each instance, in every frame."""
    instances: tuple[Instance, ...] | None = None
    """Grounding: instances with boxes in pixels."""
    text: str | None = None
    """Other tasks: the text of the answer."""
    empty: bool = False
    """True if no instance is named: there is no target."""


@dataclass(eq=False)
class Perception:
    """The parts that all rollouts share: perception nodes, the sandbox, and threads for both."""

    builder: TwinBuilder
    tier: str = "auto"
    workers: int = 2
    """Sandbox workers, and threads for perception and code."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sandbox: Sandbox | None = None

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox; opened at the first use, and only once for all threads."""
        with self._lock:
            if self._sandbox is None:
                self._sandbox = open_sandbox(tier=self.tier, workers=self.workers)
            return self._sandbox

    @cached_property
    def threads(self) -> ThreadPoolExecutor:
        """Threads in which perception and code run."""
        return ThreadPoolExecutor(self.workers, thread_name_prefix="twin")

    def prepare(self, **before: Callable[[], object]) -> None:
        """Open the sandbox and load the nodes, so that a missing part stops a run at its start.

        If twins were built ahead (a cache folder), a node is loaded only when the cache lacks its
        output.

        Args:
            before: Loaders of other parts, by name, to call first.

        Raises:
            HarnessError: it lists every part that cannot be opened or loaded.
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
    """Number of tokens of a text, by the network's tokenizer."""

    def __call__(self, query: Query) -> "TwinEpisode":
        """Return the function that answers the turns of one rollout."""
        return TwinEpisode(self, query.media[0], phrases_of(query.text))


class TwinEpisode:
    """Answers the turns of one rollout; holds the plan, twin, results and answer so far."""

    def __init__(
        self, environment: TwinEnvironment, media: Media, phrases: tuple[str, ...]
    ) -> None:
        self._environment, self.media, self._phrases = environment, media, phrases
        self.spans: list[Span] = []
        """Texts of the rollout in order: written by the network, or injected."""
        self.plan: Plan | None = None
        self.plan_error: str | None = None
        """Reason why the plan was refused; None: it is valid, or there is no plan yet."""
        self.twin: Twin | None = None
        self.results: list[CodeResult] = []
        self.made: dict[str, Track] = {}
        """Masks that code saved, by path."""
        self.infrastructure: list[str] = []
        """Failures of perception or sandbox that are not the network's fault."""
        self.answer: ResolvedAnswer | None = None
        self.answer_error: str = ""
        self._ran: list[str] = []
        """Blocks of code that ran without an error."""

    def __call__(self, text_of_turn: str) -> Turn | Future[Turn]:
        """Return the environment's turn after `text_of_turn`: a text to inject, or the end."""
        self.spans.append(Span(text_of_turn))
        block = self._last_block(text_of_turn)
        if block is None:
            return self._end()
        tag, text = block
        if tag == PLAN and self.plan is None and self.plan_error is None:
            return self._environment.perception.threads.submit(self._perceive, text)
        if tag == EXECUTE:
            return self._environment.perception.threads.submit(self._execute, text)
        return self._injected("", "")  # a second plan, or a stray closing tag: inject nothing

    @property
    def layout(self) -> Layout:
        """The tagged blocks of the rollout so far."""
        return read_layout(self.spans)

    def _last_block(self, text_of_turn: str) -> tuple[str, str] | None:
        """Return (tag, text) of the block whose closing tag ended the turn; None if none did.

        Both are empty if the closing tag has no opening tag.
        """
        positions = {stop: text_of_turn.rfind(stop) for stop in STOPS}
        stop, position = max(positions.items(), key=lambda item: item[1])
        # The last token may hold characters after the tag, such as the "<" of "><"; another whole
        # tag after it means that the network did not stop there.
        if position < 0 or TAG.search(text_of_turn, position + len(stop)) is not None:
            return None
        tag = stop[2:-1]  # "</execute>" without "</" and ">"
        _, opening, text = text_of_turn[:position].rpartition(f"<{tag}>")
        if not opening:
            return "", ""
        return tag.replace(".", "_"), text[:MAX_TEXT]  # the paper also writes `dt.plan`

    def _perceive(self, text: str) -> Turn:
        """Parse a plan, build its twin, and inject the twin or the error."""
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
        twin_text = self.twin.text(self._environment.count_tokens, limits.twin_tokens)
        return self._injected(TWIN, harmless(twin_text))

    def _execute(self, code: str) -> Turn:
        """Run a block of code, keep its masks, and inject its output or error."""
        result = self._run(code)
        self.results.append(result)
        self.made |= result.masks
        if result.infrastructure is not None:
            self.infrastructure.append(result.infrastructure)
        elif result.error is None:
            self._ran.append(code)
        return self._injected(RESULTS, result.text)

    def _run(self, code: str) -> CodeResult:
        """Return the outcome of a block; without a twin or a cycle left, a line that says so."""
        perception, limits = self._environment.perception, self._environment.limits
        if self.twin is None:
            if self.plan is not None:  # the plan was valid: perception failed
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
        except HarnessError as error:  # the sandbox was lost or is closed
            return CodeResult("error: the code could not be run", infrastructure=str(error)[:500])

    def _injected(self, tag: str, text: str) -> Turn:
        """Return the turn that injects `<tag>text</tag>`; without a tag, it injects nothing.

        After more blocks than the limit allows, the network is no longer stopped at tags.
        """
        block = f"<{tag}>{text}</{tag}>" if tag else ""
        if block:
            self.spans.append(Span(block, injected=True))
        over_limit = len(self.results) > self._environment.limits.cycles
        return Turn(inject=block, stop=() if over_limit else STOPS, facts=self.facts())

    def _end(self) -> Turn:
        """Resolve the answer and return the turn that ends the rollout."""
        layout = self.layout
        try:
            self.answer = resolve_answer(layout, self.twin, self.made, self.media)
        except ParseError as error:
            self.answer_error = str(error)[:500]
        return Turn(inject=None, facts=self.facts())

    def facts(self) -> dict[str, Any]:
        """Return plain data about the rollout so far, for rewards and for the record."""
        layout = self.layout
        task = read_task(layout.last(TASK))
        return {
            "spans": [[len(span.text), span.injected] for span in self.spans],
            "fault": layout.fault,
            "plan": None
            if self.plan is None
            else {node: list(inputs) for node, inputs in self.plan.nodes.items()},
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
    """Return the answer that the last `<task>` and `<answer>` of a rollout give.

    A mask is named by the path under which the twin lists it or code saved it. The path is looked
    up among these and never opened as a file.

    Args:
        layout: The tagged blocks of the rollout.
        twin: The digital twin with its masks; None: it was not built.
        saved: Masks that code saved, by path.
        media: The image or video; masks have its size, frames its numbers.

    Raises:
        ParseError: there is no task or answer, or the answer does not have the task's form.
    """
    task, text = read_task(layout.last(TASK)), layout.last(ANSWER)
    if task is None:
        task_text = layout.last(TASK)
        raise ParseError(
            "task",
            expected=", ".join(Task),
            found="none" if task_text is None else repr(task_text[:60]),
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
    masks_by_path = {**({} if twin is None else twin.masks), **saved}
    tracks = []
    for instance in instances:
        if instance.mask not in masks_by_path:
            path = repr(str(instance.mask)[:60])
            raise ParseError("mask", expected="a path that the twin has", found=path)
        tracks.append(masks_by_path[instance.mask])
    union = tracks[0].union(*tracks[1:]) if tracks else Track(len(media), height, width)
    return ResolvedAnswer(task, masks=union, tracks=tuple(tracks), empty=not instances)


def _plain(answer: ResolvedAnswer) -> dict[str, Any]:
    """Return an answer as plain data for the record."""
    if answer.masks is not None:
        return {"masks": [rle.to_json() for rle in answer.masks.rles], "empty": answer.empty}
    if answer.instances is not None:
        boxes = [
            {"name": instance.name, "bbox": list(instance.box or ()), "frame": instance.frame}
            for instance in answer.instances
        ]
        return {"boxes": boxes, "empty": answer.empty}
    return {"text": answer.text}
