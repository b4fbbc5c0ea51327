"""Steps of pocket's training: batches, losses, gradients, optimisers."""

import torch
from torch import nn

from harness.errors import ModelError
from harness.models.backends.checkpoint import find
from harness.models.backends.cpu_kernels import lacks_half_products
from harness.models.backends.networks import load_network
from harness.models.pocket import FOLDER
from harness.trainers.session import processes
from pocket_training.training import Course
from pocket_training.vlm.batches import IGNORED, Batch, collate
from pocket_training.vlm.data_mixture import draw_half
from pocket_training.vlm.losses import Heads, word_losses
from pocket_training.vlm.network import NUMBERS, make_network, run_network
from pocket_training.vlm.trainer import STAGES, PocketTrainer

ENDS = ("embed_tokens", "lm_head", "patch_embed", "merger.mlp.2")
"""Parts of the names of matrices at a network's input and output, which AdamW trains."""

INTERVALS = (1, 2, 3, 4)  # steps in time from one grid of a clip to the next
WEIGHT_DECAY = 0.02  # of matrices other than the input vocabulary
MEASURED = 1.5  # weight of a coordinate's loss beside that of a text token
HEADS = {"targeted": 0.5, "grounding": 0.5, "attends": 0.5, "outlines": 4.0}
"""Weights of heads beside the others."""


class PocketCourse(Course):
    """One training of pocket."""

    folder = FOLDER

    def __init__(self, trainer: PocketTrainer, seed: int) -> None:
        self.settings, self.seed, self.stage = trainer, seed, STAGES[trainer.stage]
        self.steps = trainer.max_steps
        self.network = make_network(seed=seed)
        self.network.set_attn_implementation("eager")  # faster at such lengths, as in the tower
        if trainer.start is not None:
            self._begin_from(trainer.start)
        text, vision = self.network.config.text_config, self.network.config.vision_config
        self.middle = text.num_hidden_layers - 3
        self.heads = Heads(width=text.hidden_size, patches=vision.hidden_size, fine=self.stage.fine)
        self.trained = nn.ModuleDict({"network": self.network, "heads": self.heads})
        self.optimisers = self._make_optimisers()

    def _begin_from(self, start: str) -> None:
        """Load an earlier training; ModelError if there is none, or of another architecture."""
        earlier = load_network(
            find(start), name=start, dtype="float32", attn_implementation="auto", adapter=None
        )
        try:
            self.network.load_state_dict(earlier.state_dict())
        except RuntimeError as error:
            raise ModelError(
                f"start={start}",
                expected="a checkpoint of `harness train --method pocket`",
                found=" ".join(str(error).split())[:200],
            ) from error

    def _make_optimisers(self) -> list[torch.optim.Optimizer]:
        """Muon for the matrices inside the network; AdamW for its ends, norms and the heads."""
        inside, ends, others = [], [], [*self.heads.parameters()]
        for name, weight in self.network.named_parameters():
            if weight.ndim == 2 and not any(end in name for end in ENDS):
                inside.append(weight)
            elif weight.ndim >= 2 and "embed_tokens" not in name:
                ends.append(weight)
            else:
                others.append(weight)
        groups = [
            {"params": ends, "weight_decay": WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ]
        return [
            torch.optim.Muon(
                inside, weight_decay=WEIGHT_DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw"
            ),
            torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True),
        ]

    def step(self, step: int) -> dict[str, float]:
        """Make the step after so many others; return the losses of this process's first half."""
        part, group = step / self.steps, processes()
        logged = [
            {kind: self.backward(batch, part) for kind, batch in self.half(step, half).items()}
            for half in range(group.process_index, self.settings.parts, group.num_processes)
        ]
        for weight in self.trained.parameters():
            if weight.grad is None:  # a head that no batch of this process needed
                weight.grad = torch.zeros_like(weight)
            if group.num_processes > 1:
                torch.distributed.all_reduce(weight.grad)
        norm = self.update(self.settings.learning_rate * self.stage.rate(part, step))
        found = {f"{kind}/{name}": n for kind, row in logged[0].items() for name, n in row.items()}
        loss = sum(row["loss"] for row in logged[0].values())
        return {"loss": loss, **found, "norm": norm}

    def half(self, step: int, half: int) -> dict[str, Batch]:
        """Return the batches of one of a step's halves, by kind: a function of seed and step."""
        number = step * self.settings.parts + half
        drawn = draw_half(self.stage, step / self.steps, seed=self.seed, step=number)
        batches = {}
        for kind, scenes in drawn.items():
            if any(scene.examples for scene in scenes):
                turns = [INTERVALS[(step + place) % len(INTERVALS)] for place in range(len(scenes))]
                batches[kind] = collate(scenes, intervals=turns, fine=self.stage.fine)
        return batches

    def backward(self, batch: Batch, part: float) -> dict[str, float]:
        """Add the gradients of one batch; return its losses."""
        learned = batch["labels"] != IGNORED
        labels = batch["labels"][learned]
        measured = batch["measured"][learned] & torch.isin(labels, NUMBERS)
        with torch.autocast("cpu", torch.bfloat16, enabled=not lacks_half_products()):
            hidden = run_network(self.network, batch, middle=self.middle)
            logits = self.network.lm_head(hidden.last[learned])
        words = word_losses(logits, labels, measured, NUMBERS, spread=self.stage.spread(part))
        weights = torch.where(measured, MEASURED, 1.0)
        heads = self.heads(hidden, batch)
        guided = torch.stack([HEADS.get(name, 1.0) * loss for name, loss in heads.items()]).sum()
        guided = guided * (0.1 if part >= self.stage.heads_until else 1.0)
        loss = (words * weights).sum() / weights.sum() + guided
        torch.autograd.backward(loss / self.settings.parts)
        text, numbers = (
            words[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (~measured, measured)
        )
        logged = {"loss": loss, "text": text, "measured": numbers, **heads}
        return {name: float(value.detach()) for name, value in logged.items()}
