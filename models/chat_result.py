"""The responses of a network to one query, the calls that led to them, and their cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from harness.chat import ChatRequest, ChatResponse
from harness.media import Media
from harness.models.backends.shown_media import frames_shown
from harness.responses import storable
from harness.types import Call, GenerationSettings, Prediction, Query, Request, Shown


@dataclass(frozen=True, slots=True)
class ChatResult:
    """The responses of a network to one query."""

    responses: tuple[ChatResponse, ...]
    calls: tuple[Call, ...] = ()
    """Every call that led to the responses, in order."""
    frames: int | None = None
    """Number of frames that were shown, if it is not the rule's."""

    @classmethod
    def from_calls(
        cls, query: Query, requests: Sequence[ChatRequest], responses: Sequence[ChatResponse]
    ) -> Self:
        """Join a query's requests and the responses to them."""
        return cls(tuple(responses), calls_of(query, requests, responses))

    def with_usage(self, prediction: Prediction) -> Prediction:
        """Add the calls, and the network's counts of tokens and frames, to a prediction."""
        again = [
            f"asked again, begun with {response.again!r}"
            + (f", to no avail: {response.in_vain}" if response.in_vain else "")
            for response in self.responses
            if response.again
        ]
        cut = [
            "cut off" if response.again else f"cut off after {response.completion_tokens} tokens"
            for response in self.responses
            if response.cut
        ]
        usage = replace(
            prediction.usage,
            prompt_tokens=sum(response.prompt_tokens for response in self.responses),
            completion_tokens=sum(response.completion_tokens for response in self.responses),
            frames=prediction.usage.frames if self.frames is None else self.frames,
        )
        notes = (*prediction.notes, *again, *cut)
        marked = with_cuts(prediction, [response.cut for response in self.responses])
        return replace(marked, calls=self.calls, usage=usage, notes=notes)


def with_cuts(prediction: Prediction, cut: Sequence[bool]) -> Prediction:
    """Mark what was parsed of responses that reached their limit.

    Args:
        prediction: What the responses were read as.
        cut: Whether each response reached its limit; earlier ones than those that were parsed are
            votes and turns. One that several forms were parsed from stands for all of them.
    """
    number = len(prediction.parsed)
    last = cut[-number:] if len(cut) >= number else [any(cut)] * number
    both = zip(prediction.parsed, last, strict=False)
    return replace(
        prediction, parsed=tuple(replace(parsed, cut=was_cut) for parsed, was_cut in both)
    )


def calls_of(
    query: Query, requests: Sequence[ChatRequest], responses: Sequence[ChatResponse]
) -> tuple[Call, ...]:
    """Return the calls behind responses as plain data: frames by number and time, without
    pixels.
    """
    return tuple(
        Call(
            request=Request(
                text=storable(sent.text),
                system=None if sent.system is None else storable(sent.system),
                shown=_shown_media(query, sent, () if response is None else response.canvases),
                prefix=storable(sent.prefix),
                temperature=sent.temperature,
                earlier=sent.earlier,
                generation=None if query.generation is None else _generation(sent),
            ),
            key=sent.key.removeprefix(query.id),
            response=None if response is None else storable(response.text),
            model="" if response is None else response.model,
        )
        for request, answered in zip(requests, responses, strict=True)
        for sent, response in answered.calls_of(request)
    )


def _generation(request: ChatRequest) -> GenerationSettings:
    return GenerationSettings(
        max_new_tokens=request.max_new_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop,
    )


def _shown_media(
    query: Query, request: ChatRequest, canvases: Sequence[tuple[int, int]]
) -> tuple[Shown, ...]:
    media = []
    for place, medium in enumerate(request.media):
        frames = frames_shown(request, place)
        times = medium.times()
        media.append(
            Shown(
                medium=_place(query, medium),
                frames=frames,
                times=tuple(round(times[frame], 3) for frame in frames) if medium.is_video else (),
                resize=request.squash(place),
                canvas=canvases[place] if place < len(canvases) else None,
            )
        )
    return tuple(media)


def _place(query: Query, medium: Media) -> int | str:
    """Return the place of a medium among the query's, or its content id."""
    for place, own in enumerate(query.media):
        if own is medium:
            return place
    return medium.id
