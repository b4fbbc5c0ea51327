"""Values of a round of GRPO, in the order in which `harness.trainers.grpo.loop` makes them.

    Example ─▶ num_generations × Draft ─▶ RewardedGroup ─▶ Batch (tensors) ─▶ RewardedRound

An `Example` is a sample with its prompt, a `Draft` one rollout of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from torch import Tensor

from harness.errors import HarnessError
from harness.models.learning.rows import answer_span
from harness.models.rollout import Transcript
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.method import TOTAL, Group, RewardComponents, Rollout
from harness.trainers.learner import Round
from harness.trainers.rows import Prompt


@dataclass(eq=False, kw_only=True)
class Draft(Transcript):
    """A rollout that is being written: its prompt, its tokens, and its second response, if any."""

    example: Example
    prompt: Prompt
    key: str
    """Key of the random numbers that draw its tokens."""
    second: Rollout | None = None
    """Response of the same policy to the method's second request; None: there is no such request.
    """
    fault: HarnessError | None = None
    """Error of the second request. `second` then answers the first prompt again, and is ignored."""

    @property
    def rollout(self) -> Rollout:
        """The rollout as a reward sees it."""
        return Rollout(text=self.text, tokens=sum(self.mask), cut=self.cut, facts=self.facts)

    def answer_mask(self, decode: Callable[[Sequence[int]], str]) -> list[int]:
        """Return 1 for each token of the policy between the answer's tags, 0 for the others."""
        start, end = answer_span(decode, self.tokens)
        return [is_own * (start <= index < end) for index, is_own in enumerate(self.mask)]


@dataclass(frozen=True, eq=False, kw_only=True)
class RewardedGroup:
    """The rollouts of one prompt with their rewards."""

    drafts: Sequence[Draft]
    group: Group
    rewards: Sequence[RewardComponents]
    fault: str = ""
    """Message of the error by which the reward failed (`reward_errors=drop`); empty: it did not."""

    @property
    def is_dead(self) -> bool:
        """True if all rollouts have the same total, so that all advantages are 0."""
        totals = [components[TOTAL] for components in self.rewards]
        return len({total for total in totals if not isnan(total)}) < 2


@dataclass(eq=False)
class Batch:
    """B rollouts of one forward and backward pass, with completions of at most T tokens."""

    inputs: dict[str, Tensor]
    """Inputs of the network: prompts padded on the left, completions on the right."""
    prompts: dict[str, Tensor] | None
    """Each different prompt once (`shared_prompts`), so that it is computed once for its rows.

    None: no two rows share a prompt, or the network cannot continue from a cache.
    """
    mask: Tensor
    """1 for tokens of the policy that count in the loss, 0 for all others (B × T)."""
    answers: Tensor
    """1 for the policy's tokens between the answer's tags (B × T)."""
    advantage: Tensor
    """Advantage of each rollout (B)."""
    old: Tensor | None = None
    """Log-probabilities before the round's first step (B × T); None: the same as the current ones.
    """
    reference: Tensor | None = None
    """Log-probabilities of the reference policy (B × T); None: beta=0."""
    drawn: Tensor | None = None
    """Log-probabilities that vLLM drew the tokens with (B × T)."""
    ratio: Tensor | None = None
    """Ratio of the network's probabilities to vLLM's; see `grpo_loss`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RewardedRound(Round[Batch]):
    """The groups of this process that are learned from, with their batches."""

    groups: Sequence[Group]
    prompts: Sequence[str]
    """Text of each group's request."""
    rewards: Sequence[Sequence[RewardComponents]]
    """Components of each group's rollouts."""
    advantages: Sequence[float]
    """Advantage of each rollout, the groups in order."""
