"""Both engines of GRPO in one plot: our loop, and TRL's own trainer (`engine=trl`).

    python benchmarks/trl_curves.py --out FOLDER [--seeds 5] [--steps 15] [--save]

VisionReasoner on `pocket`, the same prompts in the same step and the same settings for both; each
draws its rollouts by its own generator. For each number of the curve the difference of a seed is
the mean over its steps, and the interval that of Student's t over seeds (95 %). What was trained
already is not trained again, so that a run can be cut into parts. Exits with 1 unless the interval
of the reward lies within `RATE` of its mean.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy.stats import t
from steps import RESULTS, data, write

from harness import plugins
from harness.leaderboards.figure import Panel, figure
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.trainer import Curve

RESULT = RESULTS / "trl_curves.json"
IMAGE = Path(__file__).resolve().parents[1] / "docs" / "images" / "engines.svg"
ENGINES = {"harness": "our loop", "trl": "TRL's GRPOTrainer"}
NUMBERS = ("reward", "rewards/accuracy", "kl", "entropy", "grad_norm", "completions/mean_length")
RATE = 0.1
SETTINGS = {
    "newline": False,  # as the shipped checkpoint was taught
    "num_generations": 4,
    "generation_batch_size": 8,
    "per_device_train_batch_size": 8,
    "max_completion_length": 48,
    "learning_rate": 1e-4,
    "noise": "torch",
    "report_to": "none",
    "keep_rollouts": 0,
}


def curve(folder: Path, root: Path, engine: str, seed: int, steps: int) -> list[dict[str, float]]:
    """Return the curve of a training, which is made if it is not there."""
    place = folder / f"{engine}-{steps}-{seed}"
    if not (place / "checkpoint").is_dir():
        settings = {**SETTINGS, "max_steps": steps, "save_steps": steps, "engine": engine}
        method = plugins.build("trainers", Spec("visionreasoner", settings))
        task = plugins.build("tasks", parse("reason_seg(split=train)"), root)
        train(method, [task], Spec("pocket"), place, TrainingOptions(seed=seed))
    return Curve(place / "curve.jsonl").read()


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of a mean at 95 % by Student's t."""
    half = t.ppf(0.975, len(differences) - 1) * np.std(differences, ddof=1)
    return tuple(fmean(differences) + sign * half / len(differences) ** 0.5 for sign in (-1, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the trainings")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}, {IMAGE.name}")
    given = parser.parse_args()

    root = given.out / "shapes"
    if not root.is_dir():
        data(given.out)
    curves = {
        engine: [curve(given.out, root, engine, seed, given.steps) for seed in range(given.seeds)]
        for engine in ENGINES
    }
    numbers = {}
    for name in NUMBERS:
        ours, theirs = (
            [fmean(row[name] for row in rows) for rows in curves[engine]] for engine in ENGINES
        )
        low, high = interval([other - own for own, other in zip(ours, theirs, strict=True)])
        numbers[name] = {"ours": fmean(ours), "trl": fmean(theirs), "difference": [low, high]}
        print(
            f"{name:24} ours {fmean(ours):8.4f}  trl {fmean(theirs):8.4f}  "
            f"difference {low:+.4f} to {high:+.4f}"
        )
    limit = RATE * numbers["reward"]["ours"]
    is_equal = max(map(abs, numbers["reward"]["difference"])) <= limit
    print(f"reward {'equal' if is_equal else 'not shown to be equal'} within {RATE:.0%}")
    if given.save:
        write(
            RESULT,
            {"seeds": given.seeds, "steps": given.steps, "settings": SETTINGS, "numbers": numbers},
        )
        panels = [
            Panel(
                name,
                {
                    label: [
                        {int(row["step"]): row[name] for row in rows} for rows in curves[engine]
                    ]
                    for engine, label in ENGINES.items()
                },
            )
            for name in NUMBERS
        ]
        IMAGE.write_text(figure(panels, smooth=3), encoding="utf-8")
    return int(not is_equal)


if __name__ == "__main__":
    raise SystemExit(main())
