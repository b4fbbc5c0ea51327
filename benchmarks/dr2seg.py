"""What DR2Seg's second pass costs: seconds a step beside VisionReasoner's, in one run.

    python benchmarks/dr2seg.py --checkpoint FOLDER [--data ROOT] [--steps 20] [--rounds 2] [--save]

Two ratios of seconds, DR2Seg over VisionReasoner:

- at equal lengths: nothing is learned (learning rate 0), and both write the same first replies,
  token for token, to DR2Seg's prompt: what is left is the second pass;
- to the same number of steps: both learn, each with its own prompt and reward, at the lengths that
  they reach. The paper's is 190 / 195 minutes; the aim is at most 1.15.

The two take turns, `--rounds` times; the first step of each training is not counted.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from harness import plugins, provenance
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.task import Task

RESULT = Path(__file__).parent / "results" / "dr2seg.json"
AIM = 1.15
CANVAS = 168  # pocket's
SHOWN = ("completions/mean_length", "second_length", "think_length")


@dataclass
class Clock:
    """Progress that notes when each step ended, and what was logged of it."""

    ends: list[float] = field(default_factory=list)
    numbers: list[Mapping[str, float]] = field(default_factory=list)

    def start(self, name: str, total: int, done: int) -> None:
        return

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        if "reward" in numbers:
            self.ends.append(perf_counter())
            self.numbers.append(numbers)

    def note(self, text: str) -> None:
        return

    def end(self) -> None:
        return

    def seconds(self) -> list[float]:
        """Of each step but the first."""
        return [after - before for before, after in zip(self.ends, self.ends[1:], strict=False)]

    def mean(self, name: str) -> float:
        """Of a logged number, over all steps; 0 where it was not logged."""
        found = [float(row[name]) for row in self.numbers if name in row]
        return statistics.fmean(found) if found else 0.0


def trained(method: Spec, model: Spec, task: Task, *, seed: int) -> tuple[Clock, list[Any]]:
    """A training in a folder that is thrown away: its times, and the rollouts that were kept."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        done = train(plugins.build("trainers", method), [task], model, Path(folder) / "out",
                     TrainingOptions(seed=seed, progress=clock))  # fmt: skip
        kept = (done.folder / "rollouts.jsonl").read_text("utf-8").splitlines()
    return clock, [json.loads(line)["text"] for line in kept]


def compared(
    ours: tuple[Spec, Spec], theirs: tuple[Spec, Spec], task: Task, *, rounds: int, same: bool
) -> dict[str, Any]:
    """Both methods, each with its model, in turn: seconds a step, lengths, the ratio of seconds."""
    clocks: dict[str, list[Clock]] = {"dr2seg": [], "visionreasoner": []}
    for seed in range(rounds):
        order = (("dr2seg", ours), ("visionreasoner", theirs))
        texts = {}
        for name, (method, model) in order if seed % 2 else order[::-1]:
            clock, texts[name] = trained(method, model, task, seed=seed)
            clocks[name].append(clock)
        if same and texts["dr2seg"] != texts["visionreasoner"]:
            raise SystemExit("the first replies differ: their lengths are not equal")
    seconds = {
        name: [one for clock in several for one in clock.seconds()]
        for name, several in clocks.items()
    }
    means = {
        name: {shown: statistics.fmean(clock.mean(shown) for clock in several) for shown in SHOWN}
        for name, several in clocks.items()
    }
    return {
        "ratio": sum(seconds["dr2seg"]) / sum(seconds["visionreasoner"]),
        "median_seconds": {name: statistics.median(one) for name, one in seconds.items()},
        "steps": {name: len(one) for name, one in seconds.items()},
        "lengths": means,
    }


def data(folder: Path) -> Path:
    """A small generated world in ReasonSeg's layout."""
    from harness.cli.data import writers
    from harness.world.shapes import make

    make(folder / "shapes", seed=0, size=16, writers=writers())
    return folder / "shapes"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="of pocket, or a tiny network's folder")
    parser.add_argument("--data", type=Path, help="a data root; none: a small world is made")
    parser.add_argument("--train-tasks", default="reason_seg(split=train)")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()

    settings = {"max_steps": given.steps + 1, "prompts": 2, "group": 8, "batch_size": 16,
                "max_new_tokens": 128, "noise": "keyed", "loggers": "none",
                "keep_rollouts": 2, "save_every": given.steps + 1, "n0": 12}  # fmt: skip
    for text in given.set:
        settings.update(parse(f"set({text})").arguments)
    shared = {key: value for key, value in settings.items() if key != "n0"}
    # Each in words of its own that pocket knows: spelled in pieces, the published prompt of DR2Seg
    # is 200 tokens longer, which is no cost of the method.
    own = Spec("dr2seg", {"checkpoint": given.checkpoint, "canvas": CANVAS, "prompt": "short"})
    plain = Spec("pocket", {"checkpoint": given.checkpoint})
    with tempfile.TemporaryDirectory() as folder:
        root = given.data or data(Path(folder))
        task = plugins.build("tasks", parse(given.train_tasks), root)
        still = {"learning_rate": 0.0}
        equal = compared(
            (Spec("dr2seg", {**settings, **still}), own),
            # VisionReasoner's reward, for replies to the same prompt.
            (Spec("dr2seg", {**settings, **still, "r_desc": False, "r_len": False}), own),
            task, rounds=given.rounds, same=True,
        )  # fmt: skip
        learning = {"learning_rate": 2e-5, **shared}
        reached = compared(
            (Spec("dr2seg", {**learning, "n0": settings["n0"]}), own),
            (Spec("visionreasoner", learning), plain),
            task, rounds=given.rounds, same=False,
        )  # fmt: skip
    result = {"equal_lengths": equal, "same_steps": reached, "aim": AIM, "settings": settings,
              "provenance": provenance.collect(), "device": provenance.device()}  # fmt: skip
    for name, one in (("at equal lengths", equal), ("to the same steps", reached)):
        print(f"{name:20} ratio {one['ratio']:.3f}   " + "   ".join(
            f"{method} {seconds:.2f} s a step" for method, seconds in one["median_seconds"].items()
        ))  # fmt: skip
        print(json.dumps(one["lengths"], indent=1))
    if given.save:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return int(reached["ratio"] > AIM)


if __name__ == "__main__":
    raise SystemExit(main())
