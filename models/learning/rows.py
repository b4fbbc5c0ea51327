"""Responses as a loss sees them: probabilities of their tokens, and which tokens are the answer."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

ANSWER = ("<answer>", "</answer>")


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredRows:
    """Some of the responses of a step: B rows of T tokens, 0 where a row has ended."""

    places: Sequence[int]
    """Places of the rows among the step's responses."""
    logp: Tensor
    """Log-probabilities of the tokens (B × T)."""
    entropy: Tensor
    """Entropies of the distributions that they were drawn from, in nats (B × T)."""
    mask: Tensor
    """1 where a row has a token (B × T)."""
    answer: Tensor
    """1 for tokens between the answer's tags (B × T)."""
    log_probs: Callable[[], Tensor]
    """Log-probabilities of the whole vocabulary at the answers' tokens (tokens × vocabulary)."""


def answer_span(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> range:
    """Return the places of the tokens between the answer's tags."""
    text = decode(ids)
    opening = text.find(ANSWER[0])
    if opening < 0:
        return range(0)
    closing = text.find(ANSWER[1], opening)

    def reaching(length: int) -> int:
        # The length of the decoded beginning grows with every token.
        return bisect_left(range(len(ids)), length, key=lambda end: len(decode(ids[:end])))

    end = len(ids) if closing < 0 else reaching(closing)
    return range(reaching(opening + len(ANSWER[0])), end)
