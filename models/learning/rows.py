"""The responses of a step as a loss needs them: log-probabilities, entropies and masks.

Test-time methods (`models/test_time`) compute their losses from these rows.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

ANSWER_TAGS = ("<answer>", "</answer>")


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredRows:
    """B responses of a step with up to T tokens; shorter rows are padded with 0."""

    indices: Sequence[int]
    """Indices of the rows among all responses of the step."""
    logp: Tensor
    """Log-probabilities of the tokens (B × T)."""
    entropy: Tensor
    """Entropies of the distributions that the tokens were drawn from, in nats (B × T)."""
    mask: Tensor
    """1 where a row has a token, 0 for padding (B × T)."""
    answer: Tensor
    """1 for tokens between the answer's tags (B × T)."""
    log_probs: Callable[[], Tensor]
    """Returns log-probabilities of the vocabulary at the answers' tokens (tokens × vocabulary)."""


def answer_span(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> tuple[int, int]:
    """Return (first, end) of the tokens between the answer's tags; (0, 0) without an answer.

    `decode` turns token ids into text. An answer that is not closed extends to the last token.
    """
    text = decode(ids)
    opening = text.find(ANSWER_TAGS[0])
    if opening < 0:
        return 0, 0
    closing = text.find(ANSWER_TAGS[1], opening)

    def tokens_for(length: int) -> int:
        """Return the number of tokens whose text has at least `length` characters."""
        # The length of the decoded beginning does not fall with the number of tokens.
        return bisect_left(range(len(ids)), length, key=lambda end: len(decode(ids[:end])))

    return tokens_for(opening + len(ANSWER_TAGS[0])), len(ids) if closing < 0 else tokens_for(
        closing
    )
