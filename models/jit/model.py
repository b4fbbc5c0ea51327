"""The plugin `jit`: an untrained chat model plans a digital twin, and answers by code over it.

Each step is a request of its own, so that any chat model can be used: none has to continue a
response. The first request asks for a plan of perception nodes (once more if the plan is refused).
The next asks for the answer; after each block of code it is sent again with the results appended.
Executor, sandbox, grammar and limits are those of `dt_r1`.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated, Any

from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import UsageError
from harness.models.chat_result import ChatResult
from harness.models.dt_r1.environment import TwinEpisode
from harness.models.dt_r1.grammar import STOPS
from harness.models.dt_r1.model import DTR1, TwinOptions, TwinResult, finished, question
from harness.models.factory import at_least
from harness.models.jit.smoothing import smoothed
from harness.models.prompts import fill, text_of
from harness.models.rollout import Turn
from harness.options import GIVEN, Only, with_options
from harness.responses import tag_text
from harness.thoughts import after_thought
from harness.types import Answer, Call, Prediction, Query

PLAN_END = "</dt_plan>"
MAX_PLANS = 2
"""Most requests for a plan: a second one follows if the first plan is refused."""


@dataclass(frozen=True, kw_only=True)
class JiT(DTR1):
    """DT-R1 with one request for the plan and one for each turn of the answer."""

    alpha: float | None = None
    """Weight of the current frame in smoothed masks; None: masks are not smoothed."""
    window: int = 0
    """Number of frames that are smoothed over, the current one included; 0: all before it."""

    def describe(self) -> Mapping[str, Any]:
        """Return plain data for the record."""
        smoothing = {"alpha": self.alpha, "window": self.window}
        prompts = {"prompt": "jit", "prompt_text": self.plan_prompt("QUESTION")}
        return {**super().describe(), **prompts, **smoothing}

    def plan_prompt(self, text: str) -> str:
        """Return the request for a plan; `text` is the question."""
        template = text_of("harness.models.jit", "plan.txt")
        return fill(template, Nodes=self.prompt.nodes, Question=text)

    def answer_prompt(self, text: str, twin: str) -> str:
        """Return the request for an answer; `twin` is the `<dt_rep>` block of the environment."""
        return fill(text_of("harness.models.jit", "reason.txt"), Question=text, Twin=twin)

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the first request: the one for a plan."""
        (first,) = super().requests(query)
        return (replace(first, text=self.plan_prompt(question(query)), stop=(PLAN_END,)),)

    def conversation(self, query: Query) -> Conversation[TwinResult]:
        """Yield the requests for plan and answer; run perception and code between them."""
        (request,) = self.requests(query)
        requests: list[ChatRequest] = []
        responses: list[ChatResponse] = []
        turn_texts: list[str] = []

        def record(response: ChatResponse) -> str:
            """Store the present request and its response; return the text of the turn."""
            requests.append(request)
            responses.append(response)
            turn_texts.append(f"{response.text}{response.stopped}")
            return turn_texts[-1]

        for attempt in range(MAX_PLANS):
            episode = self.environment(query)
            (response,) = yield (request,)
            turn = yield from _next_turn(episode, as_plan(record(response)))
            if episode.plan is not None or attempt + 1 == MAX_PLANS:
                break
            request = replace(
                request,
                key=f"{query.id}/again",
                text=f"{request.text}\n\nYour last plan was refused: {episode.plan_error}",
            )
        text = self.answer_prompt(question(query), turn.inject or "")
        # a turn for each block of code, one for a block beyond the limit, and one for the answer
        for number in range(1, self.limits.cycles + 3):
            request = replace(
                request, key=f"{query.id}/turn{number}", text=text, stop=turn.stop or STOPS
            )
            (response,) = yield (request,)
            output = as_turn(record(response))
            turn = yield from _next_turn(episode, output)
            if turn.inject is None:
                break
            text = f"{text}\n\n{output}\n{turn.inject}\n\nGo on."
        chat = ChatResult.from_calls(query, requests, responses)
        return TwinResult(replace(chat, frames=0), episode, tuple(turn_texts), responses[-1].cut)

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Return the prediction of responses: a plan (two if one is refused), then answer turns."""
        del calls
        remaining, episode = list(responses), self.environment(query)
        for _ in range(min(MAX_PLANS, len(remaining))):
            episode = self.environment(query)
            finished(episode(as_plan(remaining.pop(0))))
            if episode.plan is not None:
                break
        for text in remaining:
            finished(episode(as_turn(text)))
        return self._read(query, episode, tuple(responses))

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that `read` reads as `answer`."""
        plan, *turns = super().write(query, answer)
        return (plan.removeprefix("<think></think>"), *turns)

    def _read(self, query: Query, episode: TwinEpisode, turn_texts: Sequence[str]) -> Prediction:
        """Return the prediction of an episode that has ended, with smoothed masks if asked for."""
        answer = episode.answer
        if self.alpha is not None and answer is not None and answer.masks is not None:
            masks, *tracks = (
                smoothed(track, alpha=self.alpha, window=self.window)
                for track in (answer.masks, *answer.tracks)
            )
            episode = copy(episode)  # the episode may be read again and must stay unsmoothed
            episode.answer = replace(answer, masks=masks, tracks=tuple(tracks))
        return super()._read(query, episode, turn_texts)

    def _check_chat(self) -> None:
        """Accept any chat: none has to continue a response or stop at a tag."""


def as_plan(response: str) -> str:
    """Return a chat's response to the plan request as the first turn of DT-R1's grammar."""
    return f"<think></think><dt_plan>{plan_of(response)}{PLAN_END}"


def as_turn(response: str) -> str:
    """Return a chat's response as a turn; `<think>` is added if the chat template opened it."""
    opened_by_template = "</think>" in response.partition("<think>")[0]
    return f"<think>{response}" if opened_by_template else response


def plan_of(response: str) -> str:
    """Return the plan in a chat's response: the content of `<dt_plan>`, or all after the thought.

    >>> plan_of('Sure. <dt_plan>{"SAM2": []}')
    '{"SAM2": []}'
    """
    text = after_thought(response)
    plan = tag_text(text, "dt_plan")
    if plan is None:  # the tag is not closed, or there is none
        plan = text.rpartition("<dt_plan>")[2]
    return plan.strip()


def _next_turn(episode: TwinEpisode, text: str) -> Conversation[Turn]:
    """Give the episode what was written; yield its future, if it returns one, and its turn."""
    turn = episode(text)
    if isinstance(turn, Future):
        yield turn
    return finished(turn)


@with_options(TwinOptions, max_new_tokens=2048, without=["prompt", "details"])
def jit(
    options: TwinOptions,
    *,
    alpha: float | None = None,
    window: Annotated[int, Only(alpha=GIVEN)] = 0,
) -> JiT:
    """JiT (zero-shot digital twins): any chat model plans the perception and reasons over it.

    Args:
        max_new_tokens: Longest response of a request, in tokens.
        alpha: Weight of the current frame in masks that are smoothed over a video's frames; None:
            they are not. The papers give no value.
        window: Frames that smoothing looks back over, the current one included; 0: all.
    """
    if alpha is not None and not 0 < alpha <= 1:
        raise UsageError("jit(alpha=…)", expected="more than 0, at most 1", found=str(alpha))
    at_least("jit", 0, window=window)
    return replace(options.build(JiT, "jit"), alpha=alpha, window=window)
