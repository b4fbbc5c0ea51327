"""Changes by trainings, from their run folders: paired over samples, with several seeds."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np
from studies import BUDGETS, CONTROL, METHOD, THRESHOLDS, TOKENS, Measure, Study

from harness.leaderboards.runs import metrics_for, open_runs, task_of
from harness.record import Run
from harness.run.batching import samples_of
from harness.scores import Mean, Metric, UnitScore
from harness.statistics.paired import check_same_units
from harness.statistics.pseudo import pseudo_values
from harness.statistics.variance import SeededScore, seeded_score
from harness.trainer import Curve
from harness.trainers.videoseg_r1.budgets import NAMES, budgets_of
from harness.trainers.videoseg_r1.difficulty import geometric_rating
from harness.trainers.visionreasoner.objects import key_frame

Evaluated: TypeAlias = Mapping[str, Run]
"""The held-out runs of one checkpoint, by the task's SPEC."""

OF_TRAINING = re.compile(
    r"reward|rewards/[^/]+|(think|second)_length|completions/mean_length|kl|(answer_)?entropy|"
    r"frac_groups_\w+|grad_norm"
)
"""Columns of a curve that are kept. TRL's own say the rewards' means once more."""
REWARD = ("rewards/method_total", "reward")
"""The method's reward: with random rewards it is logged beside what is learned from."""
QUARTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Difference of one recipe from another on a measure."""

    over: str
    arm: str
    score: SeededScore


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure: where training began, where each arm ended, and the gains."""

    measure: Measure
    samples: int
    start: float
    ends: Mapping[str, tuple[float, ...]]
    """A number a seed."""
    gains: tuple[Gain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Logged numbers of one training: means over the first and the last quarter of its steps."""

    steps: int
    averaged: int
    """Steps in a quarter."""
    first: Mapping[str, float]
    last: Mapping[str, float]
    seconds_a_step: float | None
    """Seconds of the whole training by its steps, loading and held-out evaluations included."""
    commit: str | None
    dirty: bool | None
    """True if files differed from the commit; what is finished is not made again by newer code."""
    devices: tuple[str, ...]


def course_of(folder: Path) -> Course:
    """The course of the finished training in a folder."""
    curve = Curve(folder / "curve.jsonl").read()
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    seconds, steps = manifest.get("seconds"), max((row["step"] for row in curve), default=0)
    averaged = max(1, steps // QUARTER)
    made = manifest.get("provenance", {})
    return Course(
        steps=steps,
        averaged=averaged,
        first=_means(row for row in curve if row["step"] <= averaged),
        last=_means(row for row in curve if row["step"] > steps - averaged),
        seconds_a_step=seconds / steps if seconds and steps else None,
        commit=made.get("commit"),
        dirty=made.get("dirty"),
        devices=tuple(manifest.get("devices", ())),
    )


def _means(logged_rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each kept column, over the rows where it is a finite number."""
    found: dict[str, list[float]] = {}
    for row in logged_rows:
        for name, value in row.items():
            if OF_TRAINING.fullmatch(name) and math.isfinite(value):
                found.setdefault(name, []).append(value)
    return {name: fmean(several) for name, several in found.items()}


def evaluated(folder: Path) -> dict[str, Run]:
    """The finished runs below a folder, by the SPEC of their task."""
    return {run.manifest["task"]["spec"]: run for run in open_runs(folder)}


def rows(study: Study, start: Evaluated, arms: Mapping[str, Sequence[Evaluated]]) -> Iterator[Row]:
    """Every measure of a study that has samples.

    Args:
        study: What was trained.
        start: The held-out runs of the checkpoint that training began with.
        arms: Those of each arm, a seed each; every arm has the same seeds in the same order.
    """
    for measure in study.measures:
        kept = chosen(measure, start[measure.task])
        units = [unit for unit in start[measure.task].units() if kept(unit)]
        if len({unit.group for unit in units}) < 2:
            continue
        first = stand_ins(measure, start[measure.task], kept)
        ends = {
            arm: [stand_ins(measure, one[measure.task], kept) for one in several]
            for arm, several in arms.items()
        }
        yield Row(
            measure=measure,
            samples=len(units),
            start=float(first.mean()),
            ends={arm: tuple(float(one.mean()) for one in each) for arm, each in ends.items()},
            gains=tuple(_gains(first, ends)),
        )


def _gains(first: Any, ends: Mapping[str, Sequence[Any]]) -> Iterator[Gain]:
    """Yield gains of the method over each other arm and the start, and of the control over that."""
    for arm in ends:
        if arm != METHOD and METHOD in ends:
            yield Gain(over=arm, arm=METHOD, score=gain(ends[METHOD], ends[arm]))
    for arm in (METHOD, CONTROL):
        if arm in ends:
            yield Gain(over="start", arm=arm, score=gain(ends[arm], [first] * len(ends[arm])))


def gain(after: Sequence[Any], before: Sequence[Any]) -> SeededScore:
    """The mean difference, with its interval over samples (clustered) and training seeds.

    Args:
        after: One array of stand-ins a seed, groups in the same order.
        before: The same of what it is compared with, seed by seed.
    """
    table = np.stack([a - b for a, b in zip(after, before, strict=True)], axis=1)
    return seeded_score(table[:, :, None])


def stand_ins(measure: Measure, run: Run, kept: Callable[[UnitScore], bool]) -> Any:
    """One number a group (image) of a run, whose mean is the measure's number."""
    every = list(run.units())
    units = [unit for unit in every if kept(unit)]
    if measure.metric == TOKENS:
        metrics: tuple[Metric, ...] = (Metric(TOKENS, better="lower"),)
        units = [replace(unit, scores={TOKENS: Mean(_tokens(run, unit))}) for unit in units]
    else:
        metrics = metrics_for(run, every, name=measure.metric)
    found = pseudo_values(metrics, units, name=measure.metric)
    assert found is not None, f"{measure.metric} of {run.folder} has no number"
    return found


def chosen(measure: Measure, run: Run) -> Callable[[UnitScore], bool]:
    """Return a function that tells the units that a measure counts."""
    if measure.level:
        levels = difficulty(run)
        return lambda unit: levels[unit.samples[0]] == measure.level
    if measure.kinds:
        return lambda unit: unit.categories["kind"] in measure.kinds
    return lambda unit: True


def difficulty(run: Run) -> dict[str, str]:
    """The level of every sample of a run, by its id; of a video, of its middle frame."""
    budgets = budgets_of(BUDGETS, THRESHOLDS)
    names = NAMES[len(budgets.tokens)]
    return {
        sample.id: names[budgets.level(geometric_rating(sample, key_frame(sample)).score)]
        for sample in samples_of(task_of(run))
    }


def same_samples(start: Evaluated, arms: Mapping[str, Sequence[Evaluated]]) -> None:
    """Raise DataError unless all runs of a task hold the same units."""
    for task, run in start.items():
        units = list(run.units())
        for several in arms.values():
            for one in several:
                check_same_units(units, list(one[task].units()))


def _tokens(run: Run, unit: UnitScore) -> float:
    return fmean(run.prediction(sample).usage.reasoning_tokens for sample in unit.samples)


def table(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Rows as `plain` gives them in markdown: means over seeds, and gains with 95 % intervals."""
    arms = list(dict.fromkeys(arm for row in found for arm in row["ends"]))
    heads = [f"{one['arm']} − {one['over']}" for row in found[:1] for one in row["gains"]]
    yield "| held out | n | start | " + " | ".join([*arms, *heads]) + " |"
    yield "|---|---|---|" + "---|" * (len(arms) + len(heads))
    for row in found:
        digits = 1 if row["measure"].startswith(TOKENS) else 3
        cells = [row["measure"], str(row["n"]), f"{row['start']:.{digits}f}"]
        cells += [f"{fmean(row['ends'][arm]):.{digits}f}" for arm in arms]
        cells += [
            "{:+.{d}f} ({:+.{d}f} to {:+.{d}f})".format(one["value"], *one["interval"], d=digits)
            for one in row["gains"]
        ]
        yield "| " + " | ".join(cells) + " |"


def plain(found: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data."""
    return [
        {
            "measure": row.measure.title,
            "task": row.measure.task,
            "n": row.samples,
            "start": row.start,
            "ends": {arm: list(each) for arm, each in row.ends.items()},
            "gains": [
                {
                    "arm": one.arm,
                    "over": one.over,
                    "value": one.score.value,
                    "interval": list(one.score.interval),
                    "intervals_over": list(one.score.over),
                }
                for one in row.gains
            ],
        }
        for row in found
    ]


def training_table(courses: Mapping[str, Sequence[Course]]) -> Iterator[str]:
    """Return each arm's mean reward in training over seeds, as markdown."""
    averaged = next(one.averaged for several in courses.values() for one in several)
    yield f"| in training | first {averaged} steps | last {averaged} steps | seconds a step |"
    yield "|---|---|---|---|"
    for arm, several in courses.items():
        ends = [
            _mean([_reward(means) for means in each])
            for each in ([one.first for one in several], [one.last for one in several])
        ]
        seconds = _mean([one.seconds_a_step for one in several], digits=1)
        yield f"| reward, {arm} | {' | '.join(ends)} | {seconds} |"
    yield ""
    yield "Of random rewards, what the method would have paid; of other arms, what they are paid."


def _reward(means: Mapping[str, float]) -> float | None:
    return next((means[name] for name in REWARD if name in means), None)


def _mean(values: Iterable[float | None], *, digits: int = 3) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.{digits}f}" if known else "–"


def plain_courses(courses: Mapping[str, Sequence[Course]]) -> dict[str, list[dict[str, Any]]]:
    """The courses as plain data, a seed each."""
    return {arm: [asdict(one) for one in several] for arm, several in courses.items()}


def logged(folder: Path, *names: str) -> dict[int, float]:
    """The first of some numbers that the curve of a training has, by step."""
    rows_of = Curve(folder / "curve.jsonl").read()
    name = next((one for one in names if any(one in row for row in rows_of)), None)
    return {row["step"]: float(row[name]) for row in rows_of if name is not None and name in row}
