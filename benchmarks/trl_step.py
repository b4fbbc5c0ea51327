"""What our trainers cost beside TRL: seconds a step of VisionReasoner and of plain GRPO.

    python benchmarks/trl_step.py --checkpoint FOLDER [--data ROOT] [--prompts 2]
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
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from steps import Clock, data

from harness import plugins, provenance
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.task import Task
from harness.trainer import TrainingRun
from harness.trainers import network as networks
from harness.trainers.grpo.examples import prepare_examples
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.grpo.vllm import images_of
from harness.trainers.network import trainable

RESULT = Path(__file__).parent / "results" / "trl_step.json"
AIM = 1.05
COLD = 0.01
"""The temperature: tokens are all but the likeliest ones."""


@dataclass
class Turn:
    """One training: when each step ended, and what was logged of it."""

    ends: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the end of the first step to that of the last."""
        return self.ends[-1] - self.ends[0]

    @property
    def seen(self) -> float:
        """Tokens gone through in these seconds."""
        return self.tokens[-1] - self.tokens[0]


def now() -> float:
    """Return seconds: of the processor, or on a GPU of the clock."""
    return process_time() if provenance.device() == "cpu" else perf_counter()


def ours(method: Spec, model: Spec, task: Task) -> Turn:
    """A training of the method, in a folder that is thrown away."""
    clock = Clock(now=now)
    with tempfile.TemporaryDirectory() as folder:
        train(
            plugins.build("trainers", method),
            [task],
            model,
            Path(folder) / "out",
            TrainingOptions(seed=0, progress=clock),
        )
    return Turn(
        clock.ends,
        [row["completions/mean_length"] for row in clock.numbers],
        [row["num_tokens"] for row in clock.numbers],
    )


def plain(method: Spec, model: Spec, task: Task) -> Turn:
    """TRL's trainer on the prompts that the method asks."""
    import trl
    from datasets import Dataset
    from transformers import TrainerCallback

    trainer = plugins.build("trainers", method)
    assert isinstance(trainer, GrpoTrainer)
    given, chat = trainable(trainer.name, model)
    turn = Turn()

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            turn.ends.append(now())

        def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
            if "reward" in logs:
                turn.lengths.append(logs["completions/mean_length"])
                turn.tokens.append(logs["num_tokens"])

    with tempfile.TemporaryDirectory() as folder:
        run = TrainingRun(out=Path(folder), tasks=(task,), model=model)
        arguments = arguments_of(trainer, run)
        examples, _ = prepare_examples(trainer, trainer.with_prompt(given), chat.processor, run)
        arguments.max_steps = trainer.settings.steps(len(examples))
        engine = trl.GRPOTrainer(
            model=networks.load(chat, dtype=chat.dtype),
            args=arguments,
            train_dataset=Dataset.from_list(
                [
                    {
                        "prompt": [{"role": "user", "content": one.request.text}],
                        "images": images_of(one.request),
                    }
                    for one in examples
                ]
            ),
            reward_funcs=[nothing],
            processing_class=chat.processor,
            callbacks=[Watch()],
        )
        engine.train()
    return turn


def arguments_of(trainer: GrpoTrainer, run: TrainingRun) -> Any:
    """TRL's arguments for the settings of a method."""
    import torch
    import trl

    chosen = trainer.settings
    return trl.GRPOConfig(
        output_dir=str(run.out),
        seed=run.seed,
        use_cpu=not torch.cuda.is_available(),
        per_device_train_batch_size=chosen.per_device_train_batch_size,
        gradient_accumulation_steps=chosen.accumulation_steps(1),
        num_generations=chosen.num_generations,
        num_iterations=chosen.num_iterations,
        max_completion_length=chosen.max_completion_length,
        temperature=chosen.temperature,
        top_p=chosen.top_p,
        beta=chosen.beta,
        epsilon=chosen.epsilon,
        loss_type=chosen.loss_type,
        scale_rewards=chosen.scale_rewards or "none",
        entropy_coef=chosen.entropy_coef,
        use_bias_correction_kl=False,
        learning_rate=chosen.peak_learning_rate,
        lr_scheduler_type=chosen.lr_scheduler_type,
        weight_decay=chosen.weight_decay,
        max_grad_norm=chosen.max_grad_norm,
        bf16=chosen.bf16 or chosen.dtype == "bfloat16",
        gradient_checkpointing=chosen.gradient_checkpointing,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def nothing(prompts: Sequence[Any], **_: Any) -> list[float]:
    """The reward that costs least."""
    return [0.0] * len(prompts)


def told(turns: Sequence[Turn]) -> dict[str, float]:
    """What several trainings of one side have in the middle."""
    return {
        "seconds_a_step": statistics.median(one.seconds / (len(one.ends) - 1) for one in turns),
        "tokens_a_second": statistics.median(one.seen / one.seconds for one in turns),
        "mean_length": statistics.fmean(length for one in turns for length in one.lengths),
        "tokens": statistics.fmean(one.seen for one in turns),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="of pocket, or another SPEC's")
    parser.add_argument("--model", default="pocket", help="the plugin that takes the checkpoint")
    parser.add_argument("--data", type=Path, help="a data root; none: a small world is made")
    parser.add_argument("--train-tasks", default="reason_seg(split=train)")
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
    method, model = (
        Spec("visionreasoner", settings),
        Spec(given.model, {"checkpoint": given.checkpoint}),
    )
    with tempfile.TemporaryDirectory() as folder:
        task = plugins.build("tasks", parse(given.train_tasks), given.data or data(Path(folder)))
        turns: dict[str, list[Turn]] = {"ours": [], "plain": []}
        for number in range(given.rounds + 1):
            for name, side in (("plain", plain), ("ours", ours))[:: 1 if number % 2 else -1]:
                turn = side(method, model, task)
                if number:
                    turns[name].append(turn)
    found = {name: told(several) for name, several in turns.items()}
    ratios = sorted(
        one.seconds / other.seconds
        for one, other in zip(turns["ours"], turns["plain"], strict=True)
    )
    print(json.dumps(found, indent=1))
    print(f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), aim {AIM}")
    if given.save:
        result = {
            "ratio": statistics.median(ratios),
            "ratios": ratios,
            "aim": AIM,
            **found,
            "settings": settings,
            "model": str(model),
            "device": provenance.device(),
            "provenance": provenance.collect(),
        }
        RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return int(statistics.median(ratios) > AIM)


if __name__ == "__main__":
    raise SystemExit(main())
