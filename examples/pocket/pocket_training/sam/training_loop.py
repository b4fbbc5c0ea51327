"""Steps of pocket-sam's training: what each shows, its learning rate, its losses."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from harness.models.backends.loading import no_bars
from harness.trainer import TrainingRun
from pocket_training.sam.batches import clips, stills
from pocket_training.sam.network import load_processor, make_network, shipped_config
from pocket_training.sam.steps import Cost, clip_cost, still_cost
from pocket_training.sam.trainer import PocketSamTrainer
from pocket_training.training_loop import TrainingLoop

IMAGES, OBJECTS = 6, 8  # stills in a step, and prompts for each of them
VIDEOS, FOLLOWED = 2, 4  # clips in a step, and objects that are followed in each of them
SHORTEST, LONGEST = 3, 8  # frames of a clip; all clips of a step are equally long
SEVERAL = 0.75  # of the steps with stills ask for three masks, the others for one
FIRST_BACKGROUND, SPARSE_STEPS = 0.02, 200
"""Weight of a pixel beside an object at first, and steps until it counts as much as one in it."""

WARMUP_STEPS = 50
BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.01  # of matrices and filters
MAX_GRAD_NORM = 1.0


class PocketSamLoop(TrainingLoop):
    """One training of pocket-sam."""

    def __init__(self, trainer: PocketSamTrainer, run: TrainingRun) -> None:
        self._settings = trainer
        # Training mode, so that a single mask is never replaced by one of three; no dropout.
        self.network = make_network(shipped_config(), seed=run.seed).train()
        self.processor = load_processor()
        # Vectors, such as biases and scales of norms, do not decay.
        matrices, vectors = (
            [one for one in self.network.parameters() if (one.ndim > 1) == several]
            for several in (True, False)
        )
        groups = [
            {"params": matrices, "weight_decay": WEIGHT_DECAY},
            {"params": vectors, "weight_decay": 0.0},
        ]
        super().__init__(trainer, run, self.network, [torch.optim.AdamW(groups, betas=BETAS)])

    def step(self, step: int) -> dict[str, float]:
        """Make one step; return the losses before it."""
        (optimiser,) = self.optimisers
        self.set_rate(self.rate(step))
        optimiser.zero_grad()
        numbers: dict[str, float] = {}
        loss = 0.0
        for kind, cost in self._costs(step):
            torch.autograd.backward(cost.loss)
            loss += float(cost.loss.detach())
            numbers |= {f"{kind}/{name}": value for name, value in cost.numbers.items()}
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), MAX_GRAD_NORM)
        optimiser.step()
        return {"loss": loss, **numbers, "gradient": float(norm)}

    def export(self, folder: Path) -> None:
        """Write the checkpoint that Sam2Model and Sam2VideoModel load."""
        with no_bars():
            self.network.save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def rate(self, step: int) -> float:
        """The learning rate: constant for stills alone, then from its clips' value to zero."""
        settings = self._settings
        started = min(1.0, (step + 1) / WARMUP_STEPS)
        if step < settings.still_steps:
            return settings.learning_rate * started
        past = (step - settings.still_steps) / settings.clip_steps
        return settings.clip_learning_rate * started * (0.5 + 0.5 * math.cos(math.pi * past))

    def _costs(self, step: int) -> Iterator[tuple[str, Cost]]:
        """Yield the losses of a step, a pure function of seed and step, by its kind of input."""
        seed = self.run.seed
        draw = np.random.default_rng((seed, 2, step))
        frames = int(draw.integers(SHORTEST, LONGEST + 1))
        multimask = bool(draw.random() < SEVERAL)
        background = min(1.0, FIRST_BACKGROUND + step / SPARSE_STEPS)
        parts = self.network, self.processor
        shown = stills(seed, step, images=IMAGES, objects=OBJECTS)
        yield "still", still_cost(*parts, shown, multimask=multimask, background=background)
        if step >= self._settings.still_steps:
            followed = clips(seed, step, videos=VIDEOS, objects=FOLLOWED, frames=frames)
            yield "clip", clip_cost(*parts, followed, background=background)
