"""The plugin `dt_r1`: a language model that plans a digital twin and answers by code over it.

    query ─▶ plan ─▶ perception nodes ─▶ twin ─▶ (reasoning ─▶ code ─▶ results)* ─▶ task, answer

The network reads text only: pixels reach it only through the twin. A query gets one conversation,
which does not depend on the forms of answer that are scored.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, Self, TypeVar

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.coordinates import Coordinates
from harness.errors import ModelError, ParseError, UsageError, raise_all
from harness.frames import FramePolicy
from harness.models.answers import combine_answers
from harness.models.canvas import Canvas
from harness.models.chat_result import ChatResult, calls_of, with_cuts
from harness.models.composition import TRANSFORMERS
from harness.models.dt_r1.answers import FORMS, answer_for, write_answer
from harness.models.dt_r1.environment import (
    MAX_CYCLES,
    MAX_TWIN_TOKENS,
    Limits,
    Perception,
    TwinEnvironment,
    TwinEpisode,
)
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.grammar import STOPS, reasoning_of
from harness.models.dt_r1.output_cache import built_ahead
from harness.models.dt_r1.prompt import TwinPrompt
from harness.models.factory import at_least, build_chat, build_frame_policy
from harness.models.multi_turn import ConversingModel
from harness.models.prompts import Wording
from harness.models.rollout import Transcript, Turn, write_rollout
from harness.options import Carried, Only, with_options
from harness.responses import storable
from harness.segmentation import Propagator, Segmenter
from harness.spec import Spec
from harness.types import (
    Answer,
    AnswerForm,
    Call,
    Failure,
    FailureKind,
    Parsed,
    ParsedObject,
    Prediction,
    Query,
    Usage,
)

LOCAL = Spec("local")


@dataclass(frozen=True, kw_only=True)
class TwinOptions:
    """Options of the methods that reason over a digital twin."""

    checkpoint: str | None = None
    """A folder, or a name that the Hugging Face cache holds; handed to the backend."""
    backend: Spec | Chat = TRANSFORMERS
    """Backend that calls the language model."""
    nodes: Spec = LOCAL
    """Perception node behind each name of a plan: `paper`, `local` (no downloads), or one of them
    with changes, such as `local(SAM2=pocket_sam)`."""
    twins: str | None = None
    """Folder that `harness twin build` filled: what its nodes saw is read there, not looked for
    again, and what it lacks is added. It changes no response."""
    sandbox: str = "auto"
    """Tier of the sandbox that code runs in; `auto`: the strongest that is here."""
    workers: int = 2
    """Sandbox workers, and threads for perception and code."""
    frames: Carried[int | Spec | FramePolicy | None] = 8
    """Number of frames of a video that the twin describes, evenly spread, or a rule."""
    cycles: Carried[int] = MAX_CYCLES
    """m, the blocks of code that are run (Figure 4)."""
    persist: Carried[bool] = False
    """Run earlier blocks again before each one, so that their names are there."""
    twin_tokens: Carried[int] = MAX_TWIN_TOKENS
    """Longest twin, in tokens."""
    max_new_tokens: Carried[int] = 8192
    """Longest response, in tokens, twin and results included."""
    code_seconds: float = 10.0
    """Seconds that a block of code may take."""
    prompt: Carried[Wording] = "paper"
    """`paper`; `short`: little but the question, for networks that learn the rest in training."""
    details: Annotated[Carried[bool], Only(prompt="paper")] = True
    """Say after the paper's words how plans and answers are written."""
    batch_size: int = 8
    """Number of queries at once."""
    system: Carried[str | None] = None
    """System message; None leaves it to the checkpoint's chat template."""
    seed: int = 0
    """Seed of a backend that samples, unless the backend's SPEC names one."""

    def build(self, model_class: type["DTR1Kind"], name: str) -> "DTR1Kind":
        """Build a model of the class `model_class` (`DTR1` or `JiT`) with these options.

        Raises:
            UsageError: a number is out of range.
            HarnessError: the checkpoint or a node is not available.
        """
        at_least(name, 0, cycles=self.cycles)
        at_least(name, 16, twin_tokens=self.twin_tokens)
        at_least(name, 1, workers=self.workers, batch_size=self.batch_size)
        at_least(name, 1, max_new_tokens=self.max_new_tokens)
        builder = TwinBuilder(
            self.nodes,
            frames=build_frame_policy(self.frames),
            cache=None if self.twins is None else built_ahead(Path(self.twins)),
        )
        try:
            chat = build_chat(
                self.backend, checkpoint=self.checkpoint, batch_size=self.batch_size, seed=self.seed
            )
        except ModelError as error:  # one message for the checkpoint and all missing nodes
            raise_all(f"model {name}", {"checkpoint": error, **builder.faults(load=False)})
            raise
        return model_class(
            name=name,
            chat=chat,
            prompt=TwinPrompt(builder.catalog.text(), self.prompt, self.details),
            perception=Perception(builder, tier=self.sandbox, workers=self.workers),
            limits=Limits(
                cycles=self.cycles,
                twin_tokens=self.twin_tokens,
                code_seconds=self.code_seconds,
                persist=self.persist,
            ),
            max_new_tokens=self.max_new_tokens,
            system=self.system,
            batch_size=self.batch_size,
        )


@dataclass(frozen=True, slots=True)
class TwinResult:
    """The finished conversation about one query; `begin` reads it into a prediction."""

    chat: ChatResult
    episode: TwinEpisode
    texts: tuple[str, ...]
    """Texts that the network wrote, turn by turn."""
    cut: bool
    """True if the rollout reached its limit of tokens."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the network, for the record of a failure."""
        return self.chat.calls


@dataclass(frozen=True, kw_only=True)
class DTR1(ConversingModel[TwinResult]):
    """A language model in conversation with an environment of perception nodes and a sandbox.

    A prediction's responses are the network's turns. Reading them again builds the same twin and
    runs the same code. The prefix of a recorded `Call` is all text before the turn, injected text
    included.
    """

    name: str
    prompt: TwinPrompt
    perception: Perception
    limits: Limits
    max_new_tokens: int = 8192
    system: str | None = None
    coordinates: Coordinates = "pixels"

    def describe(self) -> Mapping[str, Any]:
        """Return plain data for the record: every setting, and the prompt as it is sent."""
        return {
            "name": self.name,
            "chat": dict(self.chat.describe()),
            "prompt": self.prompt.name,
            "prompt_text": self.prompt.render("QUESTION"),
            "system": self.system,
            "perception": self.perception.describe(),
            **asdict(self.limits),
            "max_new_tokens": self.max_new_tokens,
            "batch_size": self.batch_size,
        }

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that this model can give."""
        return FORMS

    def prepare(self) -> None:
        """Load the network and the nodes, and open the sandbox.

        Raises:
            UsageError: the backend cannot continue a response.
            HarnessError: it lists every part that cannot be loaded or opened.
        """
        self._check_chat()
        self.perception.prepare(backend=self.chat.prepare)

    @cached_property
    def environment(self) -> TwinEnvironment:
        """The environment; the trainer uses the same class."""
        return TwinEnvironment(
            perception=self.perception, limits=self.limits, count_tokens=self.chat.count_tokens
        )

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the first request; there is one, however many forms of answer a query has."""
        return (
            ChatRequest(
                key=query.id,
                text=self.prompt.render(question(query)),
                stop=STOPS,
                system=self.system,
                max_new_tokens=self.max_new_tokens,
            ),
        )

    def canvas(self, request: ChatRequest) -> Canvas:
        """Return an identity canvas: a response's numbers are pixels of the original image."""
        del request
        return Canvas((1, 1), (1, 1))

    def conversation(self, query: Query) -> Conversation[TwinResult]:
        """Write the query's rollout with `write_rollout`, as training does."""
        episode = self.environment(query)
        (request,) = self.requests(query)
        transcript = yield from write_rollout(
            request, episode, self.chat, Transcript(), who=self.name
        )
        return self._result(query, transcript, episode)

    def begin(self, query: Query, result: TwinResult) -> Callable[[], Prediction]:
        """Return the function that reads the finished conversation into a prediction."""

        def read() -> Prediction:
            prediction = result.chat.with_usage(self._read(query, result.episode, result.texts))
            return with_cuts(prediction, [result.cut])

        return read

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Return the prediction of a network's turns; the twin is rebuilt, the code run again."""
        del calls
        episode = self.environment(query)
        for text in responses:
            finished(episode(text))
        return self._read(query, episode, tuple(responses))

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the turns that `read` reads as `answer`; for a query with one form of answer."""
        code, last_turn = write_answer(query, query.form, answer)
        node = next(iter(self.perception.builder.catalog))
        plan_turn = f"<think></think><dt_plan>{json.dumps({node: []})}</dt_plan>"
        code_turns = [f"<think></think><execute>{code}</execute>"] if code else []
        return (plan_turn, *code_turns, last_turn)

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return the same model: its masks come from nodes and code, not from a segmenter."""
        del segmenter, propagator
        return self

    def _check_chat(self) -> None:
        """Raise UsageError if the backend cannot continue a response after an injected text."""
        if not self.chat.goes_on:
            raise UsageError(
                f"{self.name}, backend {type(self.chat).__name__}",
                expected="a backend that continues what the network has begun",
                found="one that begins each response anew",
                fix="Use jit, or a network in process.",
            )

    def _result(self, query: Query, transcript: Transcript, episode: TwinEpisode) -> TwinResult:
        """Return the rollout as recorded calls: each with all text before it as its prefix."""
        before = transcript.start
        requests: list[ChatRequest] = []
        responses: list[ChatResponse] = []
        turn_texts: list[str] = []
        for part in transcript.parts:
            if part.call is not None:
                request, response = part.call
                requests.append(replace(request, prefix=before))
                responses.append(replace(response, text=f"{before}{part.text}"))
                turn_texts.append(part.text if turn_texts else f"{transcript.start}{part.text}")
            before += part.text
        result = ChatResult(tuple(responses), calls_of(query, requests, responses), frames=0)
        return TwinResult(result, episode, tuple(turn_texts), transcript.cut)

    def _read(self, query: Query, episode: TwinEpisode, turn_texts: Sequence[str]) -> Prediction:
        """Return the prediction of an episode that has ended.

        A failure of perception or sandbox fails the sample as infrastructure, even with an answer.
        """
        failure, answers, parsed = None, [], []
        if episode.infrastructure:
            reason = "; ".join(episode.infrastructure)[:2000]
            failure = Failure(FailureKind.INFRASTRUCTURE, reason)
        if failure is None and episode.answer is None:
            failure = Failure(FailureKind.PARSE, episode.answer_error or "there is no answer")
        for form in query.forms:
            if episode.answer is None:
                error = episode.answer_error or "there is no answer"
                parsed.append(Parsed(form=form, error=storable(error, 2000)))
                continue
            try:
                answer = answer_for(query, form, episode.answer)
                answers.append(partial(replace, answer))  # `combine_answers` calls each
                parsed.append(Parsed(form=form, objects=_objects(episode)))
            except ParseError as error:
                parsed.append(Parsed(form=form, error=storable(str(error), 2000)))
        if failure is None and not answers:
            failure = Failure(FailureKind.PARSE, "; ".join(entry.error for entry in parsed))
        layout = episode.layout
        count_tokens = self.chat.count_tokens
        return Prediction(
            query_id=query.id,
            answer=None if failure is not None else combine_answers(answers),
            failure=failure,
            responses=tuple(map(storable, turn_texts)),
            parsed=tuple(parsed),
            usage=Usage(
                completion_tokens=sum(map(count_tokens, turn_texts)),
                reasoning_tokens=count_tokens(reasoning_of(layout)),
            ),
            notes=tuple(_notes(episode, layout.fault)),
        )


DTR1Kind = TypeVar("DTR1Kind", bound=DTR1)


def finished(turn: Turn | Future[Turn]) -> Turn:
    """Return a turn; wait for it if it is a future."""
    return turn.result() if isinstance(turn, Future) else turn


def question(query: Query) -> str:
    """Return a query's text, followed by its options ("A. …") and the request for a letter."""
    if not query.options:
        return query.text
    listed = (
        f"{letter}. {text}" for letter, text in zip(ascii_uppercase, query.options, strict=False)
    )
    return "\n".join([query.text, *listed, "Answer with the letter of the right option."])


def _objects(episode: TwinEpisode) -> tuple[ParsedObject, ...]:
    """Return the boxes of a grounding answer for the record; other answers have none."""
    answer = episode.answer
    if answer is None or answer.instances is None:
        return ()
    return tuple(
        ParsedObject(box=instance.box, phrase=storable(instance.name))
        for instance in answer.instances
    )


def _notes(episode: TwinEpisode, fault: str) -> Iterator[str]:
    """Yield the notes of a prediction: faults of grammar, plan and nodes, and counts of code."""
    if fault:
        yield f"not in the grammar: {storable(fault, 200)}"
    if episode.plan_error is not None:
        yield f"plan: {storable(episode.plan_error, 200)}"
    if episode.twin is not None:
        yield from (
            f"node {name}: {node_fault.reason}"[:200]
            for name, node_fault in episode.twin.faults.items()
        )
    failed = sum(result.error is not None for result in episode.results)
    if episode.results:
        yield f"blocks of code: {len(episode.results)}, failed: {failed}"


@with_options(TwinOptions)
def dt_r1(options: TwinOptions) -> DTR1:
    """DT-R1: plans a digital twin, computes on it in a sandbox, and answers from it.

    The paper's is `dt_r1(checkpoint=DIR,nodes=paper)` with DeepSeek-R1-Distill-Qwen-7B, trained.
    """
    return options.build(DTR1, "dt_r1")
