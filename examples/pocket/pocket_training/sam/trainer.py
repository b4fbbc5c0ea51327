"""pocket-sam from random weights: the real SAM 2 architecture, small, on the generated world.

    harness train --method pocket_sam --out DIR          # the shipped weights: one CPU core
    harness train --method pocket_sam --out DIR --config minutes

No model is started from and no task is read: scenes and prompts are drawn as training goes, each
step a pure function of seed and step. First only stills are shown, with boxes and points; then
clips as well, with the masks of their first frame, forward and backward.
"""

from collections.abc import Mapping

from harness.errors import UsageError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.trainer import Trainer, TrainingRun
from pocket_training.sam.network import MEMORY_WIDTH, STRIDE, Architecture
from pocket_training.sam.settings import PocketSamSettings


class PocketSamTrainer(PocketSamSettings, Trainer):
    """The training program with its settings; see `pocket_sam`."""

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Train to the end, and write the checkpoint.

        Raises:
            UsageError: it was given a model or tasks, which it has no use for.
            KeyboardInterrupt: the run received a signal to stop; the state is saved.
        """
        if run.tasks or run.model is not None:
            raise UsageError(
                "method pocket_sam",
                expected="neither --model nor --train-tasks, as it draws its own world",
                found="one of them",
            )
        ensure_torchvision()
        from pocket_training.sam.training_loop import TrainingLoop

        return TrainingLoop(self, run).run()


def pocket_sam(
    *,
    still_steps: int = 1000,
    clip_steps: int = 1000,
    images: int = 6,
    objects: int = 8,
    videos: int = 2,
    followed: int = 4,
    shortest: int = 3,
    longest: int = 8,
    learning_rate: float = 1e-3,
    clip_learning_rate: float = 5e-4,
    warmup_steps: int = 50,
    weight_decay: float = 0.01,
    max_grad_norm: float = 1.0,
    sparse_steps: int = 200,
    side: int = 192,
    save_steps: int = 200,
) -> PocketSamTrainer:
    """pocket-sam from random weights, on scenes of `shapes` that are drawn during the training.

    Args:
        still_steps: Steps at first, with stills only.
        clip_steps: Steps after them, each with stills and clips.
        images: Stills in a step.
        objects: Prompts for each of them.
        videos: Clips in a step.
        followed: Objects that are followed in each of them.
        shortest: Fewest frames of a clip; all clips of a step are equally long.
        longest: Most frames of a clip.
        learning_rate: Of AdamW, for stills alone.
        clip_learning_rate: The learning rate with clips, at first; it falls to zero as a cosine.
        warmup_steps: Steps until the learning rate is reached.
        weight_decay: Of matrices and filters.
        max_grad_norm: Largest norm of the gradient.
        sparse_steps: Until a pixel beside an object counts as much as one in it.
        side: Images are squashed to a square of this many pixels, a multiple of 64.
        save_steps: Steps from one state to the next.

    Raises:
        UsageError: a number is out of range.
    """
    for name, value, minimum in (
        ("still_steps", still_steps, 0),
        ("clip_steps", clip_steps, 0),
        ("images", images, 1),
        ("objects", objects, 1),
        ("videos", videos, 1),
        ("followed", followed, 1),
        ("shortest", shortest, 3),
        ("longest", longest, shortest),
        ("save_steps", save_steps, 1),
    ):
        if value < minimum:
            raise UsageError(
                f"pocket_sam({name}=…)", expected=f"at least {minimum}", found=str(value)
            )
    if longest > 8:
        raise UsageError(
            "pocket_sam(longest=…)",
            expected="at most 8, the frames of a video of the generated world",
            found=str(longest),
        )
    if side < MEMORY_WIDTH or side % (4 * STRIDE):
        raise UsageError("pocket_sam(side=…)", expected="a multiple of 64", found=str(side))
    return PocketSamTrainer(
        still_steps=still_steps,
        clip_steps=clip_steps,
        images=images,
        objects=objects,
        videos=videos,
        followed=followed,
        shortest=shortest,
        longest=longest,
        learning_rate=learning_rate,
        clip_learning_rate=clip_learning_rate,
        warmup_steps=warmup_steps,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        sparse_steps=sparse_steps,
        save_steps=save_steps,
        architecture=Architecture(side=side),
    )
