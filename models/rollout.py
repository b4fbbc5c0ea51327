"""One rollout: a network's turns, and what its environment injects between them.

    request ─▶ network ─written─▶ Episode ─Turn─▶ injected ─▶ network ─▶ … ─▶ Transcript

The same generator writes the rollouts of a training and the responses of an evaluation. Tokens are
put together, never text: what a network wrote may be tokenized otherwise a second time. The
environment sees the query and what was written, and nothing else.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import ModelError
from harness.plugins import plugin_errors
from harness.types import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The environment's answer to a turn of the network."""

    inject: str | None
    """Text that the rollout goes on from, such as a program's output; None: it has ended.

    Nothing is learned from it: its tokens count in no loss, divergence, entropy or length.
    """
    stop: tuple[str, ...] = ()
    """Texts that end the network's next turn."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain data to add to the rollout's facts."""


class Episode(Protocol):
    """The environment's side of one rollout.

    Called after every turn with what the network has written since the last call, the text that
    its response began with included. It never raises on what a network wrote. What takes long is
    returned as a future, so that other rollouts are written meanwhile.
    """

    def __call__(self, written: str) -> Turn | Future[Turn]: ...  # noqa: D102


class Environment(Protocol):
    """Begins an episode for a query, such as a sandbox that runs what the network writes."""

    def __call__(self, query: Query) -> Episode: ...  # noqa: D102


class Tokens(Protocol):
    """Tokens to text and back: the part of `harness.backend.Chat` that a rollout needs."""

    @property
    def opening(self) -> str: ...  # noqa: D102

    def encode(self, text: str) -> tuple[int, ...]: ...  # noqa: D102

    def decode(self, tokens: Sequence[int]) -> str: ...  # noqa: D102

    def count_tokens(self, text: str) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a rollout that the network wrote, or that was injected."""

    text: str
    tokens: tuple[int, ...] = ()
    """Its tokens; empty where the backend gives none."""
    call: tuple[ChatRequest, ChatResponse] | None = None
    """Call that wrote it; None: it was injected."""


@dataclass(eq=False)
class Transcript:
    """A rollout while it is written."""

    start: str = ""
    """Text before the first part: what the template opens, and the request's `prefix`."""
    parts: list[Part] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    cut: bool = False
    """True if it reached the limit of tokens, injected ones included."""

    @property
    def text(self) -> str:
        """Text of all parts."""
        return self.start + "".join(part.text for part in self.parts)

    @property
    def tokens(self) -> list[int]:
        """Tokens of all parts."""
        return [token for part in self.parts for token in part.tokens]

    @property
    def mask(self) -> list[int]:
        """1 for each token that the network wrote, 0 for injected ones."""
        return [int(part.call is not None) for part in self.parts for _ in part.tokens]

    @property
    def calls(self) -> list[tuple[ChatRequest, ChatResponse]]:
        """Calls of the network, in order."""
        return [part.call for part in self.parts if part.call is not None]


def write_rollout(
    first: ChatRequest,
    episode: Episode | None,
    tokens: Tokens,
    transcript: Transcript,
    *,
    who: str = "the model",
) -> Conversation[Transcript]:
    """Write a rollout to its end: turn after turn, with what the episode injects between them.

    Args:
        first: The request of the first turn; its limit of new tokens is that of the whole rollout,
            injected tokens included.
        episode: The environment's side; None: there is one turn.
        tokens: The backend, or the one whose tokenizer it has.
        transcript: Filled while it is written.
        who: What an error of the episode is blamed on.

    Raises:
        ModelError: the episode raised.
    """
    transcript.start = f"{tokens.opening}{first.prefix}"
    request, written = first, transcript.start
    while True:
        (response,) = yield (request,)
        if response.tokens:
            text = tokens.decode(response.tokens)
        else:
            text = f"{response.text.removeprefix(request.prefix)}{response.stopped}"
            if not transcript.parts and "</think>" in text.partition("<think>")[0]:
                transcript.start = written = "<think>"  # a template opened it, unseen from here
        transcript.parts.append(Part(text, response.tokens, (request, response)))
        transcript.cut = response.cut
        if episode is None:
            return transcript
        with plugin_errors(f"environment of {who}", ModelError):
            turn = episode(written + text)
        if isinstance(turn, Future):
            yield turn
            with plugin_errors(f"environment of {who}", ModelError):
                turn = turn.result()
        transcript.facts |= turn.facts
        if turn.inject is None or transcript.cut:
            return transcript
        injected = Part(turn.inject, tokens.encode(turn.inject) if response.tokens else ())
        left = first.max_new_tokens - sum(
            len(part.tokens) or tokens.count_tokens(part.text)
            for part in (*transcript.parts, injected)
        )
        if left <= 0:
            transcript.cut = True
            return transcript
        transcript.parts.append(injected)
        going_on: dict[str, Any] = (
            {"written": tuple(transcript.tokens)}
            if response.tokens
            else {"prefix": transcript.text.removeprefix(tokens.opening)}
        )
        turns = len(transcript.calls)
        request = replace(
            first,
            key=f"{first.key}/turn{turns}",
            stop=turn.stop,
            max_new_tokens=left,
            **going_on,
        )
        written = ""
