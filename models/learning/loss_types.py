"""Names of ways to average and to scale in the loss of GRPO; imports no torch."""

from typing import Literal, TypeAlias

LossType: TypeAlias = Literal["grpo", "bnpo", "dr_grpo", "dapo"]
"""Averaging of the clipped loss of tokens: `grpo`, the mean of each rollout's mean over tokens;
`bnpo`, the mean over the tokens of a batch (what the official code of VisionReasoner does); `dapo`,
the mean over the tokens of a whole step; `dr_grpo`, the sum over tokens, divided by rollouts times
the longest length allowed."""
Scale: TypeAlias = Literal["group", "batch"] | None
"""Divisor of advantages: the standard deviation of the group, of all, or 1 for None."""
