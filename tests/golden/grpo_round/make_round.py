"""Writes round.json: one optimiser step's tensors of a real training, as TRL's loss was given them.

    python tests/golden/grpo_round/make_round.py

The network is the one that ships; its four replies to one generated picture are rewarded at random,
and the second step on them is kept, in which the ratio to the old policy is no longer 1.
"""

import json
import tempfile
from pathlib import Path

import torch

from harness import plugins
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainers.grpo.hooks import Rollouts

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "tasks" / "reason_seg" / "example"
KEPT = {
    "old": "old_per_token_logps", "reference": "ref_per_token_logps", "advantage": "advantages",
    "mask": "completion_mask",
}  # fmt: skip
SETTINGS = (
    "visionreasoner(reward=random,group=4,prompts=1,batch_size=4,iterations=2,max_steps=2,"
    "max_new_tokens=40,beta=0.05,clip=0.2,loss_type=bnpo,entropy_coefficient=0.0,"
    "temperature=1.5,learning_rate=3e-5,save_every=2,loggers=none,keep_rollouts=0)"
)


def plain(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().double().flatten().tolist()]


def main() -> None:
    """Train two steps, and keep the second."""
    torch.set_num_threads(1)
    steps = []
    logps, loss = Rollouts._get_per_token_logps_and_entropies, Rollouts._compute_loss
    seen = []

    def remembered(self, *given, **named):
        found = logps(self, *given, **named)
        seen.append(found[0])
        return found

    def kept(self, model, inputs):
        value = loss(self, model, inputs)
        rows, width = inputs["completion_mask"].shape
        given = {name: plain(inputs[key]) for name, key in KEPT.items()}
        steps.append({"rows": rows, "width": width, "logp": plain(seen[-1]), **given,
                      "loss": float(value.detach())})  # fmt: skip
        return value

    Rollouts._get_per_token_logps_and_entropies, Rollouts._compute_loss = remembered, kept
    with tempfile.TemporaryDirectory() as folder:
        train(plugins.build("trainers", parse(SETTINGS)),
              [plugins.build("tasks", parse("reason_seg"), DATA)], parse("pocket"),
              Path(folder) / "out", TrainingOptions(seed=3))  # fmt: skip
    told = {"kind": "bnpo", "beta": 0.05, "clip": 0.2, "longest": 40, **steps[-1]}
    (HERE / "round.json").write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
