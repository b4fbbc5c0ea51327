"""The responses of a network to one query, the calls that led to them, and their cost.

The first stage of a prompted model returns a `ChatResult`; after reading, `with_usage` adds its
calls, tokens and notes to the `Prediction`, which is what a run records.
"""

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
    """Number of frames that were shown, where it differs from the model's frame setting."""

    @classmethod
    def from_calls(
        cls, query: Query, requests: Sequence[ChatRequest], responses: Sequence[ChatResponse]
    ) -> Self:
        """Join a query's requests and the responses to them."""
        return cls(tuple(responses), calls_of(query, requests, responses))

    def with_usage(self, prediction: Prediction) -> Prediction:
        """Add the calls, and the network's counts of tokens and frames, to a prediction."""
        retried = [
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
        notes = (*prediction.notes, *retried, *cut)
        marked = with_cuts(prediction, [response.cut for response in self.responses])
        return replace(marked, calls=self.calls, usage=usage, notes=notes)


def with_cuts(prediction: Prediction, cut: Sequence[bool]) -> Prediction:
    """Return the prediction with `cut` set on each parsed part whose response reached its limit.

    Args:
        prediction: The answer read from the responses, with one `Parsed` for each form.
        cut: True for each response that reached its limit of tokens. Responses before the last
            `len(prediction.parsed)` are earlier votes or turns. If there are fewer responses than
            forms, one response holds several forms, and any cut counts for all of them.
    """
    n_forms = len(prediction.parsed)
    was_cut_by_form = cut[-n_forms:] if len(cut) >= n_forms else [any(cut)] * n_forms
    marked = [
        replace(parsed, cut=was_cut)
        for parsed, was_cut in zip(prediction.parsed, was_cut_by_form, strict=False)
    ]
    return replace(prediction, parsed=tuple(marked))


def calls_of(
    query: Query, requests: Sequence[ChatRequest], responses: Sequence[ChatResponse]
) -> tuple[Call, ...]:
    """Return every call behind a query's responses, earlier tries too, as data for the record.

    Frames are given by number and time (seconds), without pixels.
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
        for request, final in zip(requests, responses, strict=True)
        for sent, response in final.calls_of(request)
    )


def _generation(request: ChatRequest) -> GenerationSettings:
    """Return the settings of generation that a request was sent with."""
    return GenerationSettings(
        max_new_tokens=request.max_new_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop,
    )


def _shown_media(
    query: Query, request: ChatRequest, canvases: Sequence[tuple[int, int]]
) -> tuple[Shown, ...]:
    """Return frames, times and size of each medium, as the request showed them.

    `canvases` are the sizes (width, height) in which the network saw the media, if it told them.
    """
    media = []
    for index, medium in enumerate(request.media):
        frames = frames_shown(request, index)
        frame_times = medium.times()
        times = request.told(index) or tuple(frame_times[frame] for frame in frames)
        media.append(
            Shown(
                medium=_query_index(query, medium),
                frames=frames,
                times=tuple(round(seconds, 3) for seconds in times) if medium.is_video else (),
                resize=request.squash(index),
                canvas=canvases[index] if index < len(canvases) else None,
            )
        )
    return tuple(media)


def _query_index(query: Query, medium: Media) -> int | str:
    """Return the index of a medium in the query, or its content id."""
    for index, query_medium in enumerate(query.media):
        if query_medium is medium:
            return index
    return medium.id
