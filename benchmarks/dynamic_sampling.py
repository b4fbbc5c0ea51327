"""Measure what dynamic sampling gains a generated token: VisionReasoner on pocket, five seeds.

    python benchmarks/dynamic_sampling.py [--seeds 0 1 2 3 4] [--arms plain dynamic] [--save]
    python benchmarks/dynamic_sampling.py --seeds      # the summary of what was saved

Every arm trains from the same checkpoint until it has generated the same number of tokens, and
answers the same held-out questions after each part of them: greedily, and once at the temperature
of rollouts. The metric is the F1 of boxes at an IoU of 0.5, which is no term of the reward. The
gain of an arm is its mean F1 over the parts above the start's, the area under its curve, so that no
single evaluation decides.

With --save each training is a line of `results/dynamic_sampling.jsonl`, and is not made again. The
summary gives the ratio of gains to those of the arm `plain`, with an interval of 95 % by a
bootstrap over the seeds, which the arms share, and draws the curves.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from steps import RESULTS

from harness import plugins
from harness.leaderboards.figure import Panel, figure
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.pipeline import PromptedModel
from harness.run.batching import samples_of
from harness.spec import parse
from harness.task import Task
from harness.tasks.shapes_referring.scoring import count_found
from harness.testing import make_shapes
from harness.trainer import TrainingRun
from harness.trainers.grpo.method import Group
from harness.trainers.grpo.rewards import places_of
from harness.types import Box

RESULT = RESULTS / "dynamic_sampling.jsonl"
CURVES = Path(__file__).parents[1] / "docs" / "images" / "dynamic_sampling.svg"
PLAIN = "plain"
ARMS: Mapping[str, str] = {
    PLAIN: "",
    "dynamic": "dynamic_sampling=true",
    "replace": "dynamic_sampling=true,revisit_probability=1",
    "skip": "dynamic_sampling=true,max_num_gen_batches=1",
}
"""Settings of the arms: none; both parts of dynamic sampling; each part alone."""
SETTINGS = (
    "newline=false,dtype=float32,learning_rate=1e-4,num_generations=8,generation_batch_size=32,"
    "per_device_train_batch_size=32,max_completion_length=48,beta=0,entropy_coef=0,report_to=none"
)
MODEL = "pocket(checkpoint=pocket-base,max_new_tokens=48,segmenter=box)"
TASK = "shapes_referring(split={split})"
SCENES = {"train": 8, "test": 40}
HELD_OUT, TOKENS, PARTS = 96, 18_000, 3
LOGGED = ("dead_tokens", "extra_prompts", "skipped_prompts")
MEASURES = ("greedy", "sampled")
DRAWS = 10_000


def tasks(root: Path) -> list[Task]:
    """Return the questions to train on and those held out, which are of another world."""
    for seed, (split, size) in enumerate(SCENES.items(), start=1):
        if not (root / split).exists():
            make_shapes(root / split, tasks=("shapes_referring",), size=size, seed=seed)
    return [
        plugins.build("tasks", parse(TASK.format(split=split)), root / split) for split in SCENES
    ]


def curve(root: Path, arm: str, seed: int) -> Iterator[dict[str, float]]:
    """Train an arm; yield tokens so far, F1 and counts at the start and after each part."""
    from harness.trainers.grpo.examples import prepare_examples
    from harness.trainers.grpo.loop import GrpoLearner
    from harness.trainers.network import trainable
    from harness.trainers.policy import accelerator_of

    settings = ",".join(filter(None, (SETTINGS, ARMS[arm])))
    method = plugins.build("trainers", parse(f"visionreasoner({settings})"))
    learned, held = tasks(root)
    run = TrainingRun(out=root, tasks=(learned,), model=parse(MODEL), seed=seed)
    model, chat = trainable(method.name, run.model)
    model = method.with_prompt(model)
    method = replace(method, reward=partial(right, model.prompt.parse))
    accelerator = accelerator_of(method.settings, chat)
    examples, _ = prepare_examples(method, model, chat.processor, run)
    learner = GrpoLearner(method, chat, accelerator, seed=seed)
    learner.run = run
    rounds = learner.drawn(examples, range(10**6), method.settings.samples_per_round())
    rate, marks = method.settings.peak_learning_rate, iter(range(PARTS + 1))
    spent, mark, sums = 0.0, next(marks), dict.fromkeys(LOGGED, 0.0)
    for number in count():  # of updates so far
        if spent >= mark * TOKENS / PARTS:
            scores = {name: f1(learner, model, held, name == "greedy") for name in MEASURES}
            yield {"tokens": spent, "updates": number, **scores, **sums}
            if mark == PARTS:
                return
            mark = next(marks)
        learner.begin_round()
        round_ = learner.round(next(rounds), number)
        learner.update(round_, rate, number + 1)
        spent += round_.numbers["step_tokens"]
        sums = {name: sums[name] + round_.numbers.get(name, 0.0) for name in LOGGED}


def right(parse: Any, group: Group) -> list[dict[str, float]]:
    """Return 1 for each response that finds every box and no other, at an IoU of 0.5; else 0."""
    assert group.sample.target is not None and group.sample.target.answer.boxes is not None
    truth, totals = group.sample.target.answer.boxes, list[float]()
    for rollout in group.rollouts:
        boxes = [Box(*box) for box in places_of(parse, group, rollout.text).get("boxes", ())]
        totals.append(float(count_found(truth, boxes) == len(truth) == len(boxes)))
    return [{"total": total} for total in totals]


def f1(learner: Any, model: PromptedModel, task: Task, greedy: bool) -> float:
    """Return the mean F1 of boxes of the policy's answers to the held-out questions."""
    asked = list(samples_of(task))[:HELD_OUT]
    with learner.answering() as chat:
        answering = replace(chat, keyed=True, batch_size=HELD_OUT)
        if greedy:
            answering = replace(answering, temperature=0.0)
        vars(answering).update(network=chat.network, processor=chat.processor)
        queries = [sample.query for sample in asked]
        predictions = replace(model, chat=answering).predict(queries)
    pairs = zip(asked, predictions, strict=True)
    scores = (task.protocol.score([sample], [prediction]) for sample, prediction in pairs)
    return fmean(score["box_f1@0.5"].value for score in scores)


def gain(rows: Sequence[Mapping[str, float]], measure: str) -> float:
    """Return the mean F1 after each part of the tokens, above the start's."""
    return fmean(row[measure] for row in rows[1:]) - rows[0][measure]


def saved() -> dict[tuple[str, int], list[dict[str, float]]]:
    """Return the saved trainings by arm and seed."""
    lines = RESULT.read_text("utf-8").splitlines() if RESULT.exists() else []
    trainings = [json.loads(line) for line in lines]
    return {(run["arm"], run["seed"]): run["rows"] for run in trainings}


def arms_of(trainings: Mapping[tuple[str, int], object]) -> list[str]:
    """Return the arms that have a seed in common with the plain one."""
    seeds = {seed for arm, seed in trainings if arm == PLAIN}
    return [arm for arm in ARMS if any((arm, seed) in trainings for seed in seeds)]


def summary(trainings: Mapping[tuple[str, int], list[dict[str, float]]]) -> Iterator[str]:
    """Yield lines of gains and of their ratios to the plain arm's."""
    for arm in arms_of(trainings):
        seeds = [seed for other, seed in trainings if other == arm and (PLAIN, seed) in trainings]
        ends = [trainings[arm, seed][-1] for seed in seeds]
        dead = fmean(end["dead_tokens"] / end["tokens"] for end in ends)
        updates = fmean(end["updates"] for end in ends)
        yield f"{arm}: {len(seeds)} seeds, {updates:.0f} updates, dead {dead:.0%} of tokens"
        for measure in MEASURES:
            gains = np.array(
                [[gain(trainings[name, seed], measure) for name in (arm, PLAIN)] for seed in seeds]
            )
            own, plain = gains.T
            yield f"  {measure}: gain {_interval(own)}, above plain's {_interval(own - plain)}"
            yield f"    ratio to plain's {_interval(own, plain)}"


def drawing(trainings: Mapping[tuple[str, int], list[dict[str, float]]]) -> str:
    """Return the curves as SVG: F1 by generated tokens, the mean of the seeds and their range."""
    arms = arms_of(trainings)
    panels = [
        Panel(
            f"F1 of boxes, held out, {measure}",
            {
                arm: [
                    {part * TOKENS // PARTS: row[measure] for part, row in enumerate(rows)}
                    for (other, _), rows in trainings.items()
                    if other == arm
                ]
                for arm in arms
            },
            across="generated tokens",
        )
        for measure in MEASURES
    ]
    return figure(panels)


def _interval(values: NDArray[np.float64], divisors: NDArray[np.float64] | None = None) -> str:
    """Return the mean of values, or its ratio to that of others, with its interval."""
    places = np.random.default_rng(0).integers(len(values), size=(DRAWS, len(values)))
    mean, drawn = values.mean(), values[places].mean(axis=1)
    if divisors is not None:
        mean, drawn = mean / divisors.mean(), drawn / divisors[places].mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    """Train what is missing, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="+", default=[PLAIN, "dynamic"], choices=list(ARMS))
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dynamic")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    ensure_torchvision()
    trainings = saved()
    for seed in given.seeds:
        for arm in given.arms:
            if (arm, seed) in trainings:
                continue
            rows = trainings[arm, seed] = []
            for row in curve(given.data, arm, seed):
                rows.append(row)
                print(arm, seed, {name: round(value, 3) for name, value in row.items()}, flush=True)
            if given.save:
                with RESULT.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"arm": arm, "seed": seed, "rows": rows}) + "\n")
    print(*summary(trainings), sep="\n")
    if given.save:
        CURVES.write_text(drawing(trainings), "utf-8")


if __name__ == "__main__":
    main()
