"""Measure that the methods learn: each from the shipped pocket, beside the same on random rewards.

    python examples/learning/learning.py [--methods visionreasoner,dr2seg] [--seeds 3] [--steps 60]
        [--from pocket-base] [--out runs/learning] [--every N] [--set key=value …] [--save]

For every method and seed: `harness train` with its reward and with `reward=random`, both evaluated
with `harness eval` on scenes of another world seed. A method whose grammar pocket has never seen
starts from a short supervised warm-up, the same for all of its trainings. Commands are printed as
they run; what is finished is not made again, so a killed benchmark goes on when it is called again.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned import (
    REWARD,
    course_of,
    evaluated,
    logged,
    plain,
    plain_courses,
    rows,
    same_samples,
    table,
    training_table,
)
from studies import STUDIES, Study, WarmUp

from harness import provenance
from harness.leaderboards.figure import Panel, figure
from harness.spec import Spec

HERE = Path(__file__).parent
RESULTS, IMAGES = HERE / "results", HERE.parents[1] / "docs" / "images"
DATA = "shapes_referring,shapes_qa,reason_seg"
SEEDS = {"train": 101, "held": 202}
"""Seeds of the generated worlds; the trainings' own seeds are 0, 1, 2, …"""
ASKED, HELD = "asked.json", "held"
SHOWN = {
    "reward of the method": REWARD,
    "tokens of reasoning": ("think_length",),
    "groups without variance": ("frac_reward_zero_std",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Settings of a study, as they were asked for."""

    out: Path
    start: str
    seeds: int
    steps: int
    warm_steps: int | None
    """Supervised steps of a warm-up; None: as many as the study says."""
    size: int
    held: int
    every: int | None = None
    more: tuple[str, ...] = ()
    """`key=value` of every training with GRPO."""

    def warms(self, warm_up: WarmUp) -> int:
        """The steps of a study's warm-up."""
        return warm_up.steps if self.warm_steps is None else self.warm_steps

    def data(self, which: str) -> Path:
        """The root of a generated world, which is made if it is not there."""
        size = self.size if which == "train" else self.held
        root = self.out / f"data-{which}-{size}"
        if not (root / "shapes.json").exists():
            made = ("--out", root, "--seed", SEEDS[which], "--size", size, "--tasks", DATA)
            harness("data", "make", "shapes", *made)
        return root


def main() -> None:
    given = _arguments()
    plan = Plan(
        out=given.out,
        start=given.start,
        seeds=given.seeds,
        steps=given.steps,
        warm_steps=given.warm_steps,
        size=given.size,
        held=given.held,
        every=given.every,
        more=tuple(given.set),
    )
    for name in given.methods.split(","):
        text = "\n".join(studied(name, STUDIES[name], plan, save=given.save))
        print(text, flush=True)


def studied(name: str, study: Study, plan: Plan, *, save: bool) -> Iterator[str]:
    """Train and evaluate all arms of a study; then its tables, in markdown."""
    start = begun(name, study, plan)
    before = held_out(study, plan, start, plan.out / name / "start")
    after: dict[str, list[Mapping[str, Any]]] = {arm: [] for arm in study.every_arm}
    folders: dict[str, list[Path]] = {arm: [] for arm in study.every_arm}
    for seed in range(plan.seeds):  # seed by seed, so that what is there early can be compared
        for arm in study.every_arm:
            folder = trained(name, study, plan, arm, seed, start)
            folders[arm].append(folder)
            after[arm].append(held_out(study, plan, str(folder), folder / HELD))
    same_samples(before, after)
    found = list(rows(study, before, after))
    courses = {arm: [course_of(folder) for folder in several] for arm, several in folders.items()}
    image = figure(list(panels(study, plan, folders)), smooth=max(1, plan.steps // 12))
    (plan.out / name / "curves.svg").write_text(image, encoding="utf-8")
    if save:
        IMAGES.mkdir(parents=True, exist_ok=True)
        RESULTS.mkdir(parents=True, exist_ok=True)
        (IMAGES / f"learning_{name}.svg").write_text(image, encoding="utf-8")
        info = {
            "plan": {**_plain(plan, study), "out": plan.out.name},
            "rows": plain(found),
            "training": plain_courses(courses),
            "provenance": provenance.collect(),
            "device": provenance.device(),
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
    yield f"{name}: {plan.steps} steps from {plan.start}" + (
        f" after {plan.warms(study.warm_up)} supervised steps" if study.warm_up else ""
    )
    yield ""
    yield from table(plain(found))
    yield ""
    yield from training_table(courses)


def begun(name: str, study: Study, plan: Plan) -> str:
    """The checkpoint that the trainings of a study start from."""
    out = plan.out / name / "warm"
    if study.policy:
        made = ["--data", str(plan.data("train")), "--out", str(out)]
        if plan.warm_steps is not None:
            made += ["--steps", str(plan.warm_steps)]
        once(out, made, lambda: (out / "warm_up.json").exists(), program=HERE / study.policy)
        return str(out)
    if study.warm_up is None:
        return plan.start
    trains(
        out,
        "--method",
        study.warm_up.trainer,
        "--config",
        "pocket_cpu",
        "--model",
        study.model.format(start=plan.start),
        "--train-tasks",
        study.warm_up.tasks,
        "--data",
        str(plan.data("train")),
        "--seed",
        "0",
        *_set({**study.warm_up.settings, "max_steps": plan.warms(study.warm_up)}),
    )
    return str(out)


def trained(name: str, study: Study, plan: Plan, arm: str, seed: int, start: str) -> Path:
    """The folder of one training with GRPO."""
    out = plan.out / name / f"{arm.replace(' ', '-').replace(chr(39), '')}-{seed}"
    watched = (
        ("--eval-tasks", ",".join(study.held_out), "--every", str(plan.every)) if plan.every else ()
    )
    settings = {
        **study.settings,
        **study.every_arm[arm],
        "max_steps": plan.steps,
        "save_steps": plan.steps,
    }
    trains(
        out,
        "--method",
        study.method,
        "--config",
        "pocket_cpu",
        "--model",
        study.model.format(start=start),
        "--train-tasks",
        study.tasks,
        "--data",
        str(plan.data("train")),
        "--seed",
        str(seed),
        *_set(settings),
        *(part for one in plan.more for part in ("--set", one)),
        *watched,
    )
    return out


def held_out(study: Study, plan: Plan, checkpoint: str, out: Path) -> dict[str, Any]:
    """The runs of a checkpoint on the held-out world, by the task's SPEC."""
    requested = [
        "eval",
        "--model",
        study.model.format(start=checkpoint),
        "--tasks",
        ",".join(study.held_out),
        "--data",
        str(plan.data("held")),
        "--out",
        str(out),
    ]
    once(out, requested, lambda: len(list(out.rglob("results.json"))) >= len(study.held_out))
    return evaluated(out)


def trains(out: Path, *arguments: str) -> None:
    """`harness train`, unless that training is finished."""
    once(out, ["train", *arguments, "--out", str(out), "--resume"], lambda: _finished(out))


def once(out: Path, command: Sequence[str], done: Any, *, program: Path | None = None) -> None:
    """Run a command that fills a folder, unless the same one has filled it.

    It is one of harness, or of another program.

    Raises:
        SystemExit: the folder was made by another command.
    """
    beside = out.parent / f"{out.name}.{ASKED}"
    if beside.exists():
        requested = json.loads(beside.read_text("utf-8"))
        if requested != list(command):
            raise SystemExit(
                f"{out} was made by another command; choose another --out\n"
                f"  then: harness {shlex.join(requested)}\n"
                f"  now:  harness {shlex.join(command)}"
            )
        if done():
            return
    out.parent.mkdir(parents=True, exist_ok=True)
    beside.write_text(json.dumps(list(command)), encoding="utf-8")
    if program is None:
        harness(*command)
    else:
        subprocess.run([sys.executable, str(program), *command], check=True, stdout=sys.stderr)


def _finished(out: Path) -> bool:
    manifest = out / "manifest.json"
    return manifest.exists() and "result" in json.loads(manifest.read_text("utf-8"))


def panels(study: Study, plan: Plan, folders: Mapping[str, Sequence[Path]]) -> Iterator[Panel]:
    """Yield panels of what trainings logged, and of the held-out headline where it was read."""
    for title, names in SHOWN.items():
        yield Panel(
            title,
            {
                arm: [logged(folder, *names) for folder in several]
                for arm, several in folders.items()
            },
        )
    if plan.every:
        first = study.measures[0]
        column = f"{first.task}/{first.metric}"
        yield Panel(
            f"{first.title}, held out",
            {
                arm: [logged(folder, column) for folder in several]
                for arm, several in folders.items()
            },
        )


def _set(settings: Mapping[str, Any]) -> list[str]:
    # As a SPEC writes them: the text "none" needs quotes, or it is no value.
    written = [str(Spec("set", {name: value}))[4:-1] for name, value in settings.items()]
    return [part for one in written for part in ("--set", one)]


def _plain(plan: Plan, study: Study) -> dict[str, Any]:
    warm = None if study.warm_up is None else plan.warms(study.warm_up)
    return {
        "start": Path(plan.start).name,
        "seeds": plan.seeds,
        "steps": plan.steps,
        "warm_steps": warm,
        "size": plan.size,
        "held": plan.held,
        "more": list(plan.more),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--methods", default=",".join(STUDIES), help=", ".join(STUDIES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-steps", type=int, help="of every warm-up")
    parser.add_argument("--from", dest="start", default="pocket-base", help="a checkpoint")
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    parser.add_argument("--size", type=int, default=600, help="training has four times as many")
    parser.add_argument("--held", type=int, default=150, help="held-out samples a task")
    parser.add_argument("--every", type=int, help="steps between looks at the held-out tasks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--save", action="store_true", help="into results, docs/images")
    given = parser.parse_args()
    unknown = set(given.methods.split(",")) - set(STUDIES)
    if unknown:
        parser.error(f"--methods: no {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}")
    return given


def harness(*arguments: object) -> None:
    """Run a command, which is printed."""
    words = [str(one) for one in arguments]
    print(f"$ harness {shlex.join(words)}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "harness", *words], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
