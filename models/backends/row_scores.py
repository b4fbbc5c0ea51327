"""Probabilities of responses' tokens, from the states that predict them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harness.models.learning.rows import ScoredRows, answer_span

if TYPE_CHECKING:
    from torch import nn

LOGITS_AT_ONCE = 1 << 27
"""Numbers of logits (tokens × vocabulary) beyond which they are computed twice instead of kept."""


def score_rows(
    places: Sequence[int],
    hidden: Tensor,
    tokens: Tensor,
    mask: Tensor,
    *,
    head: "nn.Linear",
    decode: Callable[[Sequence[int]], str],
    temperature: float,
) -> ScoredRows:
    """Return rows as a loss sees them.

    Args:
        places: Places of the rows among the step's responses.
        hidden: States that predict each token (rows × tokens × width).
        tokens: Tokens of the responses (rows × tokens).
        mask: 1 where a row has a token.
        head: Layer from states to logits.
        decode: Function from tokens to text, in which the answer is searched for.
        temperature: Of the probabilities.
    """
    counts = mask.bool()
    spans = [
        answer_span(decode, row[keep].tolist()) for row, keep in zip(tokens, counts, strict=True)
    ]
    inside = torch.arange(mask.shape[1], device=mask.device)
    answer = torch.stack([(inside >= first) & (inside < end) for first, end in spans]) & counts

    def scores(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logps = (_precise(head(states)) / temperature).log_softmax(dim=-1)
        return logps.gather(1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(dim=-1)

    states, targets = hidden[counts], tokens[counts]
    if torch.is_grad_enabled() and len(states) * head.weight.shape[0] > LOGITS_AT_ONCE:
        from torch.utils.checkpoint import checkpoint

        logps, entropies = checkpoint(scores, states, targets, use_reentrant=False)
    else:
        logps, entropies = scores(states, targets)
    empty = logps.new_zeros(mask.shape)
    return ScoredRows(
        places=places,
        logp=empty.masked_scatter(counts, logps),
        entropy=empty.masked_scatter(counts, entropies),
        mask=mask.to(logps.dtype),
        answer=answer.to(logps.dtype),
        log_probs=lambda: _precise(head(hidden[answer])).log_softmax(dim=-1),
    )


def _precise(logits: Tensor) -> Tensor:
    """Return logits in float32 at least."""
    return logits.float() if logits.dtype.itemsize < 4 else logits
