"""Frame searches of several queries side by side: each is a conversation with the voters.

A search that is over can be gone through again from what it was told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.model import Chat, ChatReply, ChatRequest, Conversation
from harness.models.asked import Asked
from harness.models.compose import LOCATED
from harness.models.conversing import converse
from harness.models.grammar import frame_tag
from harness.models.videoseg_r1.sampler import Place, Sampler, Search
from harness.models.videoseg_r1.showing import Showing
from harness.replies import storable
from harness.types import Query


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a frame search, with its responses."""

    place: Place
    replies: tuple[ChatReply, ...]
    frames: int
    """Frames that the sampler saw."""


@dataclass(slots=True)
class _Open:
    """A search that is not at its end."""

    query: Query
    search: Search
    replies: list[ChatReply] = field(default_factory=list)
    frames: int = 0
    told: Sequence[str] | None = None

    def turn(self, showing: Showing) -> list[ChatRequest] | Place:
        """Return the next requests, or the place where the search has ended."""
        try:
            ask = next(self.search) if self.told is None else self.search.send(self.told)
        except StopIteration as end:
            place: Place = end.value
            return place
        requests = showing.sampled(self.query, ask, key=self.query.id)
        self.frames += sum(len(shown) for one in requests for shown in one.frames)
        return requests

    def tell(self, replies: Sequence[ChatReply]) -> None:
        self.replies += replies
        self.told = [storable(reply.text) for reply in replies]


def is_looked_for(query: Query) -> bool:
    """Return True if a query asks for places in a video."""
    return len(query.media[0]) > 1 and any(form in LOCATED for form in query.forms)


def again(
    query: Query, said: Sequence[str], *, sampler: Sampler, showing: Showing
) -> tuple[list[ChatRequest], Place | None]:
    """Replay a search with known responses; return its requests, and its place if it has ended.

    Replies that do not suffice are gone through as far as they reach: then there is no place, and
    the last requests are those that were not answered.
    """
    one, asked = _begun(query, sampler), list[ChatRequest]()
    while not isinstance(turn := one.turn(showing), Place):
        replies = said[len(asked) : len(asked) + len(turn)]
        asked += turn
        if len(replies) < len(turn):
            return asked, None
        one.tell([ChatReply(text=reply) for reply in replies])
    return asked, turn


def look(
    queries: Sequence[Query], *, sampler: Sampler, showing: Showing, voters: Chat
) -> list[Found | None]:
    """Find the place in each query's video; None where there is nothing to search.

    That is for a picture, and for a question in words.
    """
    searches = [searched(one, sampler, showing) for one in queries if is_looked_for(one)]
    found = iter(converse(voters, searches))
    return [next(found) if is_looked_for(one) else None for one in queries]


def marked(
    query: Query,
    requests: Sequence[ChatRequest],
    replies: tuple[ChatReply, ...],
    found: Found | None,
) -> Asked:
    """Return the responses; those about places begin with the tag of their frame."""
    if found is None:
        return Asked(replies)
    tag = frame_tag(found.place.target)
    named = (
        replace(reply, text=f"{tag}{reply.text}") if form in LOCATED else reply
        for form, reply in zip(query.forms, replies, strict=True)
    )
    shown = sum(len(frames) for one in requests for frames in one.frames)
    return Asked((*found.replies, *named), shown + found.frames)


def _begun(query: Query, sampler: Sampler) -> _Open:
    return _Open(query, sampler.search(query.media[0].times(), key=query.id))


def searched(query: Query, sampler: Sampler, showing: Showing) -> Conversation[Found]:
    """The search in one query's video: turns of votes, each of which hangs on those before."""
    one = _begun(query, sampler)
    while not isinstance(turn := one.turn(showing), Place):
        one.tell((yield turn))
    return Found(turn, tuple(one.replies), one.frames)
