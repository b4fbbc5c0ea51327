"""Small rules about tokens and pictures on their way to and from a network."""

from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image

from harness.errors import UsageError
from harness.model import ChatRequest
from harness.models.backends.inputs import shown, squashed
from harness.models.backends.stops import Decode, tokens_to_stop

ANSWER = ("<answer>", "</answer>")


def pictures_of(request: ChatRequest) -> list[Any]:
    """The pictures of a request as vLLM takes them.

    Raises:
        UsageError: it shows a video, which TRL hands to no server.
    """
    found = []
    for place, media in enumerate(request.media):
        indices = shown(request, place)
        if len(indices) != 1:
            raise UsageError(
                f"vllm with videos, request {request.key}",
                expected="single pictures, since TRL hands vLLM no videos",
                found=f"a clip of {len(indices)} frames",
                fix="Leave vllm out: rollouts are then written by transformers.",
            )
        found.append(Image.fromarray(squashed(media.frame(indices[0]), request.squash(place))))
    return found


def upto(tokens: Sequence[int], ends: Sequence[int]) -> list[int]:
    """The tokens up to the first end token, which is kept."""
    place = next((place for place, token in enumerate(tokens) if token in ends), len(tokens) - 1)
    return list(tokens[: place + 1])


def within(
    tokens: Sequence[int], request: ChatRequest, *, ends: Sequence[int], decode: Decode
) -> list[int]:
    """The tokens up to where the reply to a request ends, if its writer went on."""
    kept = upto(tokens[: request.max_new_tokens], ends)
    return kept[: tokens_to_stop(kept, request.stop, decode)]


def answer_span(decode: Callable[[Sequence[int]], str], tokens: Sequence[int]) -> tuple[int, int]:
    """(first, end) of the tokens that spell what is between the answer's tags; (0, 0) if nothing.

    Found by bisection on the length of the decoded beginning, which grows with every token.
    """
    text = decode(tokens)
    opening = text.find(ANSWER[0])
    if opening < 0:
        return 0, 0
    closing = text.find(ANSWER[1], opening)
    start = _reaching(decode, tokens, opening + len(ANSWER[0]))
    return start, len(tokens) if closing < 0 else _reaching(decode, tokens, closing)


def _reaching(decode: Callable[[Sequence[int]], str], tokens: Sequence[int], length: int) -> int:
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if len(decode(tokens[:middle])) >= length:
            high = middle
        else:
            low = middle + 1
    return low
