"""End a response at its stop strings, by one rule for every backend.

The stop string that is complete first ends the response, not the one that begins first. So the end
is known as soon as it is written, and a response is the same whether its network was stopped there
(`criteria`, `at_stop`), or its text is cut afterwards (`until_stop`).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from harness.chat import ChatRequest, ChatResponse

if TYPE_CHECKING:
    from torch import Tensor

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""Function from tokens to text. A longer prefix of tokens gives a longer text, except that a
character may be replaced if its bytes were cut."""


def before_stop(text: str, stop: Sequence[str]) -> str | None:
    """Return the text before the stop string that is complete first; None without any.

    Of several that end at the same character, the longest counts.

    >>> before_stop("a, b; c", ("; c", ";", "b;")), before_stop("a", (";",))
    ('a, ', None)
    """
    span = _first_stop(text, stop)
    return None if span is None else text[: span[0]]


def _first_stop(text: str, stop: Sequence[str]) -> tuple[int, int] | None:
    """Return (start, end) in characters of the stop string that is complete first; None: none."""
    matches = [(text.find(string), len(string)) for string in stop]
    complete = [(at + length, at) for at, length in matches if at >= 0]
    # the smallest (end, start): the first to end, and of these the longest
    return min(complete)[::-1] if complete else None


def until_stop(response: ChatResponse, request: ChatRequest) -> ChatResponse:
    """Return a response cut at its request's stop strings; the request's `prefix` is not searched.

    `stopped` is then the stop string, and `cut` False.
    """
    started = request.prefix if response.text.startswith(request.prefix) else ""
    output = response.text[len(started) :]
    span = _first_stop(output, request.stop)
    if span is None:
        return response
    start, end = span
    return replace(
        response, text=f"{started}{output[:start]}", stopped=output[start:end], cut=False
    )


def tokens_to_stop(tokens: Sequence[int], stop: Sequence[str], decode: Decode) -> int | None:
    """Return the number of tokens up to the first complete stop string; None without any."""

    def holds_stop(n_tokens: int) -> bool:
        return before_stop(decode(tokens[:n_tokens]), stop) is not None

    if not (stop and holds_stop(len(tokens))):
        return None
    return bisect_left(range(len(tokens)), True, key=holds_stop)


def at_stop(tokens: Sequence[int], stop: Sequence[str], decode: Decode) -> bool:
    """Return True if the last of these tokens completes a stop string, so that a network may stop.

    Only as many tokens are decoded first as the longest stop string has bytes, to be fast. Special
    tokens inside a stop string hide it here; `tokens_to_stop` finds it when the response is over.
    """
    if not stop:
        return False
    reach = max(len(string.encode("utf-8", "replace")) for string in stop)
    if before_stop(decode(tokens[-reach:]), stop) is None:
        return False
    return before_stop(decode(tokens), stop) is not None  # the last tokens alone may read otherwise


def criteria(
    requests: Sequence[ChatRequest], *, prompt_length: int, decode: Decode
) -> dict[str, object]:
    """Return arguments for transformers' `generate` that stop rows at stop strings; {} without."""
    stops = [request.stop for request in requests]
    if not any(stops):
        return {}
    from transformers import StoppingCriteriaList

    rows = StopRows(stops=stops, prompt_length=prompt_length, decode=decode)
    return {"stopping_criteria": StoppingCriteriaList([rows])}


@dataclass(frozen=True, kw_only=True)
class StopRows:
    """A stopping criterion for transformers' `generate`: a row ends at one of its stop strings."""

    stops: Sequence[Sequence[str]]
    """The stop strings of each row."""
    prompt_length: int
    decode: Decode

    def __call__(self, input_ids: "Tensor", scores: object, **_: object) -> "Tensor":
        """Return True for each row of prompts and responses (rows × length) that has ended."""
        responses = input_ids[:, self.prompt_length :].tolist()
        ended = [
            at_stop(row, stop, self.decode) for row, stop in zip(responses, self.stops, strict=True)
        ]
        return input_ids.new_tensor(ended).bool()
