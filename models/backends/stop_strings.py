"""End of a response that has stop strings: one rule, for every backend.

The stop string that is complete first ends the response, not the one that begins first. So it is
known as soon as it is written, and a response is the same whether its network was stopped there, or
went on and its text is cut afterwards.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from harness.chat import ChatRequest, ChatResponse

if TYPE_CHECKING:
    from torch import Tensor

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""Function from tokens to text. More tokens lengthen the text, but for a character cut in two."""


def before_stop(text: str, stop: Sequence[str]) -> str | None:
    """Return the text before the stop string that is complete first; None where none is.

    Of several that are complete with one character, the longest counts.

    >>> before_stop("a, b; c", ("; c", ";", "b;")), before_stop("a", (";",))
    ('a, ', None)
    """
    span = _first_stop(text, stop)
    return None if span is None else text[: span[0]]


def _first_stop(text: str, stop: Sequence[str]) -> tuple[int, int] | None:
    """Return (start, end) of the stop string that is complete first."""
    places = [(text.find(string), len(string)) for string in stop]
    complete = [(at + length, at) for at, length in places if at >= 0]
    return min(complete)[::-1] if complete else None


def until_stop(response: ChatResponse, request: ChatRequest) -> ChatResponse:
    """Return a response up to its request's stop strings; the `prefix` is not searched."""
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
    """Return the number of tokens up to the first complete stop string; None where none is."""

    def complete(count: int) -> bool:
        return before_stop(decode(tokens[:count]), stop) is not None

    if not (stop and complete(len(tokens))):
        return None
    return bisect_left(range(len(tokens)), True, key=complete)


def at_stop(tokens: Sequence[int], stop: Sequence[str], decode: Decode) -> bool:
    """Return True if the last of these tokens completes a stop string, so that a network may end.

    Only as many tokens are read as a stop string has bytes, so that a step costs little. Special
    tokens within hide one, which is then found by `tokens_to_stop` when the response is over.
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
    """Return arguments of transformers' `generate` for stop strings; empty without any."""
    stops = [request.stop for request in requests]
    if not any(stops):
        return {}
    from transformers import StoppingCriteriaList

    rows = StopRows(stops=stops, prompt_length=prompt_length, decode=decode)
    return {"stopping_criteria": StoppingCriteriaList([rows])}


@dataclass(frozen=True, kw_only=True)
class StopRows:
    """A stopping criterion for `generate` of transformers: rows that have reached a stop string."""

    stops: Sequence[Sequence[str]]
    """The stop strings of each row."""
    prompt_length: int
    decode: Decode

    def __call__(self, input_ids: "Tensor", scores: object, **_: object) -> "Tensor":
        """Return True for each row of prompts and responses (rows × length) that has ended."""
        written = input_ids[:, self.prompt_length :].tolist()
        ended = [
            at_stop(row, stop, self.decode) for row, stop in zip(written, self.stops, strict=True)
        ]
        return input_ids.new_tensor(ended).bool()
