"""Advantages of EMA-GRPO (`ema_decay`): divided by a task's moving standard deviation of rewards.

OneThinker (arXiv:2512.03043), by its published code (`core_algos.py`, `ema_grpo`). There the moving
averages are not part of a checkpoint; here they are, so that a resumed training equals an
uninterrupted one.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, sqrt
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from harness.models.learning.loss import advantages

FILE = "reward_moments.json"
MIN_STD, EPSILON, MAX_ADVANTAGE = 1e-3, 1e-6, 5.0
"""Smallest standard deviation of a task; number added to a divisor; largest absolute advantage: a
group with a larger one is divided by its own (biased) standard deviation instead."""


@dataclass(eq=False)
class RewardMoments:
    """Moving averages of the reward and of its square, by task."""

    decay: float
    """Weight of the average so far in a round's update; a task's first round sets the average."""
    moments: dict[str, tuple[float, float]] = field(default_factory=dict)
    """(average reward, average squared reward) by task."""

    def update(self, rewards: Sequence[float], tasks: Sequence[str]) -> None:
        """Add the rewards of a round, group after group; `tasks` has one name a group.

        A reward of NaN does not count.
        """
        by_task, size = defaultdict[str, list[float]](list), len(rewards) // len(tasks)
        for number, task in enumerate(tasks):
            group_rewards = rewards[number * size : (number + 1) * size]
            by_task[task] += [reward for reward in group_rewards if not isnan(reward)]
        for task, scored in by_task.items():
            if not scored:
                continue
            mean, square = fmean(scored), fmean(reward * reward for reward in scored)
            old_mean, old_square = self.moments.get(task, (mean, square))
            self.moments[task] = (
                self.decay * old_mean + (1 - self.decay) * mean,
                self.decay * old_square + (1 - self.decay) * square,
            )

    def std(self, task: str) -> float:
        """Return the standard deviation of a task's rewards, at least MIN_STD."""
        mean, square = self.moments.get(task, (0.0, 0.0))
        return max(sqrt(max(square - mean * mean, 0.0)), MIN_STD)

    def save(self, folder: Path) -> None:
        """Write the averages into the folder of a state."""
        (folder / FILE).write_text(json.dumps(self.moments), "utf-8")

    def load(self, folder: Path) -> None:
        """Restore the averages from the folder of a state."""
        saved = json.loads((folder / FILE).read_text("utf-8"))
        self.moments = {task: (mean, square) for task, (mean, square) in saved.items()}


def ema_advantages(
    rewards: Tensor, num_generations: int, *, tasks: Sequence[str], moments: RewardMoments
) -> Tensor:
    """Update the averages with a round's rewards, then return the advantages (B).

    An advantage is exactly 0 in a group of equal rewards, and for a rollout without a reward (NaN),
    which counts in no mean or deviation.

    Args:
        rewards: Reward of each rollout of the round (B), group after group.
        num_generations: Rollouts of a group.
        tasks: Name of each group's task (B / num_generations).
        moments: The averages so far.
    """
    moments.update(rewards.tolist(), tasks)
    centred = advantages(rewards, num_generations, scale_rewards=None).view(-1, num_generations)
    stds = torch.tensor([moments.std(task) for task in tasks])[:, None]
    scaled = centred / (stds + EPSILON)
    scored = (~rewards.isnan()).view_as(centred).sum(dim=1, keepdim=True).clamp(min=1)
    by_group = centred / ((centred.square().sum(dim=1, keepdim=True) / scored).sqrt() + EPSILON)
    is_large = (scaled.abs() > MAX_ADVANTAGE).any(dim=1, keepdim=True)
    return torch.where(is_large, by_group, scaled).view(-1)
