"""Statistics of the tokens whose ratio the loss clips, under TRL's names and with its meanings."""

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from harness.models.learning.loss import importance_ratio
from harness.trainers.grpo.settings import Settings
from harness.trainers.learner import Counted

Shares: TypeAlias = tuple[list[float], list[float]]
"""Shares of each rollout's tokens that were clipped, low and high."""


def clipped(
    logp: Tensor, old: Tensor | None, advantage: Tensor, mask: Tensor, settings: Settings
) -> tuple[Counted, Shares]:
    """Return which tokens of a batch, or which rollouts, the loss clips.

    Args:
        logp: Log-probabilities (B × T), as before the step in `old`.
        old: None: they are the same.
        advantage: Of each rollout (B).
        mask: 1 for tokens that count (B × T).
        settings: Bounds, and whether tokens or rollouts have a ratio.
    """
    low, high = settings.epsilon, settings.epsilon_high
    high = low if high is None else high
    gain = advantage[:, None]
    ratio = importance_ratio(logp.detach(), old, mask, settings.importance_sampling_level)
    counts = mask if ratio.shape == mask.shape else torch.ones_like(ratio)
    if settings.loss_type == "cispo":
        return {"cispo_clip_ratio": ((ratio > high) & (gain > 0), counts)}, ([], [])
    ends = {"low": (ratio < 1 - low) & (gain < 0), "high": (ratio > 1 + high) & (gain > 0)}
    ends["region"] = ends["low"] | ends["high"]
    counted = {f"clip_ratio/{end}_mean": (chosen, counts) for end, chosen in ends.items()}
    return counted, (_means(ends["low"], counts), _means(ends["high"], counts))


def extremes(several: Sequence[Shares]) -> dict[str, float]:
    """Return the rollouts of a step that were clipped least low and most high; empty: of none."""
    low, high = ([share for shares in several for share in shares[end]] for end in (0, 1))
    return {"clip_ratio/low_min": min(low), "clip_ratio/high_max": max(high)} if low else {}


def _means(chosen: Tensor, counts: Tensor) -> list[float]:
    """Return each rollout's mean where `counts` is 1; none of a rollout without such tokens."""
    means = (chosen * counts).sum(dim=1) / counts.sum(dim=1)
    found: list[float] = means[~means.isnan()].tolist()
    return found
