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


def answer_span(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> tuple[int, int]:
    """Return (first, end) of the tokens between the answer's tags; (0, 0) if there are none."""
    text = decode(ids)
    opening = text.find(ANSWER[0])
    if opening < 0:
        return 0, 0
    closing = text.find(ANSWER[1], opening)

    def reaching(length: int) -> int:
        # The length of the decoded beginning grows with every token.
        return bisect_left(range(len(ids)), length, key=lambda end: len(decode(ids[:end])))

    return reaching(opening + len(ANSWER[0])), len(ids) if closing < 0 else reaching(closing)
