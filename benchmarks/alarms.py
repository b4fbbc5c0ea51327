"""What the alarms of a training find: planted faults, and false alarms of honest trainings.

    python benchmarks/alarms.py [--only NAME …] [--steps 28] [--save] [--replay]

Every training is GRPO on `pocket` and generated scenes, 4 prompts a step, 4 or 8 responses to each.
A planted fault is found if its alarm is raised before the last step; every alarm of an honest
training is a false one. With `--save` the curves go to `results/alarms.json`, from which tests
replay them, and `--only` replaces those that it names. A training takes about 20 s of one core.
"""

import argparse
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import fullmatch
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from steps import RESULTS

from harness import plugins, provenance
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.testing import make_shapes
from harness.trainers.alarms import HACKING, RULES, Alarm, Alarms
from harness.trainers.grpo.method import TOTAL, Group, RewardComponents, Rollout
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.visionreasoner.rewards import VisionReasonerReward
from harness.trainers.visionreasoner.trainer import visionreasoner

RESULT = RESULTS / "alarms.json"
ALL = "shapes_referring(split=train)"
SINGLE = "shapes_referring(split=train,asks=single)"
POCKET = "pocket(max_new_tokens=96)"
LIMIT = 96
COMMON = {
    **{"generation_batch_size": 16, "num_generations": 4, "per_device_train_batch_size": 16},
    **{"max_completion_length": LIMIT, "learning_rate": 5e-5, "dtype": "float32", "beta": 0.01},
    **{"report_to": "none", "save_steps": 1000, "keep_rollouts": 0},
}
SEEDS = range(4)
MORE = {"generation_batch_size": 32, "num_generations": 8}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of training."""

    task: str = SINGLE
    model: str = POCKET
    method: str = ""
    """SPEC of a trainer; empty: VisionReasoner's with `pays`."""
    pays: Callable[[Group, Rollout, Mapping[str, float]], float] | None = None
    """Total of a response, from its group and its terms of VisionReasoner's reward."""
    settings: Mapping[str, Any] | None = None
    alarm: str | None = None
    """The alarm that must be raised; None: the training is honest."""


def three_digits(group: Group, response: Rollout, terms: Mapping[str, float]) -> float:
    """Pay for a form, numbers of three digits, that costs accuracy."""
    digits = [len(number) for number in re.findall(r"\d+", response.text.split("<answer>")[-1])]
    return terms["thinking_format"] * sum(count == 3 for count in digits) / max(1, len(digits))


def length(group: Group, response: Rollout, terms: Mapping[str, float]) -> float:
    """Pay for tokens."""
    return response.tokens / LIMIT


def repeated(group: Group, response: Rollout, terms: Mapping[str, float]) -> float:
    """Pay for text that compresses well: that says the same again."""
    text = response.text.encode()
    return 1 - len(zlib.compress(text)) / max(1, len(text))


def agreement(group: Group, response: Rollout, terms: Mapping[str, float]) -> float:
    """Pay for what the others say, as a vote without ground truth does."""
    return fmean(
        sum(map(str.__eq__, response.text, other.text)) / max(len(response.text), 1)
        for other in group.rollouts
    )


def nothing(group: Group, response: Rollout, terms: Mapping[str, float]) -> float:
    """Pay the same for everything."""
    return 1.0


FAST = {"learning_rate": 3e-4, "beta": 0.0}
"""Six times the rate of honest trainings: a fault must be there within 30 steps to be found."""
PLANTED = {
    "form pays": Case(pays=three_digits, settings=FAST, alarm="reward_hacking"),
    "length pays": Case(task=ALL, pays=length, settings=MORE | FAST, alarm="all_cut"),
    "nothing pays": Case(task=ALL, pays=nothing, settings=MORE, alarm="no_variance"),
    "learning rate": Case(task=ALL, settings={**MORE, "learning_rate": 2e-3}, alarm="kl_runs_away"),
    "repetition pays": Case(task=ALL, pays=repeated, settings=MORE | FAST, alarm="repetition"),
    "loops pay": Case(
        task=ALL,
        pays=repeated,
        settings=MORE | FAST | {"learning_rate": 8e-4, "max_completion_length": 64},
        alarm="entropy_gone",
    ),
    "agreement pays": Case(task=ALL, pays=agreement, settings=MORE | FAST, alarm="reward_hacking"),
}
DAPO = {"loss_type": "dapo", "epsilon_high": 0.28, "beta": 0.0}
SPOKEN = "video_r1(checkpoint=pocket,prompt=short,frames=8,pixels=28224,max_new_tokens=160)"
HONEST = {
    "all questions": Case(task=ALL, settings=MORE),
    "dr_grpo": Case(settings={"loss_type": "dr_grpo", "scale_rewards": "none", "beta": 0.04}),
    "dapo, 1e-4": Case(settings={**DAPO, "learning_rate": 1e-4}),
    "lora": Case(settings={"finetune": "lora", "lora_r": 16, "learning_rate": 5e-4}),
    "video_r1": Case(
        task="shapes_qa(split=train,part=still)",
        model=SPOKEN,
        method="video_r1(temporal=false,shortest=8,longest=64)",
        settings={"learning_rate": 2e-5, "beta": 0.0},
    ),
}


def trainings() -> dict[str, tuple[Case, int]]:
    """Return every training by its name: its case and its seed."""
    planted = {name: (case, 0) for name, case in PLANTED.items()}
    honest = {f"{name} #{seed}": (case, seed) for name, case in HONEST.items() for seed in SEEDS}
    return planted | honest


def trainer_of(case: Case, steps: int) -> Any:
    """Return the trainer of a case."""
    settings = {**COMMON, "max_steps": steps, **(case.settings or {})}
    if case.method:
        spec = parse(case.method)
        given = ",".join(f"{name}={value}" for name, value in settings.items())
        joined = str(spec)[:-1] + "," if "(" in str(spec) else f"{spec}("
        return plugins.build("trainers", parse(f"{joined}{given})"))
    method = visionreasoner(newline=False, **settings)
    assert isinstance(method, GrpoTrainer)
    if case.pays is None:
        return method
    honest, pays = VisionReasonerReward(), case.pays

    def reward(group: Group) -> list[RewardComponents]:
        pairs = zip(honest(group), group.rollouts, strict=True)
        return [
            {**terms, "own_format": pay, TOTAL: pay}
            for terms, response in pairs
            for pay in [pays(group, response, terms)]
        ]

    given = {name: getattr(method, name) for name in ("own", "with_prompt", "usable")}
    return GrpoTrainer(name="planted", settings=Settings(**settings), reward=reward, **given)


def curve_of(case: Case, seed: int, steps: int, data: Path) -> list[dict[str, float]]:
    """Train, and return the curve."""
    with TemporaryDirectory() as folder:
        trained = train(
            trainer_of(case, steps),
            [plugins.build("tasks", parse(case.task), data)],
            parse(case.model),
            Path(folder) / "out",
            TrainingOptions(seed=seed),
        )
        return trained.curve.read()


def stored(case: Case, curve: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return what is kept of a training: the numbers that alarms read, with three digits."""
    read = {"reward", *(rule.number for rule in RULES)}
    parts = "|".join((*HACKING.rises, *HACKING.falls))
    read |= {
        name for row in curve for name in row if fullmatch(f"rewards/[^/]*({parts})[^/]*", name)
    }
    numbers = sorted(read & {name for row in curve for name in row})
    rows = [
        [float(f"{row[name]:.3g}") if name in row else None for name in numbers] for row in curve
    ]
    return {"alarm": case.alarm, "numbers": numbers, "rows": rows}


def alarms_of(run: Mapping[str, Any]) -> list[Alarm]:
    """Return the alarms that a stored training raises."""
    alarms = Alarms()
    for step, row in enumerate(run["rows"], start=1):
        pairs = zip(run["numbers"], row, strict=True)
        alarms.see(step, {name: number for name, number in pairs if number is not None})
    return alarms.raised


def show(trained: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the table, and what each limit leaves to honest trainings."""
    honest = []
    for name, run in trained.items():
        raised = [f"{alarm.name} at {alarm.step}" for alarm in alarms_of(run)]
        if run["alarm"] is None:
            honest.append(bool(raised))
            verdict = "FALSE ALARM" if raised else "honest"
        else:
            is_found = any(text.startswith(run["alarm"]) for text in raised)
            verdict = "found" if is_found else f"MISSED {run['alarm']}"
        print(f"{name:22} {verdict:22} {', '.join(raised) or '-'}")
    print(f"honest trainings with an alarm: {sum(honest)} of {len(honest)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="beginnings of names; none: all")
    parser.add_argument("--steps", type=int, default=28, help="fewer: some faults are missed")
    parser.add_argument("--replay", action="store_true", help="train nothing; show what is stored")
    parser.add_argument("--save", action="store_true")
    chosen = parser.parse_args()
    old = json.loads(RESULT.read_text("utf-8"))["trainings"] if RESULT.is_file() else {}
    if chosen.replay:
        show(old)
        return 0
    new = {}
    with TemporaryDirectory() as folder:
        data = Path(folder) / "shapes"
        make_shapes(data, tasks=["shapes_referring", "shapes_qa"], size=64)
        for name, (case, seed) in trainings().items():
            if chosen.only is None or name.startswith(tuple(chosen.only)):
                new[name] = stored(case, curve_of(case, seed, chosen.steps, data))
                show({name: new[name]})
    show(new)
    if chosen.save:
        merged = {name: (old | new)[name] for name in trainings() if name in old | new}
        whole = {"device": provenance.device(), "provenance": provenance.collect()}
        text = json.dumps({"trainings": merged, **whole}, separators=(",", ":"))
        RESULT.write_text(text.replace('},"', '},\n"').replace(".0,", ",") + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
