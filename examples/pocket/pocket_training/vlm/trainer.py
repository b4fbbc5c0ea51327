"""pocket from random weights: the real architecture, small, on the generated world.

    harness train --method pocket --out runs/base
    harness train --method pocket --set stage=more --set start=runs/base --seed 3 --out runs/pocket
    harness train --method pocket --out DIR --set max_steps=50

The first two make the shipped weights. No task is read: scenes, questions and responses are drawn
as training goes, each step a pure function of seed and step. A step adds up the gradients of two
halves, each of three batches: stills, stills to count in, and clips. Processes that `accelerate
launch` has started share the halves.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from harness.trainer import TrainingRun
from pocket_training.trainer import WorldTrainer
from pocket_training.vlm.data_mixture import Mixture

if TYPE_CHECKING:
    from pocket_training.vlm.training_loop import PocketLoop


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Settings that differ between the two trainings; parts are shares of a training's steps."""

    warmup_steps: int
    """Steps until the learning rate is reached."""
    flat: float
    """Part at the full learning rate, after which it falls as a cosine."""
    first_spread: float
    """Width of a coordinate's target at first, in pixels of the canvas."""
    last_spread: float
    spread_until: float
    """Part in which the width falls, by equal factors."""
    places_of_targets: bool
    """Image tokens predict, after the middle layer, the box of the question's subject, even where
    other objects cover more of them."""
    fine: bool
    """Image tokens predict which of their cells their object covers, and what each of their four
    patches shows."""
    heads_until: float
    """Part after which the weights of all heads are a tenth."""
    easy_until: float
    """Part in which scenes grow from two objects to all."""
    see_until: float
    """Part in which mainly the vision tower learns, on stills without questions."""
    mixture: Mixture


STAGES: Mapping[str, Stage] = {
    "base": Stage(
        warmup_steps=150,
        flat=1.0,
        first_spread=10.0,
        last_spread=1.08015555382684,
        spread_until=1.0,
        places_of_targets=False,
        fine=False,
        heads_until=1.0,
        easy_until=0.19915254237288135,
        see_until=0.15932203389830507,
        mixture=Mixture(stills=4, images=16, words=0.5, swapped=0.3, sizes_held=True),
    ),
    "more": Stage(
        warmup_steps=50,
        flat=0.3,
        first_spread=1.08,
        last_spread=0.7,
        spread_until=0.6,
        places_of_targets=True,
        fine=True,
        heads_until=0.9,
        easy_until=0.0,
        see_until=0.0,
        mixture=Mixture(stills=5, images=12, words=0.45, swapped=0.2, recoloured=0.7),
    ),
}
"""`base` makes `pocket-base`, `more` goes on from it to `pocket`."""


@dataclass(frozen=True, kw_only=True)
class PocketTrainer(WorldTrainer):
    """The training program with its settings; see `pocket`."""

    name: str = "pocket"
    makes: str = "pocket"
    parts: ClassVar[int] = 2
    """Halves of a step, whichever processes they are shared among."""
    stage: Stage
    start: str | None
    max_steps: int
    learning_rate: float

    @property
    def steps(self) -> int:
        """`max_steps`."""
        return self.max_steps

    def loop(self, run: TrainingRun) -> "PocketLoop":
        """Return the loop of a training, before its first step."""
        # Compiled matrix products, one a shape; of the thousand that are kept otherwise some are
        # compiled again and again. Read when the first one is made.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
        from pocket_training.vlm.training_loop import PocketLoop

        return PocketLoop(self, run)


def pocket(
    *,
    stage: Literal["base", "more"] = "base",
    start: str | None = None,
    max_steps: int = 2950,
    learning_rate: float = 3e-3,
    save_steps: int = 250,
) -> PocketTrainer:
    """Pocket from random weights, on scenes of `shapes` that are drawn during the training.

    Args:
        stage: `base` learns to find objects, `more` goes on from it to the shipped weights.
        start: A training to go on from: its folder, or a checkpoint; None: random weights.
        max_steps: Optimizer steps.
        learning_rate: After the warm-up.
        save_steps: Steps between resumable states.
    """
    return PocketTrainer(
        stage=STAGES[stage],
        start=start,
        max_steps=max_steps,
        learning_rate=learning_rate,
        save_steps=save_steps,
    )
