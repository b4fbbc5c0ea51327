"""Search the key segment and target frame of videos, by conversations with the voting network.

`VideoSegR1` calls it before the reasoner's request. Searches of several queries run side by side.
"""

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
from harness.models.videoseg_r1.sampler import KeyChoice, Sampler
from harness.responses import storable
from harness.types import Query


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The choice that a search made, with its requests and responses."""

    choice: KeyChoice
    requests: tuple[ChatRequest, ...]
    responses: tuple[ChatResponse, ...]
    """The response to each request."""

    @property
    def frames(self) -> int:
        """Number of frames that the sampler saw in all requests."""
        return sum(len(frames) for request in self.requests for frames in request.frames)


def is_looked_for(query: Query) -> bool:
    """Return True if a query asks for places in a video."""
    return len(query.media[0]) > 1 and any(form in LOCATED for form in query.forms)


def first_turn(
    query: Query, *, sampler: Sampler, showing: FrameDisplay
) -> Sequence[ChatRequest] | KeyChoice:
    """Return the first requests of a search, or its result if it needs no request."""
    try:
        requests = next(searched(query, sampler, showing))
    except StopIteration as end:
        result: SearchResult = end.value
        return result.choice
    assert not isinstance(requests, Future), "a search waits for responses only"
    return requests


def search_frames(
    queries: Sequence[Query], *, sampler: Sampler, showing: FrameDisplay, voters: Chat
) -> list[SearchResult | None]:
    """Return the search result of each query; None for an image or a question in words."""
    searches = [searched(query, sampler, showing) for query in queries if is_looked_for(query)]
    results = iter(converse(voters, searches))
    return [next(results) if is_looked_for(query) else None for query in queries]


def with_frame_names(
    query: Query,
    requests: Sequence[ChatRequest],
    responses: tuple[ChatResponse, ...],
    search: SearchResult | None,
) -> ChatResult:
    """Return the reasoner's responses and those of the search as one result.

    Responses about places get the tag `<frame>k</frame>` of the target frame in front.
    """
    if search is None:
        return ChatResult.from_calls(query, requests, responses)
    tag = frame_tag(search.choice.target)
    tagged = (
        replace(response, text=f"{tag}{response.text}") if form in LOCATED else response
        for form, response in zip(query.forms, responses, strict=True)
    )
    n_frames = sum(len(frames) for request in requests for frames in request.frames)
    calls = calls_of(query, (*search.requests, *requests), (*search.responses, *responses))
    return ChatResult((*search.responses, *tagged), calls, n_frames + search.frames)


def searched(query: Query, sampler: Sampler, showing: FrameDisplay) -> Conversation[SearchResult]:
    """Return the conversation that searches one query's video, turn by turn of votes."""
    search = sampler.search(query.media[0].times(), key=query.id)
    requests, responses = list[ChatRequest](), list[ChatResponse]()
    try:
        vote_request = next(search)
        while True:
            turn = showing.sampler_requests(query, vote_request, key=query.id)
            output = yield turn
            requests += turn
            responses += output
            vote_request = search.send([storable(response.text) for response in output])
    except StopIteration as end:
        return SearchResult(end.value, tuple(requests), tuple(responses))
