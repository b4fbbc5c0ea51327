"""Settings of pocket's training.

Scenes, questions and responses are drawn as it goes, each step a pure function of seed and step. A
step adds up the gradients of two halves, each of three batches: stills, stills to count in, and
clips. Processes that `accelerate launch` has started share the halves.
"""

import os
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.options import with_options
from pocket_training.training import Course, WorldTrainer


@dataclass(frozen=True, kw_only=True)
class PocketTrainer(WorldTrainer):
    """The training with its settings."""

    name = makes = "pocket"
    parts: ClassVar[int] = 2
    """Halves of a step, whichever processes they are shared among."""

    stage: Literal["base", "more"] = "base"
    """`base` learns to find objects, `more` goes on from it to the shipped weights."""
    start: str | None = None
    """A training to go on from: its folder, or a checkpoint; None: random weights."""
    max_steps: int = 2950
    """Optimizer steps."""
    learning_rate: float = 3e-3
    """After the warm-up."""
    save_steps: int = 250
    """Steps between resumable states."""

    def course(self, seed: int) -> Course:
        """Return the training with its initial weights."""
        # Compiled matrix products, one a shape; of the thousand that are kept otherwise some are
        # compiled again and again. Read when the first one is made.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
        from pocket_training.vlm.course import PocketCourse

        return PocketCourse(self, seed)


@with_options(PocketTrainer)
def pocket(trainer: PocketTrainer) -> PocketTrainer:
    """Pocket from random weights, on scenes of `shapes` that are drawn during the training."""
    return trainer
