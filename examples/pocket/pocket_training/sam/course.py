"""Steps of pocket-sam's training: what each shows, its learning rate, its losses."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from harness.models.backends.loading import no_bars
from harness.trainer import TrainingRun
from pocket_training.sam.batches import clips, stills
from pocket_training.sam.losses import clip_loss, still_loss
from pocket_training.sam.network import load_processor, make_network, shipped_config
from pocket_training.sam.trainer import PocketSamTrainer
from pocket_training.training import Course, set_rate

IMAGES, OBJECTS = 6, 8  # stills in a step, and prompts for each of them
VIDEOS, FOLLOWED = 2, 4  # clips in a step, and objects that are followed in each of them
SHORTEST, LONGEST = 3, 8  # frames of a clip; all clips of a step are equally long
SEVERAL = 0.75  # of the steps with stills ask for three masks, the others for one
FIRST_BACKGROUND, SPARSE_STEPS = 0.02, 200
"""Weight of a pixel beside an object at first, and steps until it counts as much as one in it."""

WARMUP_STEPS = 50
WEIGHT_DECAY = 0.01  # of matrices and filters; vectors, such as biases, do not decay
MAX_GRAD_NORM = 1.0


class PocketSamCourse(Course):
    """One training of pocket-sam."""

    def __init__(self, trainer: PocketSamTrainer, run: TrainingRun) -> None:
        self.settings, self.seed = trainer, run.seed
        # Training mode, so that a single mask is never replaced by one of three; no dropout.
        self.trained = make_network(shipped_config(), seed=run.seed).train()
        self.processor = load_processor()
        weights = [*self.trained.parameters()]
        groups = [
            {"params": [one for one in weights if one.ndim > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [one for one in weights if one.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimisers = [torch.optim.AdamW(groups, betas=(0.9, 0.98))]

    def step(self, step: int) -> dict[str, float]:
        """Make one step, a function of seed and step; return the losses before it."""
        draw = np.random.default_rng((self.seed, 2, step))
        frames = int(draw.integers(SHORTEST, LONGEST + 1))
        multimask = bool(draw.random() < SEVERAL)
        background = min(1.0, FIRST_BACKGROUND + step / SPARSE_STEPS)
        set_rate(self.optimisers, self.rate(step))
        numbers = {"loss": 0.0}

        def learn(kind: str, loss: Tensor, terms: Mapping[str, float]) -> None:
            torch.autograd.backward(loss)
            numbers["loss"] += float(loss.detach())
            numbers.update({f"{kind}/{name}": value for name, value in terms.items()})

        parts = self.trained, self.processor
        shown = stills(self.seed, step, images=IMAGES, objects=OBJECTS)
        learn("still", *still_loss(*parts, shown, multimask=multimask, background=background))
        if step >= self.settings.still_steps:
            followed = clips(self.seed, step, videos=VIDEOS, objects=FOLLOWED, frames=frames)
            learn("clip", *clip_loss(*parts, followed, background=background))
        norm = nn.utils.clip_grad_norm_(self.trained.parameters(), MAX_GRAD_NORM)
        self.optimisers[0].step()
        self.optimisers[0].zero_grad()
        return numbers | {"gradient": float(norm)}

    def export(self, folder: Path) -> None:
        """Write the checkpoint that Sam2Model and Sam2VideoModel load."""
        with no_bars():
            self.trained.save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def rate(self, step: int) -> float:
        """The learning rate: constant for stills alone, then from its clips' value to zero."""
        settings = self.settings
        started = min(1.0, (step + 1) / WARMUP_STEPS)
        if step < settings.still_steps:
            return settings.learning_rate * started
        past = (step - settings.still_steps) / settings.clip_steps
        return settings.clip_learning_rate * started * (0.5 + 0.5 * math.cos(math.pi * past))
