"""Compute log-probabilities and entropies of responses' tokens from the states that predict them.

GRPO trainers call `score_tokens`; test-time training calls `score_rows`, whose result a loss reads.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from harness.models.learning.rows import ScoredRows, answer_span

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import nn
    from transformers import PreTrainedModel

LOGITS_AT_ONCE = 1 << 27
"""Most logits (tokens × vocabulary) that are held at once, 0.5 GB in float32."""


def score_tokens(
    states: Tensor,
    targets: Tensor,
    *,
    head: "nn.Linear",
    temperature: float,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies, in nats (N each), of tokens from the states before.

    `states` are N × width, `targets` the N tokens. `softcap` bounds logits, as Gemma's networks do
    after their heads. Logits are computed for some tokens at a time, and again for the gradient:
    for a vocabulary of 150,000, those of a whole batch would be the largest tensor of a training.
    """

    def scores(states: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return (log-probabilities of the tokens, entropies of their distributions)."""
        logps = (_logits(head, states, softcap) / temperature).log_softmax(dim=-1)
        return logps.gather(1, tokens[:, None])[:, 0], -(logps.exp() * logps).sum(dim=-1)

    rows = max(1, LOGITS_AT_ONCE // head.out_features)
    recomputes = len(states) > rows and torch.is_grad_enabled()
    parts = [
        checkpoint(scores, *part, use_reentrant=False) if recomputes else scores(*part)
        for part in zip(torch.split(states, rows), torch.split(targets, rows), strict=True)
    ]
    logps, entropies = zip(*parts, strict=True)
    return torch.cat(logps), torch.cat(entropies)


def score_rows(
    indices: Sequence[int],
    hidden: Tensor,
    tokens: Tensor,
    mask: Tensor,
    *,
    head: "nn.Linear",
    decode: Callable[[Sequence[int]], str],
    temperature: float,
    softcap: float | None = None,
) -> ScoredRows:
    """Return the rows' log-probabilities, entropies and masks, as a loss reads them.

    Args:
        indices: Indices of the rows among the step's responses.
        hidden: States that predict each token (rows × tokens × width).
        tokens: Tokens of the responses, padded on the right (rows × tokens).
        mask: 1 where a row has a token, 0 at padding (rows × tokens).
        head: Layer from states to logits.
        decode: Function from tokens to text, in which the span of the answer is searched for.
        temperature: Temperature of the probabilities.
        softcap: Bound of the logits; see `softcap_of`.
    """
    is_token = mask.bool()
    spans = [
        answer_span(decode, row[is_token_of_row].tolist())
        for row, is_token_of_row in zip(tokens, is_token, strict=True)
    ]
    column = torch.arange(mask.shape[1], device=mask.device)
    answer = torch.stack([(column >= first) & (column < end) for first, end in spans]) & is_token

    logps, entropies = score_tokens(
        hidden[is_token], tokens[is_token], head=head, temperature=temperature, softcap=softcap
    )
    empty = logps.new_zeros(mask.shape)  # rows × tokens, which `masked_scatter` fills
    return ScoredRows(
        indices=indices,
        logp=empty.masked_scatter(is_token, logps),
        entropy=empty.masked_scatter(is_token, entropies),
        mask=mask.to(logps.dtype),
        answer=answer.to(logps.dtype),
        log_probs=lambda: _logits(head, hidden[answer], softcap).log_softmax(dim=-1),
    )


def softcap_of(network: "PreTrainedModel | PeftModel") -> float | None:
    """Return the bound of a network's logits; None: they are not bounded."""
    return getattr(network.config.get_text_config(), "final_logit_softcapping", None)


def _logits(head: "nn.Linear", states: Tensor, softcap: float | None) -> Tensor:
    """Return the logits of states (… × vocabulary), in float32 or a wider type."""
    logits = head(states)
    logits = logits.float() if logits.dtype.itemsize < 4 else logits
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)
