"""Settings of pocket's training, and the two trainings of the shipped weights.

Scenes, questions and responses are drawn as it goes, each step a pure function of seed and step. A
step adds up the gradients of two halves, each of three batches: stills, stills to count in, and
clips. Processes that `accelerate launch` has started share the halves.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.options import with_options
from pocket_training.training import Course, WorldTrainer

MIN_THINGS, MAX_THINGS = 2, 8  # in the easiest stills that are asked about, and in the others


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Settings that differ between the trainings, as in the second; parts are shares of its steps.

    A coordinate's target is a bell as wide as `spread`, in pixels of the canvas.
    """

    warmup_steps: int = 50  # until the learning rate is reached
    flat: float = 0.3  # part at the full learning rate, after which it falls as a cosine
    first_spread: float = 1.08
    last_spread: float = 0.7
    spread_until: float = 0.6  # part in which the spread falls, by equal factors
    heads_until: float = 0.9  # part after which the weights of all heads are a tenth
    easy_until: float = 0.0  # part in which scenes grow from two objects to all
    see_until: float = 0.0  # part in which mainly the vision tower learns, without questions
    stills: int = 5  # with questions, in one half of a step
    images: int = 12  # without: image tokens learn to describe their content
    words: float = 0.45  # share of the lessons that are answered in words
    swapped: float = 0.2  # share of those about one thing whose reasoning names another
    fine: bool = True
    """Image tokens predict which of their cells their thing covers, what each of their four patches
    shows, and, after the middle layer, the box of the question's subject even where other things
    cover more of them; in `images` many things have a colour without a name; and sizes are listed,
    where other lessons compare each with the best so far."""

    def rate(self, part: float, step: int) -> float:
        """Return the share of the learning rate: a rise, a flat stretch, a cosine to 0.01."""
        rise = min(1.0, (step + 1) / self.warmup_steps)
        if part <= self.flat:
            return rise
        fall = (part - self.flat) / (1 - self.flat)
        return rise * max(0.01, 0.5 * (1 + math.cos(math.pi * fall)))

    def spread(self, part: float) -> float:
        """Return the width of measured numbers' targets."""
        fallen = min(1.0, part / self.spread_until)
        return float(self.first_spread * (self.last_spread / self.first_spread) ** fallen)

    def max_things(self, part: float) -> int:
        """Return how many things a still may have."""
        grown = min(1.0, part / max(self.easy_until, 1e-9))
        return MIN_THINGS + round(grown * (MAX_THINGS - MIN_THINGS))


STAGES: Mapping[str, Stage] = {
    "base": Stage(
        warmup_steps=150,
        flat=1.0,
        first_spread=10.0,
        last_spread=1.08015555382684,
        spread_until=1.0,
        heads_until=1.0,
        easy_until=0.19915254237288135,
        see_until=0.15932203389830507,
        stills=4,
        images=16,
        words=0.5,
        swapped=0.3,
        fine=False,
    ),
    "more": Stage(),
}
"""`base` makes `pocket-base`, `more` goes on from it to `pocket`."""


@dataclass(frozen=True, kw_only=True)
class PocketTrainer(WorldTrainer):
    """The training with its settings."""

    name = makes = "pocket"
    parts: ClassVar[int] = 2  # halves of a step

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
