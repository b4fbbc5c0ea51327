"""The loop of the SAM 3 agent: tool calls of the VLM, their results, and the messages it sees.

    image, query ─▶ VLM ─▶ segment_phrase ─▶ numbered masks ─▶ VLM ─▶ select_masks_and_return
                            ▲ another phrase ◀── examine_each_mask (one request for each mask)

It follows facebookresearch/sam3, sam3/agent/agent_core.py: names and parameters of the tools, the
calls that are allowed in each state, the messages that stay in the conversation, and the limits. A
response that breaks these rules ends the sample as unreadable.
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
from harness.models.sam3_agent.drawing import COLOURS, as_image, close_up, numbered
from harness.responses import loads_strict, storable
from harness.segmentation import Instance
from harness.thoughts import after_thought
from harness.types import Call, EarlierTurn, Query

MAX_ROUNDS = 100
"""Largest number of tool results that are sent back."""
MAX_MESSAGES = 10
"""Number of messages, system message included, at which a conversation ends."""
MAX_OVERLAP = 0.3
"""Overlap, as a share of the smaller mask, above which the less confident mask is dropped."""
CLOSED = "</tool>"  # ends a tool call, and with it a turn of the VLM
PARAMETERS = {
    "segment_phrase": ["text_prompt"],
    "examine_each_mask": None,
    "select_masks_and_return": ["final_answer_masks"],
    "report_no_mask": None,
}
"""Parameters of each tool; None: any, because they are not read."""


@cache
def message_templates() -> dict[str, str]:
    """Return the templates of all messages to the VLM, by name."""
    by_name = tomllib.loads(files(__package__).joinpath("texts.toml").read_text("utf-8"))
    return {name: text.strip() for name, text in by_name.items()}


def say(name: str, **values: object) -> str:
    """Return the message of this name, filled with values."""
    return fill(message_templates()[name], **values) if values else message_templates()[name]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, with the phrase to segment or the numbers of the selected masks."""

    name: str
    phrase: str = ""
    masks: tuple[int, ...] = ()


def read_call(response: str, *, first: bool) -> ToolCall:
    """Return the tool call in a response: `<tool>{"name": …, "parameters": {…}}</tool>`.

    It is the JSON before the first `</tool>` after the thought.

    Args:
        response: The VLM's text.
        first: True if nothing was segmented yet, so that there is nothing to examine or select.

    Raises:
        ParseError: there is no call, or its name or parameters are not those of an allowed tool.
    """
    text = after_thought(response).partition(CLOSED)[0].rpartition("<tool>")[2].strip()
    call = loads_strict(text.replace("}}}", "}}"))  # a brace too many, as the official code allows
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(name, str) or name not in PARAMETERS:
        raise ParseError("call", expected=f"one of {', '.join(PARAMETERS)}", found=text[:60])
    if first and name not in ("segment_phrase", "report_no_mask"):
        raise ParseError("first call", expected="segment_phrase or report_no_mask", found=name)
    names, parameters = PARAMETERS[name], call.get("parameters")
    if names is None:
        return ToolCall(name)
    if not isinstance(parameters, dict) or list(parameters) != names:
        found_json = json.dumps(parameters)[:60]
        raise ParseError(f"parameters of {name}", expected=names[0], found=found_json)
    value = parameters[names[0]]
    if name == "segment_phrase" and isinstance(value, str):
        return ToolCall(name, phrase=storable(value))
    if name == "select_masks_and_return" and isinstance(value, list):
        return ToolCall(name, masks=tuple(number for number in value if type(number) is int))
    raise ParseError(names[0], expected="a text, or a list of numbers", found=repr(value)[:60])


def read_verdict(response: str) -> bool:
    """Return True if the `<verdict>` of a response accepts a mask.

    Raises:
        ParseError: the verdict is neither Accept nor Reject, or both.
    """
    verdict = after_thought(response).rpartition("<verdict>")[2].partition("</verdict>")[0]
    if ("Accept" in verdict) == ("Reject" in verdict):
        raise ParseError("verdict", expected="Accept or Reject", found=repr(verdict.strip()[:60]))
    return "Accept" in verdict


def without_overlaps(instances: Sequence[Instance]) -> list[Instance]:
    """Return instances by descending confidence, without those that overlap a more confident one.

    Overlap is the intersection over the smaller mask; empty masks are left out.
    """
    separate: list[Instance] = []
    for instance in sorted(instances, key=lambda instance: -instance.score):
        area = int(instance.mask.sum())
        shares = (
            np.count_nonzero(instance.mask & stronger.mask) / min(area, int(stronger.mask.sum()))
            for stronger in separate
        )
        if area and all(share <= MAX_OVERLAP for share in shares):
            separate.append(instance)
    return separate


@dataclass(eq=False)
class AgentRun:
    """The state of the conversation about one query, and its result."""

    query: Query
    exchanges: list[tuple[ChatRequest, ChatResponse]] = field(default_factory=list)
    """All requests with their responses."""
    used: list[str] = field(default_factory=list)
    """Phrases that were segmented."""
    available: list[Instance] | None = None
    """Masks that the VLM can select, numbered from 1; None: nothing was segmented yet."""
    chosen: list[Instance] | None = None
    """The answer; None: there is none (see `error`)."""
    error: str = ""

    def __post_init__(self) -> None:
        self.frame = len(self.query.media[0]) // 2
        """Number of the frame that is shown and segmented."""

    @property
    def result(self) -> ChatResult:
        """All requests with their responses, for the prediction."""
        return ChatResult.from_calls(self.query, *zip(*self.exchanges, strict=True))

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
    """A tool call in the conversation, and the message with its result that follows it."""

    response: str
    """The VLM's response with the call."""
    text: str
    """The result in words."""
    image: Media | None = None
    """The image with numbered masks, if the result has one."""


@dataclass(frozen=True, kw_only=True)
class Agent(ABC):
    """The agent's loop; a subclass gives the segmenter (`segment`)."""

    system: str = field(default_factory=lambda: say("system"))
    """System message of the rounds."""
    judge: str = field(default_factory=lambda: say("judge"))
    """System message of the requests about a single mask."""
    max_rounds: int = MAX_ROUNDS
    max_new_tokens: int = 4096

    @abstractmethod
    def segment(self, media: Media, frame: int, phrase: str) -> Future[list[Instance]]:
        """Find the instances of a phrase in a frame of a medium."""

    def converse(self, run: AgentRun) -> Conversation[AgentRun]:
        """Yield the requests of the conversation to its end; return `run` with answer or error."""
        try:
            yield from self._loop(run)
        except ParseError as error:
            run.error = str(error)
        return run

    def _loop(self, run: AgentRun) -> Conversation[None]:
        """Yield the requests of all rounds, and set `run.chosen` at the end.

        Raises:
            ParseError: a response breaks the rules, or a limit is reached.
        """
        results: list[_Result] = []  # from the last call of segment_phrase on
        for number in range(self.max_rounds + 1):
            request = self.request(run, results)
            request = replace(request, key=f"{request.key}/round{number}")
            (response,) = yield from self._ask(run, [request])
            named_frame = take_apart(response).frame if number == 0 else None
            text = split_frame(response)[1] if number == 0 else response
            if named_frame is not None:
                if named_frame >= len(run.query.media[0]):
                    raise ParseError("frame", expected="one of the video", found=str(named_frame))
                run.frame = named_frame
            call = read_call(text, first=run.available is None)
            call_text = f"{text.partition(CLOSED)[0]}{CLOSED}"  # the response up to its first call
            if call.name == "report_no_mask":
                run.chosen = []
                return
            if call.name == "select_masks_and_return":
                run.chosen = [
                    instance
                    for mask_number, instance in enumerate(run.available or (), 1)
                    if mask_number in call.masks
                ]
                return
            # the system message, the query, and a call and a result for each tool call
            if 2 + 2 * (len(results) + 1) >= MAX_MESSAGES:
                raise ParseError(
                    "conversation", expected=f"less than {MAX_MESSAGES} messages", found=call.name
                )
            if call.name == "segment_phrase":
                results = [(yield from self._segment(run, call_text, call.phrase))]
            else:
                last = results[-1]
                if last.image is None:
                    raise ParseError("examine_each_mask", expected="masks", found="none to examine")
                results[-1] = _Result(last.response, say("replaced"))
                results.append((yield from self._examine(run, call_text, number)))
        raise ParseError("conversation", expected=f"at most {self.max_rounds} rounds", found="more")

    def _segment(self, run: AgentRun, call_text: str, phrase: str) -> Conversation[_Result]:
        """Segment a phrase; return the result to send back, and update `run.available`."""
        query = run.query.text
        if phrase in run.used:
            return _Result(call_text, say("repeated", Phrase=phrase, Used=run.used))
        future = self.segment(run.query.media[0], run.frame, phrase)
        yield future
        run.used.append(phrase)
        run.available = without_overlaps(future.result())
        if not run.available:
            return _Result(call_text, say("none", Phrase=phrase, Query=query))
        text = say("found", Count=len(run.available), Query=query)
        return _Result(call_text, text, _drawn(run))

    def _examine(self, run: AgentRun, call_text: str, number: int) -> Conversation[_Result]:
        """Ask the VLM about each mask alone, and keep those that it accepts in `run.available`."""
        available, media = run.available or [], run.query.media[0]
        image = media.frame(run.frame)
        requests = [
            ChatRequest(
                key=f"{run.query.id}/round{number}/mask{mask_number}",
                system=self.judge,
                text=say("ask", Query=run.query.text),
                media=(
                    media,
                    as_image(numbered(image, [instance.mask])),
                    as_image(close_up(image, instance.mask, COLOURS[0])),
                ),
                frames=((run.frame,), (0,), (0,)),
                max_new_tokens=self.max_new_tokens,
            )
            for mask_number, instance in enumerate(available, 1)
        ]
        responses = yield from self._ask(run, requests)
        run.available = [
            instance
            for instance, response in zip(available, responses, strict=True)
            if read_verdict(response)
        ]
        if not run.available:
            return _Result(call_text, say("rejected", Query=run.query.text))
        text = say("kept", Count=len(run.available), Query=run.query.text)
        return _Result(call_text, text, _drawn(run))

    def _ask(self, run: AgentRun, requests: Sequence[ChatRequest]) -> Conversation[list[str]]:
        """Yield requests, record them with their responses, and return the responses' texts."""
        responses = yield requests
        run.exchanges += zip(requests, responses, strict=True)
        return [f"{response.text}{response.stopped}" for response in responses]

    def request(self, run: AgentRun, results: Sequence[_Result] = ()) -> ChatRequest:
        """Return the request of a round: the query, then calls and results since the last phrase.

        Earlier phrases and their results are left out; the query's message lists these phrases, so
        that they are not tried again.
        """
        question = say("query", Query=run.query.text)
        if results and len(run.used) > 1:
            question = f"{question} {say('used', Used=run.used[:-1])}"
        later = ((result.text, result.image is not None) for result in results)
        prompts = [(question, True), *later]  # (text, True if an image goes with it)
        images = [result.image for result in results if result.image is not None]
        return ChatRequest(
            key=run.query.id,
            system=self.system,
            earlier=tuple(
                EarlierTurn(text=text, response=result.response, media=int(has_image))
                for (text, has_image), result in zip(prompts, results, strict=False)
            ),
            text=prompts[-1][0],
            media=(run.query.media[0], *images),
            frames=((run.frame,), *((0,) for _ in images)),
            stop=(CLOSED,),
            max_new_tokens=self.max_new_tokens,
        )


def _drawn(run: AgentRun) -> Media:
    """Return the image with the available masks and their numbers."""
    image = run.query.media[0].frame(run.frame)
    return as_image(numbered(image, [instance.mask for instance in run.available or ()]))
