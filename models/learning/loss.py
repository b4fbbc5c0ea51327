"""The loss of GRPO as one pure function, tested equal to TRL's, value and gradient.

Shao et al., "DeepSeekMath" (2024), Eq. 3 and 4, with the averages that followed it.
Shapes: B rollouts of T tokens; `mask` is 1 where a token counts (written by the policy), else 0.
"""

from typing import assert_never

import torch
from torch import Tensor

from harness.models.learning.loss_types import Level, LossType, Scale

STD_EPSILON = 1e-4
"""Added to the standard deviation of a group, as TRL does; VisionReasoner's official code adds
1e-6, which differs where all rewards of a group are nearly equal."""


def advantages(rewards: Tensor, num_generations: int, *, scale_rewards: Scale = "group") -> Tensor:
    """Return how much better each rollout is than its group, whose rewards stand side by side.

    Exactly 0 where all earn the same: a mean of equal numbers may be off by rounding, and AdamW
    would make a whole step of that. Standard deviations are the unbiased ones. A reward of NaN has
    no advantage (0), and its group is compared without it; so has the only reward of a group.
    """
    grouped = rewards.view(-1, num_generations)
    scored = ~grouped.isnan()
    if not scored.all():
        return _advantages_of_scored(grouped, scored, scale_rewards)
    differ = (grouped != grouped[:, :1]).any(dim=1, keepdim=True)
    centred = ((grouped - grouped.mean(dim=1, keepdim=True)) * differ).view(-1)
    if scale_rewards is None:
        return centred
    of_groups = grouped.std(dim=1).repeat_interleave(num_generations)
    return centred / ((rewards.std() if scale_rewards == "batch" else of_groups) + STD_EPSILON)


def _advantages_of_scored(grouped: Tensor, scored: Tensor, scale_rewards: Scale) -> Tensor:
    """Return `advantages` of groups side by side, of which some rewards are NaN."""
    result, every = torch.zeros_like(grouped), grouped[scored]
    for index in range(len(grouped)):
        own = grouped[index][scored[index]]
        if len(own) > 1:
            given = None if scale_rewards == "batch" else scale_rewards
            result[index][scored[index]] = advantages(own, len(own), scale_rewards=given)
    if scale_rewards == "batch" and len(every) > 1:  # of one number there is no deviation
        result /= every.std() + STD_EPSILON
    return result.view(-1)


def divergence(logp: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate k3 of the divergence from the reference (Schulman 2020), a token.

    r - log r - 1 with r the reference's probability over the policy's; never below 0.
    """
    log_ratio = reference - logp
    return torch.exp(log_ratio) - log_ratio - 1


def importance_ratio(
    logp: Tensor, old_logp: Tensor | None, mask: Tensor, level: Level = "token"
) -> Tensor:
    """Return the ratio of new to old probability: B × T of tokens, B × 1 of whole rollouts."""
    difference = logp - (logp.detach() if old_logp is None else old_logp)
    if level == "sequence":
        counted = (difference * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
        difference = counted.unsqueeze(1)
    return torch.exp(difference)


def grpo_loss(
    logp: Tensor,
    old_logp: Tensor | None,
    ref_logp: Tensor | None,
    advantage: Tensor,
    mask: Tensor,
    *,
    loss_type: LossType = "grpo",
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    beta: float = 0.0,
    max_completion_length: int | None = None,
    tokens: Tensor | float | None = None,
    sampler_ratio: Tensor | None = None,
    importance_sampling_level: Level = "token",
) -> Tensor:
    """Return the loss of a batch, a scalar; its gradient is what a step goes along.

    Args:
        logp: Log-probabilities of the tokens under the policy, B × T, at the rollouts' temperature.
        old_logp: The same under the policy that wrote them; None: it is the policy itself.
        ref_logp: The same under the reference; needed if `beta` is not 0.
        advantage: Advantage of each rollout, B.
        mask: Tokens that count, B × T.
        loss_type: Averaging of tokens.
        epsilon: Range below 1 in which the ratio of new to old probability counts.
        epsilon_high: Range above 1; None: `epsilon`. For `cispo`, the largest ratio itself.
        beta: Weight of the divergence from the reference.
        max_completion_length: Longest length allowed, for `dr_grpo`; None: T.
        tokens: Tokens that count in the whole step, for `dapo`; None: those of this batch.
        sampler_ratio: Probabilities of `old_logp` over those that another engine has drawn the
            tokens with, B × 1, limited; None: they are the same.
        importance_sampling_level: What the ratio is of.
    """
    ratio = importance_ratio(logp, old_logp, mask, importance_sampling_level)
    gain, high = advantage.unsqueeze(1), epsilon if epsilon_high is None else epsilon_high
    if loss_type == "cispo":
        loss = -ratio.clamp(max=high).detach() * gain * logp
    else:
        loss = -torch.min(ratio * gain, ratio.clamp(1 - epsilon, 1 + high) * gain)
    if sampler_ratio is not None:
        loss = loss * sampler_ratio
    if beta:
        if ref_logp is None:
            raise ValueError("beta is not 0: log-probabilities of the reference are needed")
        loss = loss + beta * divergence(logp, ref_logp)
    per_rollout = (loss * mask).sum(dim=1)
    match loss_type:
        case "grpo":
            return (per_rollout / mask.sum(dim=1).clamp(min=1.0)).mean()
        case "bnpo":
            return per_rollout.sum() / mask.sum().clamp(min=1.0)
        case "dapo" | "cispo":
            whole = torch.as_tensor(mask.sum() if tokens is None else tokens)
            return per_rollout.sum() / whole.clamp(min=1.0)
        case "dr_grpo":
            return per_rollout.sum() / (len(mask) * (max_completion_length or mask.shape[1]))
        case _:
            assert_never(loss_type)
