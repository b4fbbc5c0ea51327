"""Names of the variants of GRPO's loss, for options; this module imports no torch."""

from typing import Literal, TypeAlias

LossType: TypeAlias = Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo"]
"""Averaging of the clipped loss. `grpo`: the mean over rollouts of each one's mean over tokens;
`bnpo`: the mean over the tokens of a batch (VisionReasoner's official code); `dapo`: the mean over
the tokens of a whole step; `dr_grpo`: the sum over tokens, divided by rollouts × length limit;
`cispo`: as `dapo`, with log-probabilities weighted by the ratio, which `epsilon_high` limits
(MiniMax-M1 2025)."""
Level: TypeAlias = Literal["token", "sequence"]
"""Ratio of new to old probability: of each token, or of a whole rollout (the geometric mean of its
tokens' ratios; GSPO, Zheng et al. 2025, which averages as `grpo`)."""
Scale: TypeAlias = Literal["group", "batch"] | None
"""Divisor of advantages: the standard deviation of the group or of the batch; None: 1."""
