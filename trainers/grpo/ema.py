"""Advantages of EMA-GRPO: scaled by how much rewards of a task have varied so far.

OneThinker (arXiv:2512.03043), by its published code (`core_algos.py`, `ema_grpo`), whose tracker is
not part of a checkpoint; ours is, so that a resumed training is the uninterrupted one.
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
LEAST_STD, EPSILON, MOST = 1e-3, 1e-6, 5.0
"""Least standard deviation of a task, what is added to a divisor, and the largest absolute
advantage: a group with a larger one is divided by its own (biased) standard deviation instead."""


@dataclass(eq=False)
class RewardMoments:
    """Moving averages of the reward and of its square, by task."""

    decay: float
    """Share of the older average that a round leaves; the first round of a task sets it."""
    moments: dict[str, tuple[float, float]] = field(default_factory=dict)

    def update(self, rewards: Sequence[float], tasks: Sequence[str]) -> None:
        """Add the rewards of a round; groups side by side; `tasks` has one name a group.

        A reward of NaN does not count.
        """
        by_task, size = defaultdict[str, list[float]](list), len(rewards) // len(tasks)
        for place, task in enumerate(tasks):
            own = rewards[place * size : (place + 1) * size]
            by_task[task] += [reward for reward in own if not isnan(reward)]
        for task, several in by_task.items():
            if not several:
                continue
            new = fmean(several), fmean(one * one for one in several)
            old = self.moments.get(task, new)
            first, second = (
                self.decay * before + (1 - self.decay) * now
                for before, now in zip(old, new, strict=True)
            )
            self.moments[task] = first, second

    def std(self, task: str) -> float:
        """Return the standard deviation of a task's rewards, at least 0.001."""
        first, second = self.moments.get(task, (0.0, 0.0))
        return max(sqrt(max(second - first * first, 0.0)), LEAST_STD)

    def save(self, folder: Path) -> None:
        """Write the averages into a state."""
        (folder / FILE).write_text(json.dumps(self.moments), "utf-8")

    def load(self, folder: Path) -> None:
        """Go on from a state."""
        plain = json.loads((folder / FILE).read_text("utf-8"))
        self.moments = {task: (first, second) for task, (first, second) in plain.items()}


def ema_advantages(
    rewards: Tensor, num_generations: int, *, tasks: Sequence[str], moments: RewardMoments
) -> Tensor:
    """Return advantages of rollouts (B), groups side by side, and update the averages before.

    Exactly 0 where all of a group earn the same, and of a rollout without a reward (NaN), which
    counts in nothing, as of `advantages`.

    Args:
        rewards: Reward of each rollout (B), of the whole round.
        num_generations: Rollouts of a group.
        tasks: Name of each group's task.
        moments: The averages so far.
    """
    moments.update(rewards.tolist(), tasks)
    centred = advantages(rewards, num_generations, scale_rewards=None).view(-1, num_generations)
    stds = torch.tensor([moments.std(task) for task in tasks])[:, None]
    scaled = centred / (stds + EPSILON)
    scored = (~rewards.isnan()).view_as(centred).sum(dim=1, keepdim=True).clamp(min=1)
    own = centred / ((centred.square().sum(dim=1, keepdim=True) / scored).sqrt() + EPSILON)
    return torch.where((scaled.abs() > MOST).any(dim=1, keepdim=True), own, scaled).view(-1)
