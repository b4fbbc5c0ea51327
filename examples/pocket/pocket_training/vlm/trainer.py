"""pocket from random weights: the real architecture, small, on the generated world.

    harness train --method pocket --out runs/base
    harness train --method pocket --set stage=more --set start=runs/base --seed 3 --out runs/pocket
    harness train --method pocket --out DIR --set max_steps=50

The first two make the shipped weights in 90 minutes on two cores. No task is read: scenes,
questions and responses are drawn as training goes, each step a pure function of seed and step. A
step adds up the gradients of three batches: stills, stills to count in, and clips.
"""

import os
from collections.abc import Mapping
from typing import Literal

from harness.errors import UsageError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.trainer import Trainer, TrainingRun
from pocket_training.vlm.network import Architecture
from pocket_training.vlm.settings import STAGES, PocketSettings


class PocketTrainer(PocketSettings, Trainer):
    """The training program with its settings; see `pocket`."""

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Train, and write the checkpoint.

        Raises:
            UsageError: it was given a model or tasks, which it has no use for.
            KeyboardInterrupt: the run received a signal to stop; the state is saved.
        """
        if run.tasks or run.model is not None:
            raise UsageError(
                "method pocket",
                expected="neither --model nor --train-tasks, as it draws its own world",
                found="one of them",
            )
        ensure_torchvision()
        # Compiled matrix products, one a shape; of the thousand that are kept otherwise some are
        # compiled again and again. Read when the first one is made, here and in other processes.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
        from pocket_training.vlm.training_loop import TrainingLoop

        return TrainingLoop(self, run).run()


def pocket(
    *,
    stage: Literal["base", "more"] = "base",
    start: str | None = None,
    max_steps: int = 2950,
    learning_rate: float = 3e-3,
    layers: int = 6,
    hidden_size: int = 128,
    processes: int = 2,
    bf16: bool = True,
    save_steps: int = 250,
    logging_steps: int = 20,
) -> PocketTrainer:
    """Pocket from random weights, on scenes of `shapes` that are drawn during the training.

    Args:
        stage: `base` learns to find objects, `more` goes on from it to the shipped weights.
        start: A training to go on from: its folder, or a checkpoint; None: random weights.
        max_steps: Optimizer steps.
        learning_rate: After the warm-up.
        layers: Of the text network.
        hidden_size: Of the text network.
        processes: Processes that train together, one thread each; results differ by rounding.
        bf16: Compute in bfloat16; weights stay float32.
        save_steps: Steps between resumable states.
        logging_steps: Steps between lines of the curve.
    """
    return PocketTrainer(
        stage=STAGES[stage],
        max_steps=max_steps,
        learning_rate=learning_rate,
        start=start,
        architecture=Architecture(layers=layers, hidden_size=hidden_size),
        processes=processes,
        bf16=bf16,
        save_steps=save_steps,
        logging_steps=logging_steps,
    )
