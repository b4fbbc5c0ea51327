"""A network as the loss sees it: log-probabilities and entropies of what it wrote."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

LOGITS_AT_ONCE = 1 << 27
"""Numbers of logits (tokens × vocabulary) that are held at once, 0.5 GB in float32."""


class Policy(nn.Module):
    """A network as the loss sees it: log-probabilities and entropies of what it wrote."""

    is_gradient_checkpointing = False  # TRL asks; it is off while `eval()` is on

    def __init__(self, network: Any, temperature: float) -> None:
        super().__init__()
        self.network, self.config, self.temperature = network, network.config, temperature

    def forward(self, inputs: Mapping[str, Tensor], mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (B × T each), 0 where `mask` is.

        Logits are made for these tokens alone, and some at a time: for a vocabulary of 150,000
        those of a whole batch would be the largest tensor of a training.
        """
        whole = getattr(self.network, "get_base_model", lambda: self.network)()
        hidden = whole.base_model(**inputs, use_cache=False).last_hidden_state
        width, counts = mask.shape[1], mask.bool()
        before = hidden[:, -width - 1 : -1][counts]
        targets = inputs["input_ids"][:, -width:][counts]
        head = whole.get_output_embeddings()
        rows = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
        parts = zip(before.split(rows), targets.split(rows), strict=True)
        if len(before) <= rows or not torch.is_grad_enabled():
            found = [self._scored(head, *part) for part in parts]
        else:
            found = [checkpoint(self._scored, head, *part, use_reentrant=False) for part in parts]
        logps, entropies = (torch.cat(several) for several in zip(*found, strict=True))
        empty = logps.new_zeros(mask.shape)
        return empty.masked_scatter(counts, logps), empty.masked_scatter(counts, entropies)

    def _scored(self, head: Any, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logps = (head(hidden).float() / self.temperature).log_softmax(dim=-1)
        return logps.gather(1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(dim=-1)


def decayed(network: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Return the trained weights in two groups: matrices decay, biases and norms do not."""
    trained = [one for one in network.parameters() if one.requires_grad]
    return [
        {"params": [one for one in trained if one.ndim >= 2], "weight_decay": weight_decay},
        {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},
    ]
