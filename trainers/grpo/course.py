"""What a training with GRPO is given, and what one of its rounds asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.kept import Keeping
from harness.trainers.grpo.scoring import Scoring


@dataclass(frozen=True, kw_only=True)
class Course:
    """What is learned from, and how rollouts are drawn and scored."""

    examples: Sequence[Example]
    scoring: Scoring
    keeping: Keeping
    processor: Any
    seed: int
    keyed: bool
    """Draw tokens by counters instead of PyTorch's generator."""
    generation_micro_batch_size: int | None
    """Rollouts that are written at once; None: all."""
    second_temperature: float | None = None
    """Of replies to second requests; 0: greedy. None: that of rollouts."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The prompts of this process in one round, one a rollout; those of a group are the same."""

    examples: tuple[Example, ...]
    prompts: tuple[Mapping[str, Tensor], ...]
    keys: tuple[str, ...]
