"""Write one rollout: the network's turns, and the text that an environment injects between them.

    request ─▶ network ─written─▶ Episode ─Turn─▶ injected ─▶ network ─▶ … ─▶ Transcript

Training and evaluation use the same generator, `write_rollout`. It joins tokens, not text, because
text that a network wrote may be tokenized differently the second time. The environment sees the
query and what was written, nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import ModelError
from harness.plugins import plugin_errors
from harness.types import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The environment's answer to a turn of the network."""

    inject: str | None
    """Text to append before the network continues, such as a program's output; None: the end.

    Its tokens are masked out: they do not count in loss, divergence, entropy or length.
    """
    stop: tuple[str, ...] = ()
    """Texts that end the network's next turn."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain data to add to the rollout's facts, such as how often a program ran."""


Episode: TypeAlias = Callable[[str], Turn | Future[Turn]]
"""The function by which an environment answers the turns of one rollout.

It is called after every turn with what the network has written since the last call; on the first
call this includes the text that the template or prefix opened. It must not raise for anything that
a network writes. Slow work is returned as a future, so that other rollouts proceed meanwhile."""
Environment: TypeAlias = Callable[[Query], Episode]
"""Begins the episode of a query, such as a sandbox that runs the code that the network writes."""


class Tokens(Protocol):
    """The tokenizer of a backend: the part of `harness.backend.Chat` that a rollout needs."""

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
    """Token ids; empty if the backend gives none."""
    call: tuple[ChatRequest, ChatResponse] | None = None
    """The call that wrote it; None: it was injected."""


@dataclass(eq=False)
class Transcript:
    """A rollout while it is written."""

    start: str = ""
    """Text before the first part: the template's opening, such as `<think>`, and the `prefix`."""
    parts: list[Part] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    cut: bool = False
    """True if the rollout reached its limit of tokens, injected ones included."""

    @property
    def text(self) -> str:
        """Start and text of all parts."""
        return self.start + "".join(part.text for part in self.parts)

    @property
    def tokens(self) -> list[int]:
        """Token ids of all parts, without those of `start`."""
        return [token for part in self.parts for token in part.tokens]

    @property
    def mask(self) -> list[int]:
        """1 for each of `tokens` that the network wrote, 0 for injected ones."""
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
    """Yield the requests of a rollout turn by turn; return the transcript at its end.

    Args:
        first: Request of the first turn; its `max_new_tokens` limits the whole rollout, injected
            tokens included.
        episode: The environment's function; None: the rollout has one turn.
        tokens: Tokenizer of the backend.
        transcript: Filled as the rollout proceeds, so that a caller can read it after a failure.
        who: Name in errors of the episode.

    Raises:
        ModelError: the episode raised.
    """
    transcript.start = f"{tokens.opening}{first.prefix}"
    request, text_before = first, transcript.start
    while True:
        (response,) = yield (request,)
        if response.tokens:  # else the backend gives text only, and turns are joined as text
            text = tokens.decode(response.tokens)
        else:
            text = f"{response.text.removeprefix(request.prefix)}{response.stopped}"
            if not transcript.parts and "</think>" in text.partition("<think>")[0]:
                # A `</think>` without `<think>`: the server's template opened the thought.
                transcript.start = text_before = "<think>"
        transcript.parts.append(Part(text, response.tokens, (request, response)))
        transcript.cut = response.cut
        if episode is None:
            return transcript
        with plugin_errors(f"environment of {who}", ModelError):
            turn = episode(text_before + text)
        if isinstance(turn, Future):
            yield turn
            with plugin_errors(f"environment of {who}", ModelError):
                turn = turn.result()
        transcript.facts |= turn.facts
        if turn.inject is None or transcript.cut:
            return transcript
        injected = Part(turn.inject, tokens.encode(turn.inject) if response.tokens else ())
        n_used = sum(
            len(part.tokens) or tokens.count_tokens(part.text)
            for part in (*transcript.parts, injected)
        )
        if n_used >= first.max_new_tokens:
            transcript.cut = True
            return transcript
        transcript.parts.append(injected)
        request = replace(
            first,
            key=f"{first.key}/turn{len(transcript.calls)}",
            stop=turn.stop,
            max_new_tokens=first.max_new_tokens - n_used,
        )
        if response.tokens:
            request = replace(request, written=tuple(transcript.tokens))
        else:
            request = replace(request, prefix=transcript.text.removeprefix(tokens.opening))
        text_before = ""
