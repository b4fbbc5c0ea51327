"""JiT: a chat model plans a digital twin and answers from it, without training.

Two requests: one for the plan, and one more if that is none; then one for the answer, which is made
again with the results after each block of code. So any chat model will do: none continues a
response. Executor, sandbox, grammar and limits are DT-R1's.
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

CLOSED = "</dt_plan>"
PLANS = 2
"""Requests for a plan: one more where the first is refused."""


@dataclass(frozen=True, kw_only=True)
class JiT(DTR1):
    """Plans and answers in requests of their own."""

    alpha: float | None = None
    """Weight of the current frame in smoothed masks; None: they are not smoothed."""
    window: int = 0
    """Frames that smoothing looks back over; 0: all."""

    def describe(self) -> Mapping[str, Any]:
        """Return plain data for the record."""
        own = {"alpha": self.alpha, "window": self.window}
        texts = {"prompt": "jit", "prompt_text": self.plan_prompt("QUESTION")}
        return {**super().describe(), **texts, **own}

    def plan_prompt(self, text: str) -> str:
        """Return the request for a plan."""
        plain = text_of("harness.models.jit", "plan.txt")
        return fill(plain, Nodes=self.prompt.nodes, Question=text)

    def answer_prompt(self, text: str, twin: str) -> str:
        """Return the request for an answer; `twin` is the block as it was injected."""
        return fill(text_of("harness.models.jit", "reason.txt"), Question=text, Twin=twin)

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the first request: the one for a plan."""
        (first,) = super().requests(query)
        return (replace(first, text=self.plan_prompt(question(query)), stop=(CLOSED,)),)

    def conversation(self, query: Query) -> Conversation[TwinResult]:
        """Plan, look, and answer."""
        (request,) = self.requests(query)
        requests: list[ChatRequest] = []
        responses: list[ChatResponse] = []
        texts: list[str] = []

        def written(response: ChatResponse) -> str:
            requests.append(request)
            responses.append(response)
            texts.append(f"{response.text}{response.stopped}")
            return texts[-1]

        for attempt in range(PLANS):
            episode = self.environment(query)
            (response,) = yield (request,)
            turn = yield from _waited(episode, as_plan(written(response)))
            if episode.plan is not None or attempt + 1 == PLANS:
                break
            request = replace(
                request,
                key=f"{query.id}/again",
                text=f"{request.text}\n\nYour last plan was refused: {episode.plan_error}",
            )
        text = self.answer_prompt(question(query), turn.inject or "")
        for number in range(1, self.limits.cycles + 3):
            request = replace(
                request, key=f"{query.id}/turn{number}", text=text, stop=turn.stop or STOPS
            )
            (response,) = yield (request,)
            output = as_turn(written(response))
            turn = yield from _waited(episode, output)
            if turn.inject is None:
                break
            text = f"{text}\n\n{output}\n{turn.inject}\n\nGo on."
        chat = ChatResult.from_calls(query, requests, responses)
        return TwinResult(replace(chat, frames=0), episode, tuple(texts), responses[-1].cut)

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Read responses: a plan, or two if the first is refused, then turns of the answer."""
        del calls
        left, episode = list(responses), self.environment(query)
        for _ in range(min(PLANS, len(left))):
            episode = self.environment(query)
            finished(episode(as_plan(left.pop(0))))
            if episode.plan is not None:
                break
        for text in left:
            finished(episode(as_turn(text)))
        return self._read(query, episode, tuple(responses))

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that `read` reads as `answer`."""
        plan, *turns = super().write(query, answer)
        return (plan.removeprefix("<think></think>"), *turns)

    def _read(self, query: Query, episode: TwinEpisode, texts: Sequence[str]) -> Prediction:
        answer = episode.answer
        if self.alpha is not None and answer is not None and answer.masks is not None:
            masks, *tracks = (
                smoothed(track, alpha=self.alpha, window=self.window)
                for track in (answer.masks, *answer.tracks)
            )
            episode = copy(episode)  # a result may be read twice
            episode.answer = replace(answer, masks=masks, tracks=tuple(tracks))
        return super()._read(query, episode, texts)

    def _check_chat(self) -> None:
        """Any chat will do."""


def as_plan(response: str) -> str:
    """Return the turn with a plan that a chat's response stands for."""
    return f"<think></think><dt_plan>{plan_of(response)}{CLOSED}"


def as_turn(response: str) -> str:
    """Return a chat's response as a turn, its reasoning opened where a template did that."""
    opened = "</think>" in response.partition("<think>")[0]
    return f"<think>{response}" if opened else response


def plan_of(response: str) -> str:
    """Return the text of a chat's response that holds the plan: in its tags, or all of it.

    >>> plan_of('Sure. <dt_plan>{"SAM2": []}')
    '{"SAM2": []}'
    """
    said = after_thought(response)
    inside = tag_text(said, "dt_plan")
    if inside is None:
        _, opened, rest = said.rpartition("<dt_plan>")
        inside = rest if opened else said
    return inside.strip()


def _waited(episode: TwinEpisode, written: str) -> Conversation[Turn]:
    turn = episode(written)
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
