"""Writes *.json: one optimiser step's tensors of a real training, as the loss was given them.

    python tests/golden/grpo_round/make_round.py [NAME …]

The network is the one that ships; its responses to generated images are rewarded at random, and
the second step on them is kept, in which the ratio to the old policy is no longer 1. `round` has
four responses of one length to one image; `lengths` has two groups of three, of unequal lengths,
and some are cut at the longest that is allowed.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

from harness import plugins
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainers.grpo.loop import GrpoLearner

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "tasks" / "reason_seg" / "example"
SETTINGS = (
    "visionreasoner(reward=random,num_generations={num_generations},generation_batch_size={rows},"
    "per_device_train_batch_size={rows},num_iterations=2,max_steps=2,"
    "max_completion_length={max_completion_length},beta={beta},epsilon={epsilon},"
    "epsilon_high={epsilon_high},loss_type={loss_type},entropy_coef=0.0,temperature={temperature},"
    "learning_rate=3e-5,save_steps=2,report_to=none,keep_rollouts=0)"
)
ROUNDS = {
    "round": {
        "num_generations": 4,
        "rows": 4,
        "temperature": 1.5,
        "loss_type": "bnpo",
        "beta": 0.05,
        "epsilon": 0.2,
        "epsilon_high": 0.2,
        "max_completion_length": 40,
    },
    "lengths": {
        "num_generations": 3,
        "rows": 6,
        "temperature": 3.1,
        "loss_type": "dapo",
        "beta": 0.02,
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "max_completion_length": 36,
    },
}
TOLD = ("loss_type", "beta", "epsilon", "epsilon_high", "max_completion_length")


def plain(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().double().flatten().tolist()]


def main(name: str) -> None:
    """Train two steps, and keep the second."""
    chosen = ROUNDS[name]
    settings = SETTINGS.format(**chosen)
    torch.set_num_threads(1)
    steps = []
    loss = GrpoLearner.loss

    def kept(self, batch, tokens):
        value, info = loss(self, batch, tokens)
        with torch.no_grad():
            logp, _ = self.policy(batch.inputs, batch.mask)
        rows, width = batch.mask.shape
        tensors = {
            "logp": logp,
            "old": batch.old,
            "reference": batch.reference,
            "advantage": batch.advantage,
            "mask": batch.mask,
        }
        given = {name: plain(one) for name, one in tensors.items()}
        steps.append({"rows": rows, "width": width, **given, "loss": float(value.detach())})
        return value, info

    GrpoLearner.loss = kept
    with tempfile.TemporaryDirectory() as folder:
        train(
            plugins.build("trainers", parse(settings)),
            [plugins.build("tasks", parse("reason_seg"), DATA)],
            parse("pocket"),
            Path(folder) / "out",
            TrainingOptions(seed=3),
        )
    info = {**{key: chosen[key] for key in TOLD}, **steps[-1]}
    (HERE / f"{name}.json").write_text(json.dumps(info) + "\n")


if __name__ == "__main__":
    for round_name in sys.argv[1:] or ROUNDS:
        main(round_name)
