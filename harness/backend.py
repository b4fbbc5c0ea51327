"""Base classes of backends, which call a vision-language network in process or behind a server.

`Chat.generate` takes `ChatRequest`s and returns a `ChatResponse` for each. Models in `models/` call
it; a backend that can train its network offers `Chat.adaptable` as well.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

from harness.adaptation import AdaptationContext, LearningSettings
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.coordinates import Coordinates
from harness.errors import UsageError
from harness.observation import Examination, Observation, Variation

T = TypeVar("T")


class Adaptable(Protocol):
    """A network that can learn from one request at a time, behind its backend."""

    @property
    def chat(self) -> "Chat":
        """The backend that answers by the weights as they are."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds so far of rollouts, of updates and of putting weights back."""

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""

    def prepare(self) -> None:
        """Load the network, with weights that can learn.

        Raises:
            ModelError: none of its weights can.
        """

    def adapting(self, request: ChatRequest) -> AbstractContextManager[AdaptationContext]:
        """Enter a context in which the network learns from a request; afterwards it is reset."""


class Chat(ABC):
    """A vision-language network behind one call. Derive a backend's class from it."""

    if TYPE_CHECKING:

        @property
        def batch_size(self) -> int:
            """Preferred number of requests at once."""

        @property
        def coordinates(self) -> Coordinates | None:
            """Meaning of the numbers that the network writes; None: not known."""

    @abstractmethod
    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""

    @abstractmethod
    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response a request, in order."""

    @abstractmethod
    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """Return (width, height) of the first medium as the network would see it."""

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, for usage."""

    reads_pixels: bool = True
    """True if images should be decoded before `generate`. False: it sends files, or decodes images
    itself while other requests are answered."""

    @property
    def opening(self) -> str:
        """Text with which the chat template begins every response, such as `<think>` and a newline.

        The text of a response includes it.
        """
        return ""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text that is injected into a response, for `ChatRequest.written`.

        Empty: it continues from text (`ChatRequest.prefix`), if it does at all.
        """
        del text
        return ()

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a response's tokens, up to its end token; empty where `encode` is."""
        del tokens
        return ""

    def observe(self, requests: Sequence[ChatRequest]) -> list[Observation]:
        """Return one response a request, with what is known of the network's inputs.

        A derived backend adds images, times, tokens and probabilities that it knows.
        """
        return [Observation(response=response) for response in self.generate(requests)]

    def examine(self, variation: Variation, tokens: Sequence[int]) -> Examination | None:
        """Return the network's inputs for a request and its probabilities of a response's tokens.

        None: the network is not in this process.
        """
        del variation, tokens
        return None

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that it computes on; see `Model.devices`."""
        return ()

    @property
    def turns(self) -> int:
        """Calls of `generate` that it takes at once; see `StagedModel.turns`."""
        return 1

    @property
    def rounds(self) -> int:
        """Number of batches to give `generate` at once; see `Model.rounds`."""
        return 1

    @property
    def at_once(self) -> int | None:
        """Requests that it works on at the same time; None: a batch of the model's."""
        return None

    @property
    def cost(self) -> float:
        """Price of its requests so far; 0 without prices."""
        return 0.0

    @property
    def greedy(self) -> bool:
        """Return True if a repeated request would get the same response."""
        return False

    @property
    def goes_on(self) -> bool:
        """Return True if it continues from the `prefix` of a request."""
        return False

    @property
    def wait_seconds(self) -> float | None:
        """Seconds that the network has waited so far; see `StagedModel.wait_seconds`."""
        return None

    @property
    def why_not_adaptable(self) -> str:
        """Reason why the network's weights cannot learn here."""
        return "a network that another program runs"

    def adaptable(self, settings: LearningSettings) -> Adaptable:
        """Return the network in the form in which it can learn from one request at a time.

        Raises:
            UsageError: it cannot.
        """
        del settings
        raise UsageError(
            "adaptation at test time",
            expected="a network in this process: backend=transformers",
            found=self.why_not_adaptable,
        )

    def prepare(self) -> None:  # noqa: B027
        """Load what is loaded when first used; see `Model.prepare`."""

    def halt(self) -> None:  # noqa: B027
        """Abandon the requests under way; see `StagedModel.halt`."""

    def prepare_next(  # noqa: B027
        self, requests: Sequence[ChatRequest], *, go_on: bool = False
    ) -> None:
        """Prepare, before the next call, the inputs that it needs first for these requests.

        `go_on`: True if that call is `ConversingChat.converse`, which may begin with other requests
        than `generate` does.
        """


class ConversingChat(Chat):
    """A chat that lets each conversation go on as soon as its own responses are there.

    The responses equal what `generate` returns. With any other chat conversations go turn by turn
    (`harness.models.multi_turn`).
    """

    @abstractmethod
    def converse_as_completed(
        self, conversations: Sequence[Conversation[T]], *, go_on: bool = False
    ) -> Iterator[tuple[int, T]]:
        """Yield (index of a conversation, what it returned) as soon as each conversation ends.

        `go_on`: True if a conversation is to continue as soon as its responses are there, even if
        few requests are then batched; False if requests may be batched as by `generate`.
        """

    def converse(self, conversations: Sequence[Conversation[T]]) -> list[T]:
        """Return what each conversation returns, in order."""
        ends = dict(self.converse_as_completed(conversations, go_on=True))
        return [ends[number] for number in range(len(conversations))]
