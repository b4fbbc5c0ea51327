"""`Rewards`: the reward function that TRL's trainer calls (`engine=trl`), made from our method's.

TRL calls it once a round with the tokens of all completions. It rewards them group by group and
logs the round as our own loop does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.models.backends.sampling import rollout_key
from harness.models.backends.transformers import TransformersChat
from harness.models.learning.loss import advantages
from harness.models.pipeline import PromptedModel
from harness.trainer import Curve, TrainingRun
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents, Rollout
from harness.trainers.grpo.reward_errors import FailedRewards, reward_or_drop
from harness.trainers.grpo.rewards import (
    ROLLOUTS,
    log_rollouts,
    refuse_losses,
    statistics_of,
    summary_of,
)
from harness.trainers.grpo.settings import Settings
from harness.trainers.stopwatch import GENERATION, REWARD, Stopwatch


@dataclass(eq=False)
class Rewards:
    """The method's rewards of a round, in the form of a reward function of TRL."""

    method: GrpoMethod
    run: TrainingRun
    model: PromptedModel
    chat: TransformersChat
    examples: Sequence[Example]
    """Prompts of all rounds, in the order in which TRL gets them."""
    stopwatch: Stopwatch
    lengths: Sequence[int] = ()
    """Number of tokens of each of these prompts."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Numbers of the last round, until `Watch` logs them."""
    sample_names: list[str] = field(default_factory=list)
    """Samples of the last round, for errors."""

    def __post_init__(self) -> None:
        self.failed = FailedRewards(self.settings)
        """Count of failed rewards; continues from the curve, which was cut at the state."""
        self.failed.resume(self.run.curve.read())

    def as_function(self) -> Any:
        """Return the function for TRL's `reward_funcs`; it returns one total a completion."""

        def reward(
            completion_ids: Sequence[Sequence[int]], prompt_index: Sequence[int], **_: Any
        ) -> list[float]:
            """Reward completions; `prompt_index` is the index of each completion's prompt."""
            self.stopwatch.lap(GENERATION)
            totals = self.round(completion_ids, prompt_index)
            self.stopwatch.lap(REWARD)
            return totals

        return reward

    def round(
        self, completions: Sequence[Sequence[int]], prompt_indices: Sequence[int]
    ) -> list[float]:
        """Return the total of each rollout of a round; TRL ignores NaN, as our loop does.

        Args:
            completions: Tokens of each rollout, the rollouts of a prompt side by side.
            prompt_indices: Index in `examples` of each rollout's prompt.
        """
        settings, method = self.settings, self.method
        size, number = settings.num_generations, prompt_indices[0] // settings.samples_per_round()
        groups, rewards = list[Group](), list[list[RewardComponents]]()
        faults = list[str]()
        for start in range(0, len(prompt_indices), size):
            (prompt_index,) = set(prompt_indices[start : start + size])  # the group's one prompt
            example = self.examples[prompt_index]
            group = self._group(example, completions[start : start + size])
            key = f"{example.request.key}@{number}:{prompt_index % settings.samples_per_round()}"
            keys = [rollout_key(key, index) for index in range(size)]
            components, fault = reward_or_drop(method, group, keys, seed=self.run.seed)
            groups.append(group)
            rewards.append(components)
            faults.append(fault)
        totals = [components[TOTAL] for group_rewards in rewards for components in group_rewards]
        gains = advantages(torch.tensor(totals), size, scale_rewards=settings.scale_rewards)
        lengths = [self.lengths[prompt_index] for prompt_index in prompt_indices]
        merged, reasons = statistics_of(groups, rewards, lengths, completions, faults)
        self._log(number, groups, rewards, gains.tolist(), merged, reasons)
        if settings.reward_errors == "drop":
            self.numbers |= self.failed.add(faults, number=number, note=self.run.progress.note)
        return totals

    @property
    def settings(self) -> Settings:
        """The method's settings."""
        return self.method.settings

    def _group(self, example: Example, completions: Sequence[Sequence[int]]) -> Group:
        """Return the group of a prompt's completions, given as tokens."""
        start, ends = f"{self.chat.opening}{example.request.prefix}", self.chat.end_tokens
        return Group(
            sample=example.sample,
            task=example.task,
            rollouts=tuple(
                Rollout(
                    text=f"{start}{self.chat.decode(tokens)}",
                    tokens=len(tokens),
                    cut=tokens[-1] not in ends,
                )
                for tokens in completions
            ),
            canvas=example.canvas,
            count_tokens=self.chat.count_tokens,
            frames=example.frames,
        )

    def _log(
        self,
        number: int,
        groups: Sequence[Group],
        rewards: Sequence[Sequence[RewardComponents]],
        gains: Sequence[float],
        merged: Mapping[str, Sequence[float]],
        reasons: Sequence[str],
    ) -> None:
        """Log round `number`, with its advantages `gains` and its `statistics_of`.

        Raises:
            Unavailable: too many rollouts were lost.
        """
        self.numbers = {
            **summary_of(merged, gains),
            "step_tokens": sum(merged["completions/mean_length"]),
        }
        self.sample_names = [f"{group.task} {group.sample.id}" for group in groups]
        first, kept = number * self.settings.num_iterations + 1, self.settings.keep_rollouts
        file, parse = Curve(self.run.out / ROLLOUTS), self.model.prompt.parse
        log_rollouts(file, first, groups[:kept], rewards, gains, parse)
        limit = self.settings.infrastructure_limit
        refuse_losses(reasons, limit=limit, rollouts=len(gains), number=number)
