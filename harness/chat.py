"""Requests to a vision-language network and its responses: what models and backends exchange.

A model builds a `ChatRequest` (text, media, sampling settings); a backend (`harness.backend`)
returns a `ChatResponse` (text, tokens, canvases). A `Conversation` sends several in turn.
"""

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias, TypeVar

from harness.errors import UsageError
from harness.media import Media
from harness.pixel_budget import Resample
from harness.types import EarlierTurn, GenerationSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One turn for a vision-language model."""

    key: str
    """Name of the sample and rollout; it seeds sampling."""
    text: str
    """Backends take special tokens out of it, so that a question cannot end its turn."""
    marks: tuple[str, ...] = ()
    """Special tokens of the request's own wording, such as `<ref>`, that stay in `text`."""
    media: tuple[Media, ...] = ()
    frames: tuple[tuple[int, ...], ...] = ()
    """Frames to show, one tuple a medium, in the medium's order; empty: all of them."""
    times: tuple[tuple[float, ...], ...] = ()
    """Seconds stated for the frames shown, one tuple a medium; an empty one: the medium's own."""
    resize: tuple[int, int] | None = None
    """(width, height) to squash every image to; None leaves it to the processor."""
    resize_others: tuple[int, int] | None = None
    """(width, height) to squash the media after the first to; None: as the first."""
    resample: Resample = "bilinear"
    """Filter by which images are squashed."""
    system: str | None = None
    earlier: tuple[EarlierTurn, ...] = ()
    """Turns before this one. They show the first of `media`, this one the rest; a backend that
    cannot send them refuses."""
    prefix: str = ""
    """Beginning of the response and of its text: the network continues from there."""
    written: tuple[int, ...] = ()
    """Tokens that follow the prompt: the network's earlier turns, and the texts injected between.

    Tokens, because the same text may be tokenized otherwise a second time. Only backends with the
    network in this process take them.
    """
    max_new_tokens: int = 1024
    stop: tuple[str, ...] = ()
    """A response ends before the first of these texts to be complete in what the network writes."""
    temperature: float | None = None
    """Temperature of this response, for a backend that samples; None: the backend's own."""
    top_p: float | None = None
    """Nucleus of this response's distribution; None: the backend's own."""

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ValueError: a stop string is empty, which would end every response at once.
            UsageError: no response can be drawn at this temperature.
        """
        if "" in self.stop:
            raise ValueError(f"request {self.key}: a stop string is empty")
        if self.temperature is not None and not 0.0 <= self.temperature <= 100.0:
            raise UsageError(
                f"request {self.key}",
                expected="0 ≤ temperature ≤ 100",
                found=f"temperature {self.temperature}",
            )

    def temperature_or(self, default: float) -> float:
        """Return the request's temperature, or `default`, the backend's, if it has none."""
        return default if self.temperature is None else self.temperature

    def top_p_or(self, default: float) -> float:
        """Return the request's nucleus, or `default`, the backend's, if it has none."""
        return default if self.top_p is None else self.top_p

    def with_generation(self, settings: GenerationSettings | None) -> Self:
        """Return the same request with the settings that a benchmark prescribes."""
        if settings is None:
            return self
        return replace(
            self,
            max_new_tokens=settings.max_new_tokens or self.max_new_tokens,
            temperature=self.temperature if settings.temperature is None else settings.temperature,
            top_p=self.top_p if settings.top_p is None else settings.top_p,
            stop=(*self.stop, *settings.stop),
        )

    def told(self, index: int) -> tuple[float, ...]:
        """Return the seconds stated for the frames of one medium; empty: the medium's own."""
        return self.times[index] if self.times else ()

    def squash(self, index: int) -> tuple[int, int] | None:
        """Return (width, height) to squash the images of one medium to; None: as they are."""
        return self.resize if index == 0 else self.resize_others or self.resize


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatResponse:
    """A network's response to one request, special tokens removed."""

    text: str
    tokens: tuple[int, ...] = ()
    """Tokens of the response, end token included; empty if the backend does not give them."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut: bool = False
    """True if it reached the limit of new tokens, and no stop string."""
    stopped: str = ""
    """Stop string that ended it, which `text` lacks; empty: none did."""
    canvases: tuple[tuple[int, int], ...] = ()
    """(width, height) of each image or frame set as the network saw it."""
    model: str = field(default="", compare=False)
    """Name under which a server answered; empty: it gave none, or there is no server."""
    calls: tuple[tuple[ChatRequest, "ChatResponse | None"], ...] = ()
    """Requests sent in the request's place, in order, each with its response (None: it failed);
    empty: the request itself, once."""
    again: str = ""
    """Prefix of the second request, sent because the first response could not be read; empty:
    there was one request. Token counts add up both."""
    in_vain: str = ""
    """Reason why this is the first response although a second request was sent; empty: it is not,
    or none was sent."""

    def calls_of(
        self, request: ChatRequest
    ) -> tuple[tuple[ChatRequest, "ChatResponse | None"], ...]:
        """Return every call that led to this response to `request`, with its response."""
        return self.calls or ((request, self),)


Conversation: TypeAlias = Generator[Sequence[ChatRequest] | Future[Any], Sequence[ChatResponse], T]
"""Generator that yields requests and is sent their responses, in order, until it returns a result.

It may also yield a future, to wait for work in another thread: it is sent an empty sequence once
that work is done, and other conversations go on meanwhile.
"""
