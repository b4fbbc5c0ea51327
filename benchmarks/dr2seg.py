"""What DR2Seg's second pass costs: seconds a step beside VisionReasoner's, in one run.

    python benchmarks/dr2seg.py --checkpoint FOLDER [--data ROOT] [--steps 20] [--rounds 2]
        [--parts paper,end] [--save]

Ratios of seconds, DR2Seg over VisionReasoner (`--parts`; all of them, if not given):

- `equal`, at equal lengths: nothing is learned (learning rate 0), and both write the same first
  responses, token for token, to DR2Seg's prompt: what is left is the second pass;
- `paper`, at the paper's lengths: a network of random weights sees images of 840 × 840, 900
  tokens, before the published prompt, as Qwen2.5-VL does, and responses end where those of the
  published trainings do (`REACHED`), whatever they say. The paper's ratio is 190 / 195 minutes; the
  aim is 1.15 at most;
- `end`, the same at the lengths that the published trainings have reached at their end;
- `same`, to the same steps: both learn, each with its own prompt and reward, at the lengths that
  this checkpoint comes to.

The two take turns, `--rounds` times; the first step of each training is not counted. `--save` keeps
what the file has of parts that are not measured.
"""

import argparse
import hashlib
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from harness import plugins, provenance
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.task import Task

RESULT = Path(__file__).parent / "results" / "dr2seg.json"
AIM = 1.15
CANVAS, LARGE = 168, 840
"""Sides of images: pocket's, and the paper's."""
SHOWN = ("completions/mean_length", "second_length", "think_length")
REACHED = {"paper": (83, 39), "end": (83, 27)}
"""Tokens of reasoning in the paper's few-shot trainings (Table 1, means of validation and test), of
VisionReasoner and of DR2Seg: 82.8 before and 83.4 after; 50.8 before and 27.1 after, of which the
first is the middle. The second pass, whose length is not told, has as many; with more than the
first it would earn nothing."""
PARTS = {
    "equal": "at equal lengths",
    "paper": "at the paper's lengths",
    "end": "at its last lengths",
    "same": "to the same steps",
}
ANSWER, DESCRIPTION = 55, 14
"""About how many further tokens a response of Qwen2.5-VL has: tags, a box and a point in digits;
and what is described.
"""
SPREAD = 0.25
"""Standard deviation of the logarithm of lengths."""


@dataclass
class Clock:
    """Progress that notes when each step ended, and what was logged of it."""

    ends: list[float] = field(default_factory=list)
    numbers: list[Mapping[str, float]] = field(default_factory=list)
    now: Callable[[], float] = perf_counter

    def start(self, name: str, total: int, done: int) -> None:
        return

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        if "reward" in numbers:
            self.ends.append(self.now())
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
        done = train(
            plugins.build("trainers", method),
            [task],
            model,
            Path(folder) / "out",
            TrainingOptions(seed=seed, progress=clock),
        )
        kept = (done.folder / "rollouts.jsonl").read_text("utf-8").splitlines()
    return clock, [json.loads(line)["text"] for line in kept]


@contextmanager
def ending_at(first: int, second: int) -> Iterator[None]:
    """Let the responses of trainings end after about as many tokens, whatever they say."""
    from harness.models.backends.networks import end_tokens
    from harness.models.backends.sampling import uniforms
    from harness.trainers.dr2seg.second_pass import DUMMY
    from harness.trainers.grpo import loop

    def length(key: str, middle: int) -> int:
        one, other, *_ = uniforms(seed=0, key=key, block=0)
        normal = math.sqrt(-2 * math.log(1 - one)) * math.cos(2 * math.pi * other)
        return max(1, round(middle * math.exp(SPREAD * normal)))

    class Ending(loop.Learner):
        def __init__(self, method: Any, *given: Any, **named: Any) -> None:
            again = method.second

            def unlike(sample: Any, rollout: Any) -> Any:
                # Nothing is described: else all would ask the same, which is read once.
                request = again(sample, rollout)
                own = hashlib.sha256(rollout.text.encode()).hexdigest()[:8]
                requested = request.text.replace(DUMMY, f"{DUMMY} {own}", 1)
                return replace(request, text=requested, max_new_tokens=length(rollout.text, second))

            method = method if again is None else replace(method, second=unlike)
            super().__init__(method, *given, **named)

        def conversation(self, draft: Any) -> Any:
            request = replace(draft.example.request, max_new_tokens=length(draft.key, first))
            draft.example = replace(draft.example, request=request)
            return super().conversation(draft)

        def chat_of(self, network: Any) -> Any:
            chat = super().chat_of(network)
            ends = end_tokens(chat.folder, chat.processor.tokenizer)
            longer = replace(chat, suppress_tokens=(*chat.suppress_tokens, *ends))
            vars(longer).update(network=network, processor=chat.processor)
            return longer

    usual, loop.Learner = loop.Learner, Ending  # type: ignore[misc]
    try:
        yield
    finally:
        loop.Learner = usual  # type: ignore[misc]


def like_qwen(folder: Path) -> Path:
    """A checkpoint of random weights that sees large images in windows, before the request.

    The vision tower is small beside the text network, as that of Qwen2.5-VL-7B is.
    """
    from harness.trainers.pocket import vocabulary
    from harness.trainers.pocket.network import Architecture, make_network, save_checkpoint

    tokenizer = vocabulary.make_tokenizer()
    sizes = Architecture(vision_hidden_size=64, vision_layers=2, vision_intermediate_size=128)
    network = make_network(tokenizer, sizes, seed=0)
    seen = network.config.vision_config
    seen.window_size, seen.fullatt_block_indexes = 112, []
    save_checkpoint(type(network)(network.config), tokenizer, folder, text_first=False)
    return folder


def compared(
    ours: tuple[Spec, Spec],
    theirs: tuple[Spec, Spec],
    task: Task,
    *,
    rounds: int,
    lengths: Mapping[str, tuple[int, int]] | None = None,
    same: bool = False,
) -> dict[str, Any]:
    """Both methods, each with its model, in turn: seconds a step, lengths, the ratio of seconds."""
    clocks: dict[str, list[Clock]] = {"dr2seg": [], "visionreasoner": []}
    for seed in range(rounds):
        order = (("dr2seg", ours), ("visionreasoner", theirs))
        texts = {}
        for name, (method, model) in order if seed % 2 else order[::-1]:
            with nullcontext() if lengths is None else ending_at(*lengths[name]):
                clock, texts[name] = trained(method, model, task, seed=seed)
            clocks[name].append(clock)
        if same and texts["dr2seg"] != texts["visionreasoner"]:
            raise SystemExit("the first responses differ: their lengths are not equal")
    seconds = {
        name: [one for clock in several for one in clock.seconds()]
        for name, several in clocks.items()
    }
    ratios = [
        sum(one.seconds()) / sum(other.seconds())
        for one, other in zip(clocks["dr2seg"], clocks["visionreasoner"], strict=True)
    ]
    means = {
        name: {shown: statistics.fmean(clock.mean(shown) for clock in several) for shown in SHOWN}
        for name, several in clocks.items()
    }
    return {
        "ratio": sum(seconds["dr2seg"]) / sum(seconds["visionreasoner"]),
        "ratios_of_rounds": ratios,
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
    parser.add_argument("--large-steps", type=int, default=4, help="at the paper's lengths")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--parts", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()
    parts = given.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")

    settings = {
        "max_steps": given.steps + 1,
        "num_generations": 8,
        "generation_batch_size": 16,
        "per_device_train_batch_size": 16,
        "max_completion_length": 128,
        "noise": "keyed",
        "report_to": "none",
        "keep_rollouts": 2,
        "save_steps": given.steps + 1,
        "n0": 12,
    }
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
        # VisionReasoner's reward, for responses to the same prompt.
        alike = (
            (Spec("dr2seg", {**settings, **still}), own),
            (Spec("dr2seg", {**settings, **still, "r_desc": False, "r_len": False}), own),
        )
        large = Spec(
            "dr2seg",
            {
                "checkpoint": str(like_qwen(Path(folder) / "like_qwen")),
                "canvas": LARGE,
                "backend": Spec("transformers", {"min_pixels": LARGE**2, "max_pixels": LARGE**2}),
            },
        )
        few = {"max_steps": given.large_steps + 1, "per_device_train_batch_size": 4}
        learning = {"learning_rate": 2e-5, **shared}

        def measured(part: str) -> dict[str, Any]:
            if part == "equal":
                return compared(*alike, task, rounds=given.rounds, same=True)
            if part == "same":
                dr2seg = Spec("dr2seg", {**learning, "n0": settings["n0"]}), own
                return compared(
                    dr2seg, (Spec("visionreasoner", learning), plain), task, rounds=given.rounds
                )
            longer, shorter = REACHED[part]
            first = shorter + ANSWER + DESCRIPTION
            return compared(
                *((Spec("dr2seg", {**one.arguments, **few}), large) for one, _ in alike),
                task,
                rounds=given.rounds,
                lengths={"visionreasoner": (longer + ANSWER, 0), "dr2seg": (first, first)},
            )

        found = {part: measured(part) for part in parts}
    own_settings = {
        "equal": {**settings, **still},
        "same": {**settings, **learning},
        **{
            part: {**settings, **still, **few, "lengths": lengths}
            for part, lengths in REACHED.items()
        },
    }
    about = {
        "rounds": given.rounds,
        "provenance": provenance.collect(),
        "device": provenance.device(),
    }
    for part, one in found.items():
        rounds = ", ".join(f"{ratio:.2f}" for ratio in one["ratios_of_rounds"])
        print(
            f"{PARTS[part]:24} ratio {one['ratio']:.3f} ({rounds})   "
            + "   ".join(
                f"{method} {seconds:.2f} s a step"
                for method, seconds in one["median_seconds"].items()
            )
        )
        print(json.dumps(one["lengths"], indent=1))
    if given.save:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        kept |= {
            "aim": AIM,
            **{
                part: {**one, "settings": own_settings[part], **about}
                for part, one in found.items()
            },
        }
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return int(any(found[part]["ratio"] > AIM for part in REACHED if part in found))


if __name__ == "__main__":
    raise SystemExit(main())
