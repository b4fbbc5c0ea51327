"""Run many conversations with one network at the same time.

A conversation is a generator: it yields the requests of a turn (or a `Future` of other work, such
as running a program), receives the responses, and returns a result. `ConversationScheduler`
collects the open requests of all conversations, so that a backend can batch them.
"""

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
    """Keeps the requests of all conversations in one list, and continues those that are answered.

    The index of a request in that list identifies it: a backend asks for `pending_indices`, and
    gives each response to `receive`.
    """

    def __init__(
        self,
        conversations: Sequence[Conversation[T]],
        *,
        notify: Callable[[Future[Any]], object] | None = None,
    ) -> None:
        """Begin every conversation.

        Args:
            conversations: Generators; they run in the caller's thread only.
            notify: Called, in any thread, when a `Future` that a conversation waits for is done.
        """
        self.requests: list[ChatRequest] = []
        """All requests so far; those of a turn stand together. Responses may add more."""
        self._conversations = conversations
        self._owners: list[int] = []
        """Number of the conversation that made each request."""
        self._responses: dict[int, ChatResponse] = {}
        """Responses, by the index of the request."""
        self._turns: dict[int, range] = {}
        """Indices of the requests that each conversation waits for, by its number."""
        self._working: dict[Future[Any], int] = {}
        """Number of the conversation that waits for each future."""
        self._notify = notify
        self._ends: dict[int, T] = {}
        """Results of the conversations that have ended, by number, in the order of ending."""
        self._n_taken = 0
        """Number of results that `take_finished` has returned."""
        for number in range(len(conversations)):
            self._go_on(number, None)

    def pending_indices(self) -> list[int]:
        """Return the indices of requests without a response, in order.

        If there are none but a conversation waits for a future, wait until a request follows.
        """
        self.resume()
        while True:
            pending = [index for index in range(len(self.requests)) if index not in self._responses]
            if pending or not self._working:
                return pending
            wait(self._working, return_when=FIRST_COMPLETED)
            self.resume()

    @property
    def is_working(self) -> bool:
        """Return True if a conversation waits for a future."""
        return bool(self._working)

    def resume(self) -> range:
        """Continue the conversations whose future is done.

        Returns:
            The indices of the requests that they add.
        """
        before = len(self.requests)
        for future in [future for future in self._working if future.done()]:
            self._go_on(self._working.pop(future), ())
        return range(before, len(self.requests))

    def receive(self, index: int, response: ChatResponse) -> range:
        """Store a response, and continue its conversation if the turn is now answered completely.

        Returns:
            The indices of the requests that it adds.
        """
        self._responses[index] = response
        number = self._owners[index]
        turn = self._turns[number]
        output = [self._responses[answered] for answered in turn if answered in self._responses]
        before = len(self.requests)
        if len(output) == len(turn):
            self._go_on(number, output)
        return range(before, len(self.requests))

    def ends(self) -> list[T]:
        """Return the result of each conversation, in order, once all have ended."""
        return [self._ends[number] for number in range(len(self._conversations))]

    def take_finished(self) -> list[tuple[int, T]]:
        """Return (number, result) of each conversation that has ended since the last call."""
        new = list(self._ends.items())[self._n_taken :]
        self._n_taken += len(new)
        return new

    def _go_on(self, number: int, output: Sequence[ChatResponse] | None) -> None:
        """Continue a conversation to its next requests, future or end.

        `output` are the responses to its last turn; None starts it. An empty turn is answered at
        once with no responses.
        """
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
        self._owners += [number] * len(turn)


def question(request: ChatRequest) -> Conversation[ChatResponse]:
    """Send one request and end with its response: the shortest conversation."""
    (response,) = yield (request,)
    return response


def converse(chat: Chat, conversations: Sequence[Conversation[T]]) -> list[T]:
    """Run conversations with a network to their ends; return their results, in order.

    A chat that batches continuously schedules them itself. Any other gets, turn by turn, the open
    requests of all conversations in one call.

    Raises:
        HarnessError: a request or a conversation failed; the results of the others are lost.
    """
    if isinstance(chat, ConversingChat):
        return chat.converse(conversations)
    scheduler = ConversationScheduler(conversations)
    while indices := scheduler.pending_indices():
        output = chat.generate([scheduler.requests[index] for index in indices])
        for index, response in zip(indices, output, strict=True):
            scheduler.receive(index, response)
    return scheduler.ends()


@dataclass(frozen=True, kw_only=True)
class ConversingModel(StagedModel[Result]):
    """A model that has one conversation with its network about each query.

    The properties below tell the engine how many queries to give it at once.
    """

    chat: Chat
    batch_size: int = 8

    @abstractmethod
    def conversation(self, query: Query) -> Conversation[Result]:
        """Return the conversation about one query; its result goes to `begin`."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the network."""
        return self.chat.devices

    @property
    def turns(self) -> int:
        """Number of batches that the network works on at the same time."""
        return self.chat.turns

    @property
    def rounds(self) -> int:
        """Number of batches to hand to the network in one call."""
        return self.chat.rounds

    @property
    def at_once(self) -> int:
        """Number of queries that the network works on at the same time."""
        return self.chat.at_once or self.batch_size

    @property
    def by_sample(self) -> bool:
        """Return True if each query proceeds by itself, not in step with a batch."""
        return isinstance(self.chat, ConversingChat)

    def halt(self) -> None:
        """Abandon the open requests to the network."""
        self.chat.halt()

    def generate(self, queries: Sequence[Query]) -> list[Result]:
        """Hold the conversations about all queries at the same time; return their results."""
        return converse(self.chat, [self.conversation(query) for query in queries])

    def generate_as_completed(self, queries: Sequence[Query]) -> Iterator[tuple[int, Result]]:
        """Yield (index of the query, its result) as soon as each conversation ends."""
        if not isinstance(self.chat, ConversingChat):
            return super().generate_as_completed(queries)
        conversations = [self.conversation(query) for query in queries]
        return self.chat.converse_as_completed(conversations, go_on=self._goes_on(queries))

    def _goes_on(self, queries: Sequence[Query]) -> bool:
        """Return True if a conversation continues as soon as it can, without waiting for others."""
        del queries  # a subclass may decide by them
        return True
