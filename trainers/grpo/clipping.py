"""Clip ratios for the log, with TRL's names and meanings.

The loss clips the ratio of new to old probability of a token, or of a rollout (GSPO). `clipped`
counts those of a batch, `extremes` gives the smallest and largest share of a step.
"""

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from harness.models.learning.loss import importance_ratio
from harness.trainers.grpo.settings import Settings
from harness.trainers.learner import Counted

Shares: TypeAlias = tuple[list[float], list[float]]
"""(low, high): share of each rollout's tokens that were clipped below and above."""


def clipped(
    logp: Tensor, old: Tensor | None, advantage: Tensor, mask: Tensor, settings: Settings
) -> tuple[Counted, Shares]:
    """Return flags of what the loss clips in a batch, to be averaged, and each rollout's shares.

    Args:
        logp: Log-probabilities now (B × T).
        old: Log-probabilities before the round's first step (B × T); None: the same.
        advantage: Advantage of each rollout (B).
        mask: 1 for tokens that count (B × T).
        settings: Bounds, and whether tokens or rollouts have a ratio.
    """
    low, high = settings.epsilon, settings.epsilon_high
    high = low if high is None else high
    advantage = advantage[:, None]
    ratio = importance_ratio(logp.detach(), old, mask, settings.importance_sampling_level)
    is_counted = mask if ratio.shape == mask.shape else torch.ones_like(ratio)
    if settings.loss_type == "cispo":
        return {"cispo_clip_ratio": ((ratio > high) & (advantage > 0), is_counted)}, ([], [])
    is_low = (ratio < 1 - low) & (advantage < 0)
    is_high = (ratio > 1 + high) & (advantage > 0)
    counted = {
        "clip_ratio/low_mean": (is_low, is_counted),
        "clip_ratio/high_mean": (is_high, is_counted),
        "clip_ratio/region_mean": (is_low | is_high, is_counted),
    }
    return counted, (_means(is_low, is_counted), _means(is_high, is_counted))


def extremes(batches: Sequence[Shares]) -> dict[str, float]:
    """Return the smallest low and the largest high share of a step's rollouts.

    Empty if no rollout has shares (`loss_type=cispo`).
    """
    low = [share for low_shares, _ in batches for share in low_shares]
    high = [share for _, high_shares in batches for share in high_shares]
    return {"clip_ratio/low_min": min(low), "clip_ratio/high_max": max(high)} if low else {}


def _means(flags: Tensor, is_counted: Tensor) -> list[float]:
    """Return the mean flag of each rollout's tokens that count; rollouts without any are omitted.

    Both are B × T, or B × 1 if rollouts have a ratio.
    """
    means = (flags * is_counted).sum(dim=1) / is_counted.sum(dim=1)
    shares: list[float] = means[~means.isnan()].tolist()
    return shares
