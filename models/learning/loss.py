"""The loss of GRPO as pure functions, tested equal to TRL's, value and gradient.

Shao et al., "DeepSeekMath" (2024), Eq. 3 and 4, with later ways to average over tokens. The GRPO
trainers and test-time methods use them.
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
    """Return the advantage of each rollout over its group: reward minus the group's mean, scaled.

    If all rewards of a group are equal, advantages are exactly 0: a mean of equal numbers may be
    off by rounding, which AdamW would turn into a whole step. Standard deviations are unbiased. A
    rollout with a reward of NaN has advantage 0 and does not count in its group; the only rollout
    of a group with a reward has advantage 0 too.

    Args:
        rewards: One for each rollout, B; the rollouts of a group are adjacent.
        num_generations: Rollouts of a group; divides B.
        scale_rewards: Divisor: the standard deviation of the group or of the batch, or None.
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
    """Return `advantages` if some rewards are NaN.

    Args:
        grouped: Rewards, groups × rollouts of a group.
        scored: False where a reward is NaN, of the same shape.
        scale_rewards: As in `advantages`.
    """
    result, all_scored = torch.zeros_like(grouped), grouped[scored]
    group_scale = None if scale_rewards == "batch" else scale_rewards
    for index in range(len(grouped)):
        group = grouped[index][scored[index]]
        if len(group) > 1:
            group_advantages = advantages(group, len(group), scale_rewards=group_scale)
            result[index][scored[index]] = group_advantages
    if scale_rewards == "batch" and len(all_scored) > 1:  # one number has no deviation
        result /= all_scored.std() + STD_EPSILON
    return result.view(-1)


def divergence(logp: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate k3 of the divergence from the reference (Schulman 2020), per token.

    It is r - log r - 1 ≥ 0, with r the reference's probability divided by the policy's.
    """
    log_ratio = reference - logp
    return torch.exp(log_ratio) - log_ratio - 1


def importance_ratio(
    logp: Tensor, old_logp: Tensor | None, mask: Tensor, level: Level = "token"
) -> Tensor:
    """Return the ratio of new to old probability: B × T for tokens, B × 1 for whole rollouts."""
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
    """Return the loss of a batch, a scalar to minimise.

    Args:
        logp: Log-probabilities of the tokens under the policy, B × T, at the rollouts' temperature.
        old_logp: The same under the policy that wrote the rollouts; None: the present policy.
        ref_logp: The same under the reference; required if `beta` is not 0.
        advantage: Advantage of each rollout, B.
        mask: 1 for tokens that count, B × T.
        loss_type: Averaging of the tokens' losses.
        epsilon: The ratio of new to old probability is clipped below 1 - `epsilon`.
        epsilon_high: It is clipped above 1 + this; None: `epsilon`. For `cispo`: the largest ratio.
        beta: Weight of the divergence from the reference.
        max_completion_length: Length limit of rollouts in tokens, for `dr_grpo`; None: T.
        tokens: Number of tokens that count in the whole step, for `dapo` and `cispo`; None: those
            of this batch.
        sampler_ratio: Probability by `old_logp` divided by that of the engine which drew the
            tokens, B × 1, limited; None: 1.
        importance_sampling_level: Ratio of each token, or of each rollout.

    Raises:
        ValueError: `beta` is not 0 and `ref_logp` is None.
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
            n_tokens = torch.as_tensor(mask.sum() if tokens is None else tokens)
            return per_rollout.sum() / n_tokens.clamp(min=1.0)
        case "dr_grpo":
            return per_rollout.sum() / (len(mask) * (max_completion_length or mask.shape[1]))
        case _:
            assert_never(loss_type)
