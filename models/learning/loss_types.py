"""Names of ways to average and to scale in the loss of GRPO; imports no torch."""

from typing import Literal, TypeAlias

LossType: TypeAlias = Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo"]
"""Averaging of the clipped loss: `grpo`, the mean of each rollout's mean over its tokens; `bnpo`,
the mean over the tokens of a batch (as VisionReasoner's official code); `dapo`, over those of a
whole step; `dr_grpo`, the sum over tokens by rollouts times the longest length allowed. `cispo`
averages as `dapo`, and weighs log-probabilities by the ratio, limited by `epsilon_high` (MiniMax-M1
2025)."""
Level: TypeAlias = Literal["token", "sequence"]
"""Ratio of new to old probability: of each token, or of a whole rollout, the geometric mean of its
tokens' (GSPO, Zheng et al. 2025; its averaging is `grpo`)."""
Scale: TypeAlias = Literal["group", "batch"] | None
"""Divisor of advantages: the standard deviation of the group, of all, or 1 for None."""
