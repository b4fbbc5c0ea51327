"""Steps of pocket's training: batches, losses, gradients, optimisers."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from harness.errors import ModelError
from harness.models.backends.checkpoint import find, fingerprint
from harness.models.backends.networks import load_network
from harness.trainer import TrainingRun
from harness.trainers.session import processes
from pocket_training.training_loop import RECORD, TrainingLoop
from pocket_training.vlm import vocabulary
from pocket_training.vlm.batches import IGNORED, Batch, collate
from pocket_training.vlm.data_mixture import draw_counts, draw_images, draw_stills, draw_videos
from pocket_training.vlm.forward import Forward, patches
from pocket_training.vlm.losses import Heads, word_losses
from pocket_training.vlm.network import make_network, save_checkpoint, shipped_config
from pocket_training.vlm.trainer import PocketTrainer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ENDS = ("embed_tokens", "lm_head", "patch_embed", "merger.mlp.2")
"""Parts of the names of matrices at a network's input and output, which AdamW trains."""

INTERVALS = (1, 2, 3, 4)  # steps in time from one grid of a clip to the next
MIN_THINGS, MAX_THINGS = 2, 8
SEEN_FIRST = 40  # stills in each half of a step while mainly the vision tower learns
WEIGHT_DECAY = 0.02  # of matrices other than the input vocabulary
MAX_GRAD_NORM = 1.0
MEASURED = 1.5  # weight of a coordinate's loss beside that of a text token
TARGETED, GROUNDING, OUTLINES = 0.5, 0.5, 4.0  # weights of heads beside the others


class PocketLoop(TrainingLoop):
    """One training of pocket."""

    def __init__(self, trainer: PocketTrainer, run: TrainingRun) -> None:
        self._settings, self._stage = trainer, trainer.stage
        self.network = make_network(shipped_config(), seed=run.seed)
        self._before = begin_from(trainer.start, self.network) if trainer.start else {}
        text, vision = self.network.config.text_config, self.network.config.vision_config
        self._heads = Heads(
            width=text.hidden_size, patches=vision.hidden_size, fine=self._stage.fine
        )
        self._forward = Forward(self.network, tap=text.num_hidden_layers - 3)
        self._numbers = torch.tensor(vocabulary.number_ids())
        self._processes = processes()
        trained = nn.ModuleDict({"network": self.network, "heads": self._heads})
        super().__init__(trainer, run, trained, self._make_optimisers())

    def step(self, step: int) -> dict[str, float]:
        """Make one step; return the losses of this process's first half, before it."""
        torch.set_flush_denormal(True)  # attention leaves many, and they are slow
        try:
            return self._step(step)
        finally:
            torch.set_flush_denormal(False)  # it is the thread's, whatever runs there next

    def _step(self, step: int) -> dict[str, float]:
        self.set_rate(self.rate(step))
        rank, number = self._processes.process_index, self._processes.num_processes
        shares = [
            {name: self.backward(batch, step) for name, batch in self.half(step, half).items()}
            for half in range(rank, self._settings.parts, number)
        ]
        weights = [*self.trained.parameters()]
        _sum_gradients(weights, number)
        norm = nn.utils.clip_grad_norm_(weights, MAX_GRAD_NORM)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)
        found = {f"{kind}/{name}": n for kind, row in shares[0].items() for name, n in row.items()}
        loss = sum(row["loss"] for row in shares[0].values())
        return {"loss": loss, **found, "norm": float(norm)}

    def half(self, step: int, half: int) -> dict[str, Batch]:
        """Return the batches of one of a step's halves, by kind: a function of seed and step."""
        mixture, limit = self._stage.mixture, self.max_things(step)
        if self._share_done(step) < self._stage.see_until:
            mixture = replace(mixture, stills=1, counts=0, videos=1, images=SEEN_FIRST)
        given = {"seed": self.run.seed, "step": step * self._settings.parts + half}
        drawn = {
            "stills": [
                *draw_stills(mixture, max_things=limit, **given),
                *draw_images(mixture, **given),
            ],
            "counts": draw_counts(mixture, max_things=limit, **given),
            "clips": draw_videos(mixture, **given),
        }
        batches = {}
        for name, kept in drawn.items():
            if any(one.examples for one in kept):
                turns = [INTERVALS[(step + place) % len(INTERVALS)] for place in range(len(kept))]
                batches[name] = collate(
                    kept,
                    intervals=turns,
                    places_of_targets=self._stage.places_of_targets,
                    colours_alone=mixture.recoloured > 0,
                )
        return batches

    def backward(self, batch: Batch, step: int) -> dict[str, float]:
        """Add the gradients of one batch; return its losses."""
        stage = self._stage
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        labels, soft = tensors["labels"], tensors["soft"]
        learned = labels != IGNORED
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self._forward(
                patches(tensors["images"]),
                tensors["tokens"],
                tensors["positions"],
                tensors["owner"],
                tensors["seen"],
            )
            logits = self.network.lm_head(hidden.last[learned])
        words = word_losses(
            logits, labels[learned], soft[learned], self._numbers, spread=self.spread(step)
        )
        heads, right_looks = self._heads(hidden, tensors)
        everything = words.texts + words.numbers * MEASURED
        output = (words.text * words.texts + words.measured * words.numbers * MEASURED) / everything
        fine = heads["patches"] + OUTLINES * heads["outlines"] if stage.fine else 0.0
        guided = (
            heads["things"]
            + fine
            + TARGETED * heads["targeted"]
            + GROUNDING * (heads["grounding"] + heads["attends"])
            + (heads["copies"] + heads["options"])
        ) * (0.1 if self._share_done(step) >= stage.heads_until else 1.0)
        loss = (output + guided) / self._settings.parts
        loss.backward()
        logged = {
            "loss": loss * self._settings.parts,
            "text": words.text,
            "measured": words.measured,
            **heads,
        }
        plain = {name: float(value.detach()) for name, value in logged.items()}
        return plain | {"error": words.error, "right": right_looks}

    def export(self, folder: Path) -> None:
        """Write the network, with the shipped tokenizer and processor."""
        if self.run.main:
            save_checkpoint(self.network, folder)

    def record(self) -> dict[str, object]:
        """Return how the checkpoint was made, and how what it started from was."""
        return super().record() | ({"before": self._before} if self._before else {})

    def _make_optimisers(self) -> list[torch.optim.Optimizer]:
        """Muon for the matrices inside the network; AdamW for its ends, norms and the heads."""
        inside: list[torch.Tensor] = []
        ends: list[torch.Tensor] = []
        others: list[torch.Tensor] = [*self._heads.parameters()]
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

    def _share_done(self, step: int) -> float:
        return step / self._settings.max_steps

    def rate(self, step: int) -> float:
        """Return the learning rate: a linear rise, a flat stretch, a cosine down to a hundredth."""
        stage, part = self._stage, self._share_done(step)
        rate = self._settings.learning_rate * min(1.0, (step + 1) / stage.warmup_steps)
        if part <= stage.flat:
            return rate
        fall = (part - stage.flat) / (1 - stage.flat)
        return rate * max(0.01, 0.5 * (1 + math.cos(math.pi * fall)))

    def spread(self, step: int) -> float:
        """Return the width of measured numbers' targets (`word_losses`): it falls exponentially."""
        stage = self._stage
        first, last = stage.first_spread, stage.last_spread
        fallen = min(1.0, self._share_done(step) / stage.spread_until)
        return float(first * (last / first) ** fallen)

    def max_things(self, step: int) -> int:
        """Return how many things a still of this step may have."""
        grown = min(1.0, self._share_done(step) / max(self._stage.easy_until, 1e-9))
        return MIN_THINGS + round(grown * (MAX_THINGS - MIN_THINGS))


def begin_from(checkpoint: str, network: "PreTrainedModel") -> dict[str, object]:
    """Load the weights of an earlier training; return its record with their `fingerprint`.

    Raises:
        ModelError: there is none, or it is of another architecture, or has no record.
    """
    folder = find(checkpoint)
    earlier = load_network(
        folder, name=checkpoint, dtype="float32", attn_implementation="auto", adapter=None
    )
    try:
        network.load_state_dict(earlier.state_dict())
        info: dict[str, object] = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"start={checkpoint}",
            expected="a checkpoint of `harness train --method pocket`",
            found=" ".join(str(error).split())[:200],
        ) from error
    return info | {"fingerprint": fingerprint(folder)}


def _sum_gradients(weights: Sequence[nn.Parameter], number: int) -> None:
    """Replace gradients by their sums over processes; a weight without one gets zeros."""
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        if number > 1:
            torch.distributed.all_reduce(weight.grad)
