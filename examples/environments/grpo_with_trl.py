"""Train an early pocket on ReasonSeg's layout with TRL's GRPOTrainer, by the protocol's gIoU.

    harness data make shapes --out data --size 24
    python examples/environments/grpo_with_trl.py --data data --steps 20

Any task, reward and model take their places: `--reward visionreasoner` is a method's own reward.
"""

import argparse
from pathlib import Path

from harness.environments.session import EnvironmentSettings, open_environment
from harness.environments.trl import prompts_of, reward_function
from harness.models.backends.checkpoint import find
from harness.models.backends.torchvision_cpu import ensure_torchvision

ensure_torchvision()  # some CPU builds of torch lack what torchvision's own needs

from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402


def main() -> None:
    """Train, and print the mean reward of each step."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", default="reason_seg(split=train)")
    parser.add_argument("--reward", default="")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("trl"))
    given = parser.parse_args()
    environment = open_environment(
        EnvironmentSettings(
            task=given.task,
            data=str(given.data),
            model="pocket(checkpoint=pocket-base)",
            reward=given.reward,
        )
    )
    checkpoint = find("pocket-base")
    trainer = GRPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(checkpoint),
        processing_class=AutoProcessor.from_pretrained(checkpoint),
        train_dataset=prompts_of(environment),
        reward_funcs=reward_function(environment),
        args=GRPOConfig(
            output_dir=str(given.out),
            max_steps=given.steps,
            per_device_train_batch_size=32,
            num_generations=8,
            max_completion_length=96,
            learning_rate=5e-5,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        ),
    )
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    print("reward of each step:", *(f"{reward:.3f}" for reward in rewards))


if __name__ == "__main__":
    main()
