"""Names of ways to average and to scale in the loss of GRPO; imports no torch."""

from typing import Literal, TypeAlias

LossType: TypeAlias = Literal["grpo", "bnpo", "dr_grpo", "dapo"]
"""Averaging of the clipped loss: `grpo`, the mean of each rollout's mean over its tokens; `bnpo`,
the mean over the tokens of a batch (as VisionReasoner's official code); `dapo`, over those of a
whole step; `dr_grpo`, the sum over tokens by rollouts times the longest length allowed."""
Scale: TypeAlias = Literal["group", "batch"] | None
"""Divisor of advantages: the standard deviation of the group, of all, or 1 for None."""
