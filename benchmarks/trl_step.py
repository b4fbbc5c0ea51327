"""What our trainers cost beside TRL: seconds a step of VisionReasoner and of plain GRPO.

    python benchmarks/trl_step.py --checkpoint FOLDER [--prompts 2]
        [--num-generations 8] [--batch 16] [--new 96] [--steps 20] [--rounds 3] [--save]

The plain side is TRL's own `GRPOTrainer` on the same network, images, prompts and settings, with
a reward that is always 0; ours is `harness train --method visionreasoner` with its reward. Nothing
is learned (learning rate 0), and tokens are drawn at a temperature near 0, so that both write the
same responses; each sees every prompt once. The two take turns; the first turn warms up and is not
counted. The aim is at most 1.05.

Seconds are those from the end of a training's first step to the end of its last: the processor's on
a CPU, which other programs may share, else the clock's. The table says how many tokens (prompts and
responses, as TRL counts them) each has gone through in them.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from time import perf_counter, process_time
from typing import Any

from steps import RESULTS, Clock, data, train_by_trl, write

from harness import plugins, provenance
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.task import Task
from harness.trainer import TrainingRun
from harness.trainers import network as networks
from harness.trainers.grpo.examples import prepare_examples
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.network import trainable

RESULT = RESULTS / "trl_step.json"
AIM = 1.05
COLD = 0.01
"""The temperature: tokens are all but the likeliest ones."""
SAME = (
    "per_device_train_batch_size",
    "num_generations",
    "num_iterations",
    "max_completion_length",
    "temperature",
    "top_p",
    "beta",
    "epsilon",
    "loss_type",
    "entropy_coef",
    "lr_scheduler_type",
    "weight_decay",
    "max_grad_norm",
    "gradient_checkpointing",
)
"""Settings of ours that TRL's arguments name and mean alike."""


def clock() -> Clock:
    """Return a clock of the processor's seconds, or on a GPU of the wall's."""
    return Clock(now=process_time if provenance.device() == "cpu" else perf_counter)


def ours(method: Spec, model: Spec, task: Task) -> Clock:
    """Train by the method, in a folder that is thrown away."""
    turn = clock()
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingOptions(seed=0, progress=turn)
        train(plugins.build("trainers", method), [task], model, Path(folder) / "out", options)
    return turn


def plain(method: Spec, model: Spec, task: Task) -> Clock:
    """Train by TRL's trainer on the prompts that the method asks."""
    import torch

    trainer = plugins.build("trainers", method)
    assert isinstance(trainer, GrpoTrainer)
    given, chat = trainable(trainer.name, model)
    turn, chosen = clock(), trainer.settings
    with tempfile.TemporaryDirectory() as folder:
        run = TrainingRun(out=Path(folder), tasks=(task,), model=model)
        examples, _ = prepare_examples(trainer, trainer.with_prompt(given), chat.processor, run)
        train_by_trl(
            turn,
            networks.load(chat, dtype=chat.dtype),
            chat.processor,
            [one.request for one in examples],
            nothing,
            seed=run.seed,
            use_cpu=not torch.cuda.is_available(),
            max_steps=chosen.steps(len(examples)),
            gradient_accumulation_steps=chosen.accumulation_steps(1),
            scale_rewards=chosen.scale_rewards or "none",
            use_bias_correction_kl=False,
            learning_rate=chosen.peak_learning_rate,
            bf16=chosen.bf16 or chosen.dtype == "bfloat16",
            logging_steps=1,
            **{name: getattr(chosen, name) for name in SAME},
        )
    return turn


def nothing(prompts: Sequence[Any], **_: Any) -> list[float]:
    """Return the reward that costs least."""
    return [0.0] * len(prompts)


def told(turns: Sequence[Clock]) -> dict[str, float]:
    """Return what several trainings of one side have in the middle."""
    lengths = [row["completions/mean_length"] for one in turns for row in one.numbers]
    return {
        "seconds_a_step": median(one.seconds_a_step for one in turns),
        "tokens_a_second": median(one.tokens / one.seconds for one in turns),
        "mean_length": fmean(lengths),
        "tokens": fmean(one.tokens for one in turns),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="of pocket, or another SPEC's")
    parser.add_argument("--model", default="pocket", help="the plugin that takes the checkpoint")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--num-generations", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--new", type=int, default=96, metavar="TOKENS")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()

    settings = {
        "max_steps": given.steps,
        "num_generations": given.num_generations,
        "generation_batch_size": given.prompts * given.num_generations,
        "per_device_train_batch_size": given.batch,
        "max_completion_length": given.new,
        "temperature": COLD,
        "noise": "torch",
        "learning_rate": 0.0,
        "report_to": "none",
        "keep_rollouts": 0,
        "save_steps": given.steps + 1,
    }
    method = Spec("visionreasoner", settings)
    model = Spec(given.model, {"checkpoint": given.checkpoint})
    turns: dict[str, list[Clock]] = {"ours": [], "plain": []}
    with tempfile.TemporaryDirectory() as folder:
        task = plugins.build("tasks", parse("reason_seg(split=train)"), data(Path(folder)))
        for number in range(given.rounds + 1):
            for name, side in (("plain", plain), ("ours", ours))[:: 1 if number % 2 else -1]:
                turn = side(method, model, task)
                if number:
                    turns[name].append(turn)
    found = {name: told(several) for name, several in turns.items()}
    pairs = zip(turns["ours"], turns["plain"], strict=True)
    ratios = sorted(one.seconds / other.seconds for one, other in pairs)
    ratio = median(ratios)
    print(json.dumps(found, indent=1))
    print(f"ratio {ratio:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), aim {AIM}")
    if given.save:
        asked = {"settings": settings, "model": str(model)}
        write(RESULT, {"ratio": ratio, "ratios": ratios, "aim": AIM, **found, **asked})
    return int(ratio > AIM)


if __name__ == "__main__":
    raise SystemExit(main())
