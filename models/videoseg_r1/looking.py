"""Frame searches of several queries side by side: each is a conversation with the voters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.model import Chat, ChatRequest, ChatResponse, Conversation
from harness.models.asked import Asked, calls_of
from harness.models.compose import LOCATED
from harness.models.conversing import converse
from harness.models.grammar import frame_tag
from harness.models.videoseg_r1.sampler import Place, Sampler
from harness.models.videoseg_r1.showing import Showing
from harness.responses import storable
from harness.types import Query


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a frame search, with its responses."""

    place: Place
    requests: tuple[ChatRequest, ...]
    responses: tuple[ChatResponse, ...]
    """One a request."""

    @property
    def frames(self) -> int:
        """Count the frames that the sampler saw."""
        return sum(len(shown) for one in self.requests for shown in one.frames)


def is_looked_for(query: Query) -> bool:
    """Return True if a query asks for places in a video."""
    return len(query.media[0]) > 1 and any(form in LOCATED for form in query.forms)


def first_turn(
    query: Query, *, sampler: Sampler, showing: Showing
) -> Sequence[ChatRequest] | Place:
    """Return the requests that a search begins with, or its end if it needs none."""
    try:
        return next(searched(query, sampler, showing))
    except StopIteration as end:
        found: Found = end.value
        return found.place


def look(
    queries: Sequence[Query], *, sampler: Sampler, showing: Showing, voters: Chat
) -> list[Found | None]:
    """Find the place in each query's video; None where there is nothing to search.

    That is for an image, and for a question in words.
    """
    searches = [searched(one, sampler, showing) for one in queries if is_looked_for(one)]
    found = iter(converse(voters, searches))
    return [next(found) if is_looked_for(one) else None for one in queries]


def marked(
    query: Query,
    requests: Sequence[ChatRequest],
    responses: tuple[ChatResponse, ...],
    found: Found | None,
) -> Asked:
    """Return the responses; those about places begin with the tag of their frame."""
    if found is None:
        return Asked.of(query, requests, responses)
    tag = frame_tag(found.place.target)
    named = (
        replace(response, text=f"{tag}{response.text}") if form in LOCATED else response
        for form, response in zip(query.forms, responses, strict=True)
    )
    shown = sum(len(frames) for one in requests for frames in one.frames)
    calls = calls_of(query, (*found.requests, *requests), (*found.responses, *responses))
    return Asked((*found.responses, *named), calls, shown + found.frames)


def searched(query: Query, sampler: Sampler, showing: Showing) -> Conversation[Found]:
    """Search in one query's video: turns of votes, each of which depends on those before."""
    search = sampler.search(query.media[0].times(), key=query.id)
    requests, responses = list[ChatRequest](), list[ChatResponse]()
    try:
        ask = next(search)
        while True:
            turn = showing.sampled(query, ask, key=query.id)
            said = yield turn
            requests += turn
            responses += said
            ask = search.send([storable(response.text) for response in said])
    except StopIteration as end:
        return Found(end.value, tuple(requests), tuple(responses))
