"""Frame searches of several queries side by side: each is a conversation with the voters."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.models.chat_result import ChatResult, calls_of
from harness.models.grammar import frame_tag
from harness.models.multi_turn import converse
from harness.models.prompted_requests import LOCATED
from harness.models.videoseg_r1.frame_display import FrameDisplay
from harness.models.videoseg_r1.sampler import KeySegment, Sampler
from harness.responses import storable
from harness.types import Query


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a frame search, with its responses."""

    place: KeySegment
    requests: tuple[ChatRequest, ...]
    responses: tuple[ChatResponse, ...]
    """One a request."""

    @property
    def frames(self) -> int:
        """Count the frames that the sampler saw."""
        return sum(len(shown) for request in self.requests for shown in request.frames)


def is_looked_for(query: Query) -> bool:
    """Return True if a query asks for places in a video."""
    return len(query.media[0]) > 1 and any(form in LOCATED for form in query.forms)


def first_turn(
    query: Query, *, sampler: Sampler, showing: FrameDisplay
) -> Sequence[ChatRequest] | KeySegment:
    """Return the requests that a search begins with, or its end if it needs none."""
    try:
        requests = next(searched(query, sampler, showing))
    except StopIteration as end:
        result: SearchResult = end.value
        return result.place
    assert not isinstance(requests, Future), "a search waits for nothing but responses"
    return requests


def search_frames(
    queries: Sequence[Query], *, sampler: Sampler, showing: FrameDisplay, voters: Chat
) -> list[SearchResult | None]:
    """Find the place in each query's video; None where there is nothing to search.

    That is for an image, and for a question in words.
    """
    searches = [searched(query, sampler, showing) for query in queries if is_looked_for(query)]
    results = iter(converse(voters, searches))
    return [next(results) if is_looked_for(query) else None for query in queries]


def with_frame_names(
    query: Query,
    requests: Sequence[ChatRequest],
    responses: tuple[ChatResponse, ...],
    search: SearchResult | None,
) -> ChatResult:
    """Return the responses; those about places begin with the tag of their frame."""
    if search is None:
        return ChatResult.from_calls(query, requests, responses)
    tag = frame_tag(search.place.target)
    named = (
        replace(response, text=f"{tag}{response.text}") if form in LOCATED else response
        for form, response in zip(query.forms, responses, strict=True)
    )
    shown = sum(len(frames) for request in requests for frames in request.frames)
    calls = calls_of(query, (*search.requests, *requests), (*search.responses, *responses))
    return ChatResult((*search.responses, *named), calls, shown + search.frames)


def searched(query: Query, sampler: Sampler, showing: FrameDisplay) -> Conversation[SearchResult]:
    """Search in one query's video: turns of votes, each of which depends on those before."""
    search = sampler.search(query.media[0].times(), key=query.id)
    requests, responses = list[ChatRequest](), list[ChatResponse]()
    try:
        ask = next(search)
        while True:
            turn = showing.sampler_requests(query, ask, key=query.id)
            output = yield turn
            requests += turn
            responses += output
            ask = search.send([storable(response.text) for response in output])
    except StopIteration as end:
        return SearchResult(end.value, tuple(requests), tuple(responses))
