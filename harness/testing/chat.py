"""A backend that answers with given texts, for tests without a network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.coordinates import Coordinates
from harness.errors import UsageError
from harness.models.backends.stop_strings import until_stop


@dataclass(eq=False, kw_only=True)
class ScriptedChat(Chat):
    """Answers with given texts, and records the requests.

    As with a network, a text is cut at the request's limit of tokens, and ends at a stop string.
    Tokens are code points.
    """

    responses: Sequence[str] | Callable[[ChatRequest], str]
    """Texts in the order of the requests, of which the last is repeated; or a function of a
    request."""
    coordinates: Coordinates = "pixels"
    batch_size: int = 4
    size: tuple[int, int] | None = None
    """(width, height) of every canvas; None: `resize` of the request, or the medium's own size."""
    opening: str = ""
    as_tokens: bool = True
    """True: responses have tokens, and conversations continue from these; False: from the text."""
    requests: list[ChatRequest] = field(default_factory=list)
    """Requests so far, in order."""

    def __post_init__(self) -> None:
        """Raise UsageError for a single text, which would be a sequence of letters."""
        if isinstance(self.responses, str):
            raise _no_script(self.responses)

    @property
    def goes_on(self) -> bool:
        """True: a text is the continuation of the request's `prefix`."""
        return True

    def describe(self) -> Mapping[str, object]:
        """Return the record's facts."""
        return {"backend": "scripted"}

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """Return `size`, or the size that the request asks for."""
        size = self.size or request.resize
        if size is None and not request.media:
            raise UsageError("ScriptedChat", expected="a medium, or size=…", found="neither")
        return size or request.media[0].size

    def count_tokens(self, text: str) -> int:
        """Count characters."""
        return len(text)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the code points of a text."""
        return tuple(map(ord, text)) if self.as_tokens else ()

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of code points."""
        return "".join(map(chr, tokens))

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return the next texts."""
        return [self._respond(request) for request in requests]

    def _respond(self, request: ChatRequest) -> ChatResponse:
        """Return the next text of the script, cut to the request's tokens and its stop texts."""
        request_index = len(self.requests)
        self.requests.append(request)
        if callable(self.responses):
            text = self.responses(request)
        elif self.responses:
            text = self.responses[min(request_index, len(self.responses) - 1)]
        else:
            raise _no_script(self.responses)
        allowed = text[: request.max_new_tokens]
        full_response = ChatResponse(text=f"{request.prefix}{allowed}", cut=allowed != text)
        response = until_stop(full_response, request)
        full_text = f"{response.text.removeprefix(request.prefix)}{response.stopped}"
        return ChatResponse(
            text=response.text,
            tokens=self.encode(full_text),
            prompt_tokens=len(request.text),
            completion_tokens=len(full_text),
            cut=response.cut,
            stopped=response.stopped,
        )


def _no_script(responses: object) -> UsageError:
    return UsageError(
        "ScriptedChat(responses=…)",
        expected="a sequence of at least one text, or a function of a request",
        found=repr(responses),
    )
