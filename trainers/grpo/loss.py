"""The loss of GRPO as one pure function, for test-time training; tested equal to TRL's.

Shao et al., "DeepSeekMath" (2024), Eq. 3 and 4, with the ways of averaging that followed it.
Shapes: B rollouts of T tokens; `mask` is 1 where a token counts (written by the policy), else 0.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from harness.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

LossType: TypeAlias = Literal["grpo", "bnpo", "dr_grpo", "dapo"]
"""`grpo`: the mean of each rollout's mean over tokens; `bnpo`: the mean over the tokens of a batch
(what the official code of VisionReasoner does); `dapo`: the mean over the tokens of a whole step;
`dr_grpo`: the sum over tokens, divided by rollouts times the longest length allowed."""

NOT_OFFERED: Mapping[str, str] = {
    "cispo": "it clips the ratio as a weight, for which `clip` means something else",
    "sapo": "it has temperatures in the place of `clip`",
    "luspo": "its ratios are of whole replies",
    "vespo": "it weighs whole replies, by settings of its own",
}
"""TRL's further losses, which no paper of this project trains with, and what they would need."""

Scale: TypeAlias = Literal["group", "batch"] | None

EPSILON = 1e-4
"""Added to the standard deviation of a group, as TRL does; the official code of VisionReasoner adds
1e-6, which differs where all rewards of a group are nearly equal."""


def advantages(rewards: "Tensor", group: int, *, scale: Scale = "group") -> "Tensor":
    """How much better each rollout is than its group.

    Args:
        rewards: One a rollout, those of a group side by side.
        group: Rollouts of a group.
        scale: Divide by the (unbiased) standard deviation of the `group`, of the whole `batch`,
            or by nothing (None).
    """
    grouped = rewards.view(-1, group)
    centred = (grouped - grouped.mean(dim=1, keepdim=True)).view(-1)
    if scale is None:
        return centred
    spread = rewards.std() if scale == "batch" else grouped.std(dim=1).repeat_interleave(group)
    return centred / (spread + EPSILON)


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
    kind: LossType = "grpo",
    clip: float = 0.2,
    clip_high: float | None = None,
    beta: float = 0.0,
    longest: int | None = None,
    tokens: "Tensor | float | None" = None,
) -> "Tensor":
    """The loss of a batch, a scalar; its gradient is what a step goes along.

    Args:
        logp: Log-probabilities of the tokens under the policy, B × T, at the rollouts' temperature.
        old_logp: The same under the policy that wrote them; None: it is the policy itself.
        ref_logp: The same under the reference; needed if `beta` is not 0.
        advantage: One a rollout, B.
        mask: Which tokens count, B × T.
        kind: How tokens are averaged. TRL has further losses, `cispo`, `sapo`, `luspo` and
            `vespo`, which are refused by name; `NOT_OFFERED` says why.
        clip: How far below 1 the ratio of new to old probability counts.
        clip_high: How far above; None: as far as below.
        beta: Weight of the divergence from the reference.
        longest: The longest length allowed, for `dr_grpo`; None: T.
        tokens: How many tokens count in the whole step, for `dapo`; None: in this batch.

    Raises:
        UsageError: `kind` is none of `LossType`.
    """
    import torch

    if kind not in get_args(LossType):
        raise UsageError(f"kind={kind} of a loss", expected=" or ".join(get_args(LossType)),
                         found=NOT_OFFERED.get(kind, "another name"))  # fmt: skip

    old = logp.detach() if old_logp is None else old_logp
    ratio = torch.exp(logp - old)
    kept = ratio.clamp(1 - clip, 1 + (clip if clip_high is None else clip_high))
    gain = advantage.unsqueeze(1)
    loss = -torch.min(ratio * gain, kept * gain)
    if beta:
        if ref_logp is None:
            raise ValueError("beta is not 0: log-probabilities of the reference are needed")
        loss = loss + beta * divergence(logp, ref_logp)
    return averaged(loss, mask, kind=kind, longest=longest, tokens=tokens)


def averaged(
    loss: "Tensor",
    mask: "Tensor",
    *,
    kind: LossType,
    longest: int | None = None,
    tokens: "Tensor | float | None" = None,
) -> "Tensor":
    """A number a token (B × T) to one number; see `LossType`."""
    summed = (loss * mask).sum()
    if kind == "grpo":
        return ((loss * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)).mean()
    if kind == "bnpo":
        return summed / mask.sum().clamp(min=1.0)
    if kind == "dapo":
        return summed / (mask.sum().clamp(min=1.0) if tokens is None else tokens)
    return summed / (loss.shape[0] * (loss.shape[1] if longest is None else longest))
