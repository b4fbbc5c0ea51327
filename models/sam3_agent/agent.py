"""The loop of the agent: calls of tools, their results, what is kept of a conversation.

    image, query ─▶ VLM ─▶ segment_phrase ─▶ numbered masks ─▶ VLM ─▶ select_masks_and_return
                            ▲ another phrase ◀── examine_each_mask (one request a mask)

By facebookresearch/sam3, sam3/agent/agent_core.py: names and parameters of tools, what a call may
be in each state, messages that are kept, limits. What it raises ends the sample as unreadable.
"""

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

import numpy as np

from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import ParseError
from harness.media import Media
from harness.models.chat_result import ChatResult
from harness.models.grammar import split_frame, take_apart
from harness.models.prompts import fill
from harness.models.sam3_agent.drawing import COLOURS, as_image, from_near, numbered
from harness.responses import loads_strict, storable
from harness.segmentation import Instance
from harness.thoughts import after_thought
from harness.types import Call, EarlierTurn, Query

ROUNDS = 100
"""Largest number of results of tools that are sent back."""
MESSAGES = 10
"""Messages, the system message included, at which a conversation ends."""
OVERLAP = 0.3
"""Share of the smaller mask beyond which the less confident of two masks is dropped."""
CLOSED = "</tool>"
PARAMETERS = {
    "segment_phrase": ["text_prompt"],
    "examine_each_mask": None,
    "select_masks_and_return": ["final_answer_masks"],
    "report_no_mask": None,
}
"""Parameters that each tool may have; None: any, and they are not read."""


@cache
def texts() -> dict[str, str]:
    """Return what is said, by name."""
    plain = tomllib.loads(files(__package__).joinpath("texts.toml").read_text("utf-8"))
    return {name: text.strip() for name, text in plain.items()}


def say(name: str, **given: object) -> str:
    """Return a text with its places filled; what is filled in is not looked at again."""
    return fill(texts()[name], **given) if given else texts()[name]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool."""

    name: str
    phrase: str = ""
    masks: tuple[int, ...] = ()


def read_call(response: str, *, first: bool) -> ToolCall:
    """Read the call in a response: the JSON before the first `</tool>` after its thought.

    Args:
        response: Without what follows the call.
        first: Whether no tool has segmented yet: there is nothing to examine or to select.

    Raises:
        ParseError: there is none, or one that no tool has.
    """
    text = after_thought(response).partition(CLOSED)[0].rpartition("<tool>")[2].strip()
    call = loads_strict(text.replace("}}}", "}}"))
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(name, str) or name not in PARAMETERS:
        raise ParseError("call", expected=f"one of {', '.join(PARAMETERS)}", found=text[:60])
    if first and name not in ("segment_phrase", "report_no_mask"):
        raise ParseError("first call", expected="segment_phrase or report_no_mask", found=name)
    wanted, given = PARAMETERS[name], call.get("parameters")
    if wanted is None:
        return ToolCall(name)
    if not isinstance(given, dict) or list(given) != wanted:
        raise ParseError(f"parameters of {name}", expected=wanted[0], found=json.dumps(given)[:60])
    value = given[wanted[0]]
    if name == "segment_phrase" and isinstance(value, str):
        return ToolCall(name, phrase=storable(value))
    if name == "select_masks_and_return" and isinstance(value, list):
        return ToolCall(name, masks=tuple(number for number in value if type(number) is int))
    raise ParseError(wanted[0], expected="a text, or a list of numbers", found=repr(value)[:60])


def read_verdict(response: str) -> bool:
    """Return True if a mask is accepted.

    Raises:
        ParseError: it is neither accepted nor rejected, or both.
    """
    verdict = after_thought(response).rpartition("<verdict>")[2].partition("</verdict>")[0]
    if ("Accept" in verdict) == ("Reject" in verdict):
        raise ParseError("verdict", expected="Accept or Reject", found=repr(verdict.strip()[:60]))
    return "Accept" in verdict


def without_overlaps(instances: Sequence[Instance]) -> list[Instance]:
    """Return instances by falling confidence, without those that overlap a more confident one.

    Overlap is the intersection over the smaller mask; empty masks are left out.
    """
    kept: list[Instance] = []
    for instance in sorted(instances, key=lambda instance: -instance.score):
        area = int(instance.mask.sum())
        shares = (
            np.count_nonzero(instance.mask & stronger.mask) / min(area, int(stronger.mask.sum()))
            for stronger in kept
        )
        if area and all(share <= OVERLAP for share in shares):
            kept.append(instance)
    return kept


@dataclass(eq=False)
class AgentRun:
    """A conversation about one query, while it goes on and after it."""

    query: Query
    said: list[tuple[ChatRequest, ChatResponse]] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    """Phrases that were segmented."""
    available: list[Instance] | None = None
    """Masks of the last image; None: nothing was segmented yet."""
    chosen: list[Instance] | None = None
    """The answer; None: it did not come to one."""
    error: str = ""

    def __post_init__(self) -> None:
        self.frame = len(self.query.media[0]) // 2
        """Frame of the medium that is shown."""

    @property
    def result(self) -> ChatResult:
        """All requests with their responses."""
        return ChatResult.from_calls(self.query, *zip(*self.said, strict=True))

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the network, for the record of a failure."""
        return self.result.calls

    @property
    def phrase(self) -> str:
        """Phrase of the last segmentation; empty before it."""
        return self.used[-1] if self.used else ""


@dataclass(frozen=True, slots=True)
class _Result:
    """A call of the conversation with its result, as the next request has them."""

    response: str
    text: str
    image: Media | None = None


@dataclass(frozen=True, kw_only=True)
class Agent(ABC):
    """The loop, and what it is told."""

    system: str = field(default_factory=lambda: say("system"))
    judge: str = field(default_factory=lambda: say("judge"))
    """System messages of the rounds, and of the requests about one mask."""
    max_rounds: int = ROUNDS
    max_new_tokens: int = 4096

    @abstractmethod
    def segment(self, media: Media, frame: int, phrase: str) -> Future[list[Instance]]:
        """Find the instances of a phrase in a frame of a medium."""

    def converse(self, run: AgentRun) -> Conversation[AgentRun]:
        """Converse to the end; what cannot be read is the run's `error`."""
        try:
            yield from self._loop(run)
        except ParseError as error:
            run.error = str(error)
        return run

    def _loop(self, run: AgentRun) -> Conversation[None]:
        results: list[_Result] = []  # since the last call of segment_phrase, which is the first
        for number in range(self.max_rounds + 1):
            request = self.request(run, results)
            request = replace(request, key=f"{request.key}/round{number}")
            (response,) = yield from self._ask(run, [request])
            named = take_apart(response).frame if number == 0 else None
            text = split_frame(response)[1] if number == 0 else response
            if named is not None:
                if named >= len(run.query.media[0]):
                    raise ParseError("frame", expected="one of the video", found=str(named))
                run.frame = named
            call = read_call(text, first=run.available is None)
            said = f"{text.partition(CLOSED)[0]}{CLOSED}"
            if call.name == "report_no_mask":
                run.chosen = []
                return
            if call.name == "select_masks_and_return":
                run.chosen = [
                    instance
                    for place, instance in enumerate(run.available or (), 1)
                    if place in call.masks
                ]
                return
            if 2 + 2 * (len(results) + 1) >= MESSAGES:
                raise ParseError(
                    "conversation", expected=f"less than {MESSAGES} messages", found=call.name
                )
            if call.name == "segment_phrase":
                results = [(yield from self._segment(run, said, call.phrase))]
            else:
                last = results[-1]
                if last.image is None:
                    raise ParseError("examine_each_mask", expected="masks", found="none to examine")
                results[-1] = _Result(last.response, say("replaced"))
                results.append((yield from self._examine(run, said, number)))
        raise ParseError("conversation", expected=f"at most {self.max_rounds} rounds", found="more")

    def _segment(self, run: AgentRun, said: str, phrase: str) -> Conversation[_Result]:
        query = run.query.text
        if phrase in run.used:
            return _Result(said, say("repeated", Phrase=phrase, Used=run.used))
        future = self.segment(run.query.media[0], run.frame, phrase)
        yield future
        run.used.append(phrase)
        run.available = without_overlaps(future.result())
        if not run.available:
            return _Result(said, say("none", Phrase=phrase, Query=query))
        text = say("found", Count=len(run.available), Query=query)
        return _Result(said, text, _drawn(run))

    def _examine(self, run: AgentRun, said: str, number: int) -> Conversation[_Result]:
        available, media = run.available or [], run.query.media[0]
        image = media.frame(run.frame)
        requests = [
            ChatRequest(
                key=f"{run.query.id}/round{number}/mask{place}",
                system=self.judge,
                text=say("ask", Query=run.query.text),
                media=(
                    media,
                    as_image(numbered(image, [instance.mask])),
                    as_image(from_near(image, instance.mask, COLOURS[0])),
                ),
                frames=((run.frame,), (0,), (0,)),
                max_new_tokens=self.max_new_tokens,
            )
            for place, instance in enumerate(available, 1)
        ]
        responses = yield from self._ask(run, requests)
        run.available = [
            instance
            for instance, response in zip(available, responses, strict=True)
            if read_verdict(response)
        ]
        if not run.available:
            return _Result(said, say("rejected", Query=run.query.text))
        text = say("kept", Count=len(run.available), Query=run.query.text)
        return _Result(said, text, _drawn(run))

    def _ask(self, run: AgentRun, requests: Sequence[ChatRequest]) -> Conversation[list[str]]:
        responses = yield requests
        run.said += zip(requests, responses, strict=True)
        return [f"{response.text}{response.stopped}" for response in responses]

    def request(self, run: AgentRun, results: Sequence[_Result] = ()) -> ChatRequest:
        """Return the request of a round: query, warning, and what was said since the last phrase.

        Phrases before the last one are warned of; the last one stands in the conversation.
        """
        asked = say("query", Query=run.query.text)
        if results and len(run.used) > 1:
            asked = f"{asked} {say('used', Used=run.used[:-1])}"
        prompts = [(asked, True), *((result.text, result.image is not None) for result in results)]
        shown = [result.image for result in results if result.image is not None]
        return ChatRequest(
            key=run.query.id,
            system=self.system,
            earlier=tuple(
                EarlierTurn(text=text, response=result.response, media=int(has_image))
                for (text, has_image), result in zip(prompts, results, strict=False)
            ),
            text=prompts[-1][0],
            media=(run.query.media[0], *shown),
            frames=((run.frame,), *((0,) for _ in shown)),
            stop=(CLOSED,),
            max_new_tokens=self.max_new_tokens,
        )


def _drawn(run: AgentRun) -> Media:
    image = run.query.media[0].frame(run.frame)
    return as_image(numbered(image, [instance.mask for instance in run.available or ()]))
