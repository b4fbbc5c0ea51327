"""pocket from random weights: the real architecture, small, on the generated world.

    harness train --method pocket --out runs/pocket --config two_cores
    harness train --method pocket --out runs/pocket_more --config two_cores_more --seed 3 \
        --set start=runs/pocket
    harness train --method pocket --out DIR --set max_steps=50

The first two make the shipped weights in 90 minutes on two cores. No task is read: scenes,
questions and responses are drawn as training goes, by the training processes or further
ones, each step a pure function of seed and step. A step adds up the gradients of three batches:
stills, stills to count in, and clips.
"""

import os
from collections.abc import Mapping

from harness.errors import UsageError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.trainer import Trainer, TrainingRun
from harness.trainers.pocket.data_mixture import MixtureShares
from harness.trainers.pocket.network import Architecture
from harness.trainers.pocket.settings import PocketSettings


class PocketTrainer(PocketSettings, Trainer):
    """The training program with its settings; see `pocket`."""

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Train, and write the checkpoint."""
        if run.tasks or run.model is not None:
            raise UsageError(
                "method pocket",
                expected="neither --model nor --train-tasks, as it draws its own world",
                found="one of them",
            )
        kept = f"pocket(start_kept={self.start_kept})"
        if not 0 <= self.start_kept < 1:
            raise UsageError(kept, expected="a part, from 0 to below 1", found=str(self.start_kept))
        if self.start_kept and self.start is None:
            raise UsageError(
                kept,
                expected="a training that a part is kept of",
                found="no start",
                fix="Give --set start=DIR, the training to go on from.",
            )
        ensure_torchvision()
        # Compiled matrix products, one a shape; of the thousand that are kept otherwise some are
        # compiled again and again. Read when the first one is made, here and in other processes.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
        from harness.trainers.pocket.training_loop import TrainingLoop

        return TrainingLoop(self, run).run()


def pocket(
    *,
    max_steps: int = 9000,
    learning_rate: float = 3e-3,
    warmup_steps: int = 150,
    flat: float = 0.5,
    weight_decay: float = 0.02,
    max_grad_norm: float = 1.0,
    measured_weight: float = 1.5,
    first_spread: float = 10.0,
    last_spread: float = 0.7,
    spread_until: float = 0.6,
    things_weight: float = 1.0,
    places_of_targets: bool = False,
    patches_weight: float = 0.0,
    outlines_weight: float = 0.0,
    target_weight: float = 0.5,
    grounding_weight: float = 0.5,
    copies_weight: float = 0.5,
    heads_until: float = 0.9,
    easy_until: float = 0.15,
    see_until: float = 0.08,
    seen_first: int = 40,
    text_first: bool = True,
    stills: int = 4,
    counts: int = 2,
    videos: int = 2,
    images: int = 16,
    words: float = 0.5,
    recoloured: float = 0.0,
    swapped: float = 0.3,
    sizes_held: bool = False,
    start: str | None = None,
    start_kept: float = 0.0,
    layers: int = 6,
    hidden_size: int = 128,
    intermediate_size: int = 352,
    vision_layers: int = 4,
    dataloader_num_workers: int = 0,
    processes: int = 2,
    base_at: int = 0,
    bf16: bool = True,
    save_steps: int = 500,
    logging_steps: int = 20,
    eval_steps: int = 1000,
) -> PocketTrainer:
    """Pocket from random weights, on scenes of `shapes` that are drawn during the training.

    Args:
        max_steps: Optimiser steps.
        learning_rate: After the warm-up; falls as a cosine after `flat` of the steps.
        warmup_steps: Steps.
        flat: Part of the steps at the full learning rate.
        weight_decay: Of matrices other than the input vocabulary.
        max_grad_norm: Largest norm of the gradient.
        measured_weight: Weight of a measured number's loss beside that of a text token.
        first_spread: Width of a measured number's target at first, in steps of the canvas.
        last_spread: Width at the end.
        spread_until: Part of the steps in which it falls, by equal factors.
        things_weight: Weight of the loss on what image tokens show.
        places_of_targets: Image tokens predict, after the middle text layer, the box of the
            question's subject, even where other things cover more of them.
        patches_weight: Weight of the loss on what each of an image token's four patches shows.
        outlines_weight: Weight of the loss on which parts of image tokens things cover (4: the
            vision tower alone learns shapes sooner).
        target_weight: Weight of the loss on which image tokens show the question's subject.
        grounding_weight: Weight of the loss on where responses look.
        copies_weight: Weight of the loss on attention to the text that a response repeats.
        heads_until: Part of the steps after which all of these weigh a tenth.
        easy_until: Part of the steps in which scenes grow from two things to all.
        see_until: Part of the steps in which the vision tower mainly learns, on further stills.
        seen_first: How many of those in each half of a step.
        text_first: Requests come before images.
        stills: Stills in each half of a step, with four lessons each.
        counts: Stills to count in, likewise, with three lessons each.
        videos: Clips, likewise, with four lessons each.
        images: Further stills, likewise, without lessons: they teach the vision tower alone.
        words: Part of the lessons that are answered in words.
        recoloured: Part of the things in `images` that have a colour without a name. Above 0
            image tokens tell shapes and sizes there alone: elsewhere they could be guessed from
            colours, as scenes of training do not show all combinations.
        swapped: Part of the lessons about one thing whose reasoning is made to name another.
        sizes_held: Comparisons of sizes tell of each thing whether it is the best so far. It is not
            learned; the first part of the shipped weights' training has it.
        start: A training to go on from, perhaps with another mixture: its folder, or a checkpoint;
            None: random weights.
        start_kept: How much of `start` the weights at the end are: an average of both, as in
            WiSE-FT (arXiv:2109.01903).
        layers: Of the text network.
        hidden_size: Of the text network.
        intermediate_size: Of the text network's feed-forward parts.
        vision_layers: Of the vision tower.
        dataloader_num_workers: Further processes that draw lessons for each; 0: each draws its own.
        processes: Processes that train together, one thread each; results differ by rounding.
        base_at: Steps after which an early checkpoint is kept as well, in DIR/base; 0: none.
        bf16: Compute in bfloat16; weights stay float32.
        save_steps: Steps between resumable states.
        logging_steps: Steps between lines of the curve.
        eval_steps: Steps between looks at unseen questions; 0: none.
    """
    return PocketTrainer(
        max_steps=max_steps,
        learning_rate=learning_rate,
        warmup_steps=warmup_steps,
        flat=flat,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        measured_weight=measured_weight,
        first_spread=first_spread,
        last_spread=last_spread,
        spread_until=spread_until,
        things_weight=things_weight,
        places_of_targets=places_of_targets,
        patches_weight=patches_weight,
        outlines_weight=outlines_weight,
        target_weight=target_weight,
        grounding_weight=grounding_weight,
        copies_weight=copies_weight,
        heads_until=heads_until,
        easy_until=easy_until,
        see_until=see_until,
        seen_first=seen_first,
        text_first=text_first,
        dataloader_num_workers=dataloader_num_workers,
        processes=processes,
        base_at=base_at,
        bf16=bf16,
        save_steps=save_steps,
        logging_steps=logging_steps,
        eval_steps=eval_steps,
        shares=MixtureShares(
            images=images,
            stills=stills,
            counts=counts,
            videos=videos,
            words=words,
            recoloured=recoloured,
            swapped=swapped,
            sizes_held=sizes_held,
        ),
        start=start,
        start_kept=start_kept,
        architecture=Architecture(
            layers=layers,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            vision_layers=vision_layers,
        ),
    )
