"""The loss of GRPO as one pure function, for test-time training; tested equal to TRL's.

Shao et al., "DeepSeekMath" (2024), Eq. 3 and 4, with the ways of averaging and of weighing that
followed it.
Shapes: B rollouts of T tokens; `mask` is 1 where a token counts (written by the policy), else 0.
"""

import math
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from harness.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

LossType: TypeAlias = Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"]
"""How tokens are weighed and averaged. Clipped ratios of tokens: `grpo`, the mean of each rollout's
mean over tokens; `bnpo`, the mean over the tokens of a batch (what the official code of
VisionReasoner does); `dapo`, the mean over the tokens of a whole step; `dr_grpo`, the sum over
tokens, divided by rollouts times the longest length allowed. No paper of this project trains with
the others. `cispo`: the ratio, clipped from above alone, is a weight without gradient, averaged as
`dapo` (arXiv 2506.13585). `sapo`: a sigmoid in the place of the clip, averaged as `grpo` (arXiv
2511.20347). `luspo`: the clipped ratio of whole replies, weighed by their length (arXiv
2602.05261). `vespo`: whole replies weighed by a gamma density of their ratio, without gradient,
averaged as `dapo` (arXiv 2602.10693)."""
WHOLE_STEP = frozenset({"dapo", "cispo", "vespo"})
"""Losses that are averaged over the tokens of a whole step."""
BY_REPLY = frozenset({"luspo"})
"""Losses whose ratios are of whole replies: the geometric mean of their tokens' ratios."""
UNCLIPPED = frozenset({"sapo", "vespo"})
"""Losses that weigh ratios by themselves, without a range that is given."""
SAPO = (1.0, 1.05)
"""Temperatures of `sapo` for rollouts above their group's mean, and for the others; TRL's."""
VESPO = ((2.0, 3.0), (3.0, 2.0))
"""(k, λ) of `vespo`, likewise (advantages from 0 on, and below); TRL's."""
LOWEST, HIGHEST = math.log(1e-8), 20.0  # of a whole reply's log-ratio in `vespo`

Scale: TypeAlias = Literal["group", "batch"] | None

STD_EPSILON = 1e-4
"""Added to the standard deviation of a group, as TRL does; the official code of VisionReasoner adds
1e-6, which differs where all rewards of a group are nearly equal."""


def advantages(
    rewards: "Tensor", num_generations: int, *, scale_rewards: Scale = "group"
) -> "Tensor":
    """How much better each rollout is than its group.

    Args:
        rewards: One a rollout, those of a group side by side.
        num_generations: Rollouts of a group.
        scale_rewards: Divide by the (unbiased) standard deviation of the `group`, of the whole
            `batch`, or by nothing (None).
    """
    grouped = rewards.view(-1, num_generations)
    centred = (grouped - grouped.mean(dim=1, keepdim=True)).view(-1)
    if scale_rewards is None:
        return centred
    if scale_rewards == "batch":
        spread = rewards.std()
    else:
        spread = grouped.std(dim=1).repeat_interleave(num_generations)
    return centred / (spread + STD_EPSILON)


def divergence(logp: "Tensor", reference: "Tensor") -> "Tensor":
    """The estimate k3 of the divergence from the reference (Schulman 2020), a token; never below 0.

    r - log r - 1 with r the reference's probability over the policy's.
    """
    import torch

    log_ratio = reference - logp
    return torch.exp(log_ratio) - log_ratio - 1


def grpo_loss(
    logp: "Tensor",
    old_logp: "Tensor | None",
    ref_logp: "Tensor | None",
    advantage: "Tensor",
    mask: "Tensor",
    *,
    loss_type: LossType = "grpo",
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    beta: float = 0.0,
    max_completion_length: int | None = None,
    tokens: "Tensor | float | None" = None,
) -> "Tensor":
    """The loss of a batch, a scalar; its gradient is what a step goes along.

    Args:
        logp: Log-probabilities of the tokens under the policy, B × T, at the rollouts' temperature.
        old_logp: The same under the policy that wrote them; None: it is the policy itself.
        ref_logp: The same under the reference; needed if `beta` is not 0.
        advantage: One a rollout, B.
        mask: Which tokens count, B × T.
        loss_type: How tokens are weighed and averaged.
        epsilon: How far below 1 the ratio of new to old probability counts; not of `cispo`,
            `sapo` or `vespo`.
        epsilon_high: How far above; None: as far as below. Not of `sapo` or `vespo`.
        beta: Weight of the divergence from the reference.
        max_completion_length: The longest length allowed, for `dr_grpo`; None: T.
        tokens: How many tokens count in the whole step, for `WHOLE_STEP`, at least 1; None: in
            this batch.

    Raises:
        UsageError: `loss_type` is none of `LossType`.
    """
    import torch

    log_ratio = logp - (logp.detach() if old_logp is None else old_logp)
    if loss_type in BY_REPLY:
        log_ratio = (log_ratio * mask).sum(dim=1, keepdim=True) / _lengths(mask).unsqueeze(1)
    ratio, gain = torch.exp(log_ratio), advantage.unsqueeze(1)
    highest = 1 + (epsilon if epsilon_high is None else epsilon_high)
    if loss_type == "cispo":
        loss = -ratio.clamp(max=highest).detach() * gain * logp
    elif loss_type == "sapo":
        heat = torch.where(gain > 0, *SAPO)
        loss = -torch.sigmoid(heat * (ratio - 1)) * 4 / heat * gain
    elif loss_type == "vespo":
        loss = -_gamma_weights(log_ratio.detach(), gain, mask) * gain * logp
    else:
        loss = -torch.min(ratio * gain, ratio.clamp(1 - epsilon, highest) * gain)
    if beta:
        if ref_logp is None:
            raise ValueError("beta is not 0: log-probabilities of the reference are needed")
        loss = loss + beta * divergence(logp, ref_logp)
    return averaged(
        loss, mask, loss_type=loss_type, max_completion_length=max_completion_length, tokens=tokens
    )


def averaged(
    loss: "Tensor",
    mask: "Tensor",
    *,
    loss_type: LossType,
    max_completion_length: int | None = None,
    tokens: "Tensor | float | None" = None,
) -> "Tensor":
    """A number a token (B × T), or a reply (B × 1), to one number; see `LossType`.

    Raises:
        UsageError: `loss_type` is none of `LossType`.
    """
    import torch

    if loss_type not in get_args(LossType):
        raise UsageError(
            f"loss_type={loss_type}",
            expected=" or ".join(get_args(LossType)),
            found="another name",
        )
    each = (loss * mask).sum(dim=1)
    if loss_type in ("grpo", "sapo"):
        return (each / _lengths(mask)).mean()
    if loss_type == "luspo":
        return each.mean()
    if loss_type == "bnpo":
        return each.sum() / mask.sum().clamp(min=1.0)
    if loss_type in WHOLE_STEP:
        return each.sum() / torch.as_tensor(mask.sum() if tokens is None else tokens).clamp(min=1.0)
    longest = mask.shape[1] if max_completion_length is None else max_completion_length
    return each.sum() / (mask.shape[0] * longest)


def _lengths(mask: "Tensor") -> "Tensor":
    """How many tokens of each rollout count (B), at least 1."""
    return mask.sum(dim=1).clamp(min=1.0)


def _gamma_weights(log_ratio: "Tensor", gain: "Tensor", mask: "Tensor") -> "Tensor":
    """The weight of each reply in `vespo`, B × 1: e^λ w^k e^(-λw), with w its ratio; 1 at w = 1."""
    import torch

    whole = (log_ratio.clamp(-HIGHEST, HIGHEST) * mask).sum(dim=1, keepdim=True)
    log_w = whole.clamp(LOWEST, HIGHEST)
    power, rate = (torch.where(gain >= 0, *pair) for pair in zip(*VESPO, strict=True))
    return torch.exp(rate + power * log_w - rate * torch.exp(log_w))
