"""Conversations with a network, side by side: each request may depend on earlier responses."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from harness.backend import Chat, ConversingChat
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.model import Result, StagedModel
from harness.types import Query

T = TypeVar("T")


class ConversationScheduler(Generic[T]):
    """Conversations that are under way, and all their requests, each in a place."""

    def __init__(
        self,
        conversations: Sequence[Conversation[T]],
        *,
        notify: Callable[[Future[Any]], object] | None = None,
    ) -> None:
        """Begin every conversation.

        Args:
            conversations: They are continued in the caller's thread alone.
            notify: Called in any thread when work that a conversation waits for is done.
        """
        self.requests: list[ChatRequest] = []
        """Requests by place; those of a turn stand together. Responses lead to more of them."""
        self._conversations = conversations
        self._whose: list[int] = []
        self._responses: dict[int, ChatResponse] = {}
        self._turns: dict[int, range] = {}
        """Places of the requests that each conversation waits for."""
        self._working: dict[Future[Any], int] = {}
        """Work that a conversation waits for, with its number."""
        self._notify = notify
        self._ends: dict[int, T] = {}
        self._told = 0
        """Number of ends that `take_finished` has returned."""
        for number in range(len(conversations)):
            self._go_on(number, None)

    def pending_places(self) -> list[int]:
        """Return the places of requests without a response, in order.

        Where there are none but work is under way, its end is waited for.
        """
        self.resume()
        while True:
            places = [place for place in range(len(self.requests)) if place not in self._responses]
            if places or not self._working:
                return places
            wait(self._working, return_when=FIRST_COMPLETED)
            self.resume()

    @property
    def is_working(self) -> bool:
        """Return True if a conversation waits for work."""
        return bool(self._working)

    def resume(self) -> range:
        """Continue the conversations whose work is done.

        Returns:
            The places of the requests that follow.
        """
        before = len(self.requests)
        for future in [future for future in self._working if future.done()]:
            self._go_on(self._working.pop(future), ())
        return range(before, len(self.requests))

    def receive(self, place: int, response: ChatResponse) -> range:
        """Note a response. Its conversation goes on if it waits for no other.

        Returns:
            The places of the requests that follow.
        """
        self._responses[place] = response
        number = self._whose[place]
        output = [self._responses[turn] for turn in self._turns[number] if turn in self._responses]
        before = len(self.requests)
        if len(output) == len(self._turns[number]):
            self._go_on(number, output)
        return range(before, len(self.requests))

    def ends(self) -> list[T]:
        """Return the result of each conversation, in order, once everything is answered."""
        return [self._ends[number] for number in range(len(self._conversations))]

    def take_finished(self) -> list[tuple[int, T]]:
        """Return (number, result) of each conversation that has ended since the last call."""
        new = list(self._ends.items())[self._told :]
        self._told += len(new)
        return new

    def _go_on(self, number: int, output: Sequence[ChatResponse] | None) -> None:
        conversation = self._conversations[number]
        try:
            turn = next(conversation) if output is None else conversation.send(output)
            while not isinstance(turn, Future) and not turn:
                turn = conversation.send(())
        except StopIteration as end:
            self._ends[number] = end.value
            return
        if isinstance(turn, Future):
            self._working[turn] = number
            if self._notify is not None:
                turn.add_done_callback(self._notify)
            return
        self._turns[number] = range(len(self.requests), len(self.requests) + len(turn))
        self.requests += turn
        self._whose += [number] * len(turn)


def question(request: ChatRequest) -> Conversation[ChatResponse]:
    """Return the conversation of a single request, whose result is the response."""
    (response,) = yield (request,)
    return response


def converse(chat: Chat, conversations: Sequence[Conversation[T]]) -> list[T]:
    """Return the result of each conversation with a network, in order.

    They go side by side: by the chat's own method, or else turn by turn, with the requests of all
    conversations in one call.

    Raises:
        HarnessError: a request failed, or a conversation did; those of the others are lost.
    """
    if isinstance(chat, ConversingChat):
        return chat.converse(conversations)
    scheduler = ConversationScheduler(conversations)
    while places := scheduler.pending_places():
        output = chat.generate([scheduler.requests[place] for place in places])
        for place, response in zip(places, output, strict=True):
            scheduler.receive(place, response)
    return scheduler.ends()


@dataclass(frozen=True, kw_only=True)
class ConversingModel(StagedModel[Result]):
    """A model that has a conversation with its network about each query."""

    chat: Chat
    batch_size: int = 8

    @abstractmethod
    def conversation(self, query: Query) -> Conversation[Result]:
        """Converse about one query to the end."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the network."""
        return self.chat.devices

    @property
    def turns(self) -> int:
        """Batches that the network takes at once."""
        return self.chat.turns

    @property
    def rounds(self) -> int:
        """Batches to give the network at once."""
        return self.chat.rounds

    @property
    def by_sample(self) -> bool:
        """Return True if each query goes on by itself."""
        return isinstance(self.chat, ConversingChat)

    def halt(self) -> None:
        """Abandon the requests to the network."""
        self.chat.halt()

    def generate(self, queries: Sequence[Query]) -> list[Result]:
        """Converse about every query, side by side."""
        return converse(self.chat, [self.conversation(query) for query in queries])

    def generate_as_completed(self, queries: Sequence[Query]) -> Iterator[tuple[int, Result]]:
        """Yield the place of each query with its result, as soon as it is complete."""
        if not isinstance(self.chat, ConversingChat):
            return super().generate_as_completed(queries)
        conversations = [self.conversation(query) for query in queries]
        return self.chat.converse_as_completed(conversations, go_on=self._goes_on(queries))

    def _goes_on(self, queries: Sequence[Query]) -> bool:
        """Return True if conversations continue at once, even if few do."""
        del queries
        return True
