"""VR-TTRL beside all of its baselines on shapes: runs, board and report, by one command.

    python examples/learning/at_test_time.py [--out runs/test-time] [--seeds 3] [--samples 24]
        [--checkpoints pocket-base,pocket,noisy] [--save]

For every checkpoint and seed: each method that adapts to a sample, the model as it is, and (from
`pocket-base`) the same objective offline. `noisy` is `pocket-base` with noise on the matrices of
its language side: it writes the grammar in a third of its rollouts, so that a reward of format has
something to teach. Commands are printed as they run; what is finished is not made again. `board/`
below `--out` has the board, `report/` the tables and figures; `--save` keeps the report's numbers.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from learning import RESULTS, harness
from safetensors.torch import load_file, save_file

from harness import provenance
from harness.models.learning.weights import is_of_tower
from harness.models.pocket import BASE

RESULT = RESULTS / "at_test_time.json"
RATE = 2e-5
"""Learning rate at which 2.6 million weights learn in 5 steps; the paper's is 5e-7."""
OFFLINE_STEPS = 40
NOISE = 0.45
"""Standard deviation of the noise, as a share of that of a matrix."""
SEEDED = (
    "vr_ttrl({base},{learning},trace=true)",
    "vr_ttrl({base},{learning},single_gen=true,steps=10)",
    "anti_consensus({base},{learning})",
    "random_label({base},{learning})",
    "format_only({base},{learning})",
    "ttrv({base},{learning})",
    "vote({base},seed={seed})",
    "memo({base},{learning})",
    "memo({base},{learning},geometric=true)",
    "sft_majority({base},{learning})",
)
"""Models of every seed."""
ONCE = (
    "tent({base},{learning})",
    "sft_greedy({base},{learning})",
    "vr_ttrl({base},seed=0)",
)
"""Models that draw nothing, and VR-TTRL at the paper's rate: of the first seed alone."""


def main() -> None:
    given = _arguments()
    data, runs = given.out / "data", given.out / "runs"
    if not (data / "shapes.json").exists():
        harness("data", "make", "shapes", "--out", data, "--tasks", "reason_seg")
    for checkpoint in given.checkpoints.split(","):
        # Asked again for what it cannot say, the noisy one would have little to learn of a format.
        own = f"{noisy(given.out / 'noisy')},retry=false" if checkpoint == "noisy" else checkpoint
        for seed in range(given.seeds):
            specs = list(models(own, seed))
            if checkpoint == "pocket-base":
                specs.append(offline(given.out / f"offline-{seed}", data, seed))
            where = ("--data", data, "--out", runs, "--subset", f"first{given.samples}")
            harness("eval", "--quiet", "--tasks", "reason_seg", *where, "--model", ",".join(specs))
    harness("board", "build", "--runs", runs, "--out", given.out / "board")
    report = given.out / "report"
    harness("board", "adaptation", "--runs", runs, "--out", report, "--texts")
    print((report / "adaptation.md").read_text("utf-8"))
    if given.save:
        plain = {
            "reports": json.loads((report / "adaptation.json").read_text("utf-8")),
            "device": provenance.device(),
            "provenance": provenance.collect(),
        }
        text = json.dumps(plain, indent=1).replace(str(given.out), "runs/test-time")
        RESULT.write_text(text + "\n", "utf-8")


def models(checkpoint: str, seed: int) -> Iterator[str]:
    """SPECs of everything that is asked of a checkpoint (and its settings) with one seed."""
    if seed == 0:
        yield f"pocket(checkpoint={checkpoint},batch_size=1)"
    for text in SEEDED + (ONCE if seed == 0 else ()):
        yield text.format(
            base=f"base=pocket(checkpoint={checkpoint})",
            learning=f"learning_rate={RATE:g},seed={seed}",
            seed=seed,
        )


def offline(folder: Path, data: Path, seed: int) -> str:
    """SPEC of `pocket-base` after a training with the same objective (Table 11)."""
    if not (folder / "checkpoint").exists():
        steps = ("--set", f"max_steps={OFFLINE_STEPS}", "--set", f"save_steps={OFFLINE_STEPS}")
        where = ("--data", data, "--out", folder, "--seed", seed)
        harness("train", "--method", "vr_ttrl", "--config", "pocket_cpu", *steps, *where)
    return f"pocket(checkpoint={folder},batch_size=1)"


def noisy(folder: Path) -> Path:
    """The folder of `pocket-base` with noise, which is made if it is not there."""
    if not folder.exists():
        shutil.copytree(BASE, folder)
        weights, rng = load_file(folder / "model.safetensors"), torch.Generator().manual_seed(0)
        for name, own in weights.items():
            if not is_of_tower(name) and own.dim() == 2:
                wide = own.float()
                noise = torch.randn(wide.shape, generator=rng) * NOISE * wide.std()
                weights[name] = (wide + noise).to(own.dtype).contiguous()
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/test-time"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--checkpoints", default="pocket-base,pocket,noisy")
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
