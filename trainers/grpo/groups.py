"""Values of a round of GRPO, from a prompt to what gradients are computed for.

A sample's `Example` becomes a `Draft` for each rollout; a prompt's drafts with their rewards are
`Written`, and rollouts of several prompts as tensors a `Batch`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from torch import Tensor

from harness.errors import HarnessError
from harness.models.rollout import Transcript
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.method import TOTAL, Group, RewardComponents, Rollout
from harness.trainers.learner import Round
from harness.trainers.rows import Prompt


@dataclass(eq=False, kw_only=True)
class Draft(Transcript):
    """A rollout of a training, from its prompt to the policy's response to its second request."""

    example: Example
    prompt: Prompt
    key: str
    """Key of the random numbers that draw its tokens."""
    second: Rollout | None = None
    fault: HarnessError | None = None
    """Why there is no second response to reward; `second` is then another prompt's."""

    @property
    def rollout(self) -> Rollout:
        """Rollout as a reward sees it."""
        return Rollout(text=self.text, tokens=sum(self.mask), cut=self.cut, facts=self.facts)


@dataclass(frozen=True, eq=False, kw_only=True)
class Written:
    """A group of a round, written and rewarded."""

    drafts: Sequence[Draft]
    group: Group
    rewards: Sequence[RewardComponents]
    fault: str = ""
    """Why its reward failed; see `reward_errors`."""

    @property
    def is_dead(self) -> bool:
        """True if all rollouts earn the same, so that nothing is learned from them."""
        return len({one[TOTAL] for one in self.rewards if not isnan(one[TOTAL])}) < 2


@dataclass(eq=False)
class Batch:
    """Rollouts that gradients are computed for at once; B × T where nothing else is said."""

    inputs: dict[str, Tensor]
    """Inputs of the network: prompts padded on the left, completions on the right."""
    prompts: dict[str, Tensor] | None
    """The different prompts alone, if some rows share one and a network can go on from it."""
    mask: Tensor
    """1 for tokens that the policy wrote, 0 for others, which count in nothing."""
    answers: Tensor
    """1 for the policy's tokens between the answer's tags."""
    advantage: Tensor
    """Advantage of each rollout (B)."""
    old: Tensor | None = None
    reference: Tensor | None = None
    drawn: Tensor | None = None
    """Log-probabilities that vLLM drew the tokens with."""
    ratio: Tensor | None = None
    """Ratio of the network's probabilities to vLLM's; see `grpo_loss`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RewardedRound(Round[Batch]):
    """Rollouts of this process with their rewards, and the batches that are learned from."""

    groups: Sequence[Group]
    prompts: Sequence[str]
    """Text of each group's request."""
    rewards: Sequence[Sequence[RewardComponents]]
    advantages: Sequence[float]
