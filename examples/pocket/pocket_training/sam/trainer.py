"""pocket-sam from random weights: the real SAM 2 architecture, small, on the generated world.

    harness train --method pocket_sam --out DIR          # the shipped weights: one CPU core
    harness train --method pocket_sam --out DIR --config minutes

No model is started from and no task is read: scenes and prompts are drawn as training goes, each
step a pure function of seed and step. First only stills are shown, with boxes and points; then
clips as well, with the masks of their first frame, forward and backward.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.trainer import TrainingRun
from pocket_training.trainer import WorldTrainer

if TYPE_CHECKING:
    from pocket_training.sam.training_loop import PocketSamLoop


@dataclass(frozen=True, kw_only=True)
class PocketSamTrainer(WorldTrainer):
    """The training program with its settings; see `pocket_sam`."""

    name: str = "pocket_sam"
    still_steps: int
    clip_steps: int
    learning_rate: float
    clip_learning_rate: float

    @property
    def steps(self) -> int:
        """Number of steps on stills and on clips together."""
        return self.still_steps + self.clip_steps

    def loop(self, run: TrainingRun) -> "PocketSamLoop":
        """Return the loop of a training, before its first step."""
        from pocket_training.sam.training_loop import PocketSamLoop

        return PocketSamLoop(self, run)


def pocket_sam(
    *,
    still_steps: int = 1000,
    clip_steps: int = 1000,
    learning_rate: float = 1e-3,
    clip_learning_rate: float = 5e-4,
    save_steps: int = 200,
) -> PocketSamTrainer:
    """pocket-sam from random weights, on scenes of `shapes` that are drawn during the training.

    Args:
        still_steps: Steps at first, with stills only.
        clip_steps: Steps after them, each with stills and clips.
        learning_rate: Of AdamW, for stills alone.
        clip_learning_rate: The learning rate with clips, at first; it falls to zero as a cosine.
        save_steps: Steps from one state to the next.

    Raises:
        UsageError: a number of steps is out of range.
    """
    given = {"still_steps": (still_steps, 0), "clip_steps": (clip_steps, 0)}
    for name, (value, minimum) in (given | {"save_steps": (save_steps, 1)}).items():
        if value < minimum:
            raise UsageError(
                f"pocket_sam({name}=…)", expected=f"at least {minimum}", found=str(value)
            )
    return PocketSamTrainer(
        still_steps=still_steps,
        clip_steps=clip_steps,
        learning_rate=learning_rate,
        clip_learning_rate=clip_learning_rate,
        save_steps=save_steps,
    )
