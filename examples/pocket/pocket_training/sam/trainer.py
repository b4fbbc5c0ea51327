"""Settings of pocket-sam's training: at first stills with boxes and points, then clips as well."""

from dataclasses import dataclass

from harness.options import with_options
from pocket_training.training import Course, WorldTrainer


@dataclass(frozen=True, kw_only=True)
class PocketSamTrainer(WorldTrainer):
    """The training with its settings."""

    name = "pocket_sam"

    still_steps: int = 1000
    """Steps at first, with stills only."""
    clip_steps: int = 1000
    """Steps after them, each with stills and clips."""
    learning_rate: float = 1e-3
    """Learning rate of AdamW, for stills alone."""
    clip_learning_rate: float = 5e-4
    """Learning rate with clips, at first; it falls to zero as a cosine."""
    save_steps: int = 200
    """Steps from one state to the next."""

    def course(self, seed: int) -> Course:
        """Return the training with its initial weights."""
        from pocket_training.sam.course import PocketSamCourse

        return PocketSamCourse(self, seed)


@with_options(PocketSamTrainer)
def pocket_sam(trainer: PocketSamTrainer) -> PocketSamTrainer:
    """pocket-sam from random weights, on scenes of `shapes` that are drawn during the training."""
    return trainer
