"""Writes *.json: one optimiser step's tensors of a real training, as TRL's loss was given them.

    python tests/golden/grpo_round/make_round.py [NAME …]

The network is the one that ships; its replies to generated pictures are rewarded at random, and
the second step on them is kept, in which the ratio to the old policy is no longer 1. `round` has
four replies of one length to one picture; `lengths` has two groups of three, of unequal lengths,
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
from harness.trainers.grpo.hooks import Rollouts

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "tasks" / "reason_seg" / "example"
KEPT = {
    "old": "old_per_token_logps", "reference": "ref_per_token_logps", "advantage": "advantages",
    "mask": "completion_mask",
}  # fmt: skip
SETTINGS = (
    "visionreasoner(reward=random,group={group},prompts={prompts},batch_size={rows},iterations=2,"
    "max_steps=2,max_new_tokens={longest},beta={beta},clip={clip},clip_high={clip_high},"
    "loss_type={kind},entropy_coefficient=0.0,temperature={temperature},learning_rate=3e-5,"
    "save_every=2,loggers=none,keep_rollouts=0)"
)
ROUNDS = {
    "round": {"group": 4, "prompts": 1, "temperature": 1.5, "kind": "bnpo", "beta": 0.05,
              "clip": 0.2, "clip_high": 0.2, "longest": 40},
    "lengths": {"group": 3, "prompts": 2, "temperature": 3.1, "kind": "dapo", "beta": 0.02,
                "clip": 0.2, "clip_high": 0.28, "longest": 36},
}  # fmt: skip
TOLD = ("kind", "beta", "clip", "clip_high", "longest")


def plain(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().double().flatten().tolist()]


def main(name: str) -> None:
    """Train two steps, and keep the second."""
    chosen = ROUNDS[name]
    settings = SETTINGS.format(rows=chosen["group"] * chosen["prompts"], **chosen)
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
        train(plugins.build("trainers", parse(settings)),
              [plugins.build("tasks", parse("reason_seg"), DATA)], parse("pocket"),
              Path(folder) / "out", TrainingOptions(seed=3))  # fmt: skip
    told = {**{key: chosen[key] for key in TOLD}, **steps[-1]}
    (HERE / f"{name}.json").write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    for round_name in sys.argv[1:] or ROUNDS:
        main(round_name)
