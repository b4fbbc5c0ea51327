"""Test-time adaptation against the model as it is: gains, regressions, cost, and curves by step.

Everything is read from run records. What a pseudo-label or an answer in between is worth needs the
benchmark too: such texts are read by the run's own model and scored by the task's protocol.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from harness import plugins
from harness.errors import DataError, UsageError
from harness.leaderboards.formatting import number, p_value, signed_number, signed_span
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import metrics_for, open_runs, task_of
from harness.model import ResponseReader
from harness.record import TIMING, Run
from harness.scores import Corpus, UnitScore, quotient
from harness.spec import parse
from harness.statistics.paired import Comparison, compare
from harness.store.atomic import read_json
from harness.task import Task
from harness.types import Prediction, Sample

LOSSES = (0.0, 0.01, 0.05, 0.1)
"""Losses of a sample that count as regressions: more than each of these (VR-TTRL, Table 6)."""
SETTINGS = ("steps", "rollouts", "temperature", "learning_rate", "finetune", "thresholds", "seed")
"""Settings of a method that a table shows, where it has them."""
LABELLED = {"rate": "learning_rate", "seed": "seed"}
"""Numbers of a method that name its curves."""
Scorer = Callable[[str, str, Prediction], float | None]
"""Score of a text as the response to a sample (by its id), with the prediction it belongs to."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One adapted run against the run of the model as it is."""

    method: str
    row: Row
    settings: Mapping[str, Any]
    comparison: Comparison | None
    """Paired by sample; None where there is no run of the model as it is."""
    regressions: Mapping[str, float]
    """Share of samples that lost more than each of `LOSSES`, by that limit."""
    seconds: float | None
    """Seconds of the language stage a sample, adaptation included."""
    tokens: float
    """Tokens that were generated a sample, rollouts included."""
    rolled_back: int
    """Updates that were not made because they were no numbers, over all samples."""


@dataclass(frozen=True, kw_only=True)
class StepCurves:
    """Means over the samples of a run by step: from 1 on, before the step's update."""

    name: str
    curves: Mapping[str, Mapping[int, float]]
    """Numbers by step, by what they are."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Gains and curves of adapted runs, of one task and data."""

    title: str
    headline: str
    base: str | None
    """Name of the run of the model as it is."""
    gains: tuple[Gain, ...]
    curves: tuple[StepCurves, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "title": self.title,
            "headline": self.headline,
            "base": self.base,
            "runs": [
                {
                    "run": one.row.run,
                    "model": one.row.model_spec,
                    "method": one.method,
                    "settings": dict(one.settings),
                    "value": one.row.value,
                    "interval": one.row.interval,
                    "answered": one.row.answered_share,
                    "gain": None if one.comparison is None else one.comparison.to_json(),
                    "regressions": dict(one.regressions),
                    "seconds": one.seconds,
                    "tokens": one.tokens,
                    "rolled_back": one.rolled_back,
                }
                for one in self.gains
            ],
            "curves": [asdict(one) for one in self.curves],
        }


def reports(
    folders: Iterable[Path], *, data_root: Path | None = None, texts: bool = False
) -> list[Report]:
    """Return a report for each model and task that adapted runs were made of.

    Args:
        folders: Where finished runs lie: adapted ones, and those of the models as they are.
        data_root: Where the benchmarks lie now, if not where the runs read them.
        texts: Score pseudo-labels and answers in between, too.

    Raises:
        UsageError: no run is adapted.
    """
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in open_runs(folders):
        found.setdefault(_key(run), []).append(run)
    made = [
        _report(runs, data_root=data_root, texts=texts)
        for runs in found.values()
        if any(map(_adaptation, runs))
    ]
    if not made:
        raise UsageError("--runs", expected="runs of adapted models", found="none of them is")
    return made


def _adaptation(run: Run) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = run.manifest["model"]["description"].get("adaptation")
    return found


def _key(run: Run) -> tuple[str, ...]:
    """Return what must be equal for a gain: task, data, network, words and perception."""
    made, model = row(run), run.manifest["model"]["description"]
    chat = model.get("chat", {})
    asked = (model.get("prompt_text"), model.get("segmenter"), model.get("propagator"))
    decided = (chat.get("checkpoint"), chat.get("weights"), *asked)
    return (made.task, made.split, made.protocol, made.subset or "", made.data, *map(str, decided))


def _report(runs: Sequence[Run], *, data_root: Path | None, texts: bool) -> Report:
    plain = [run for run in runs if _adaptation(run) is None]
    base = plain[0] if plain else None
    gains, curves = [], []
    for run in runs:
        if _adaptation(run) is None:
            continue
        gains.append(_gain(run, base, data_root))
        curves.append(_curves(run, _scorer(run, data_root) if texts else None))
    first = gains[0].row
    network = runs[0].manifest["model"]["description"].get("chat", {}).get("checkpoint", "")
    return Report(
        title=f"{first.task} {first.split}, {network}",
        headline=first.headline,
        base=None if base is None else row(base).run,
        gains=tuple(gains),
        curves=tuple(one for one in curves if one.curves),
    )


def _gain(run: Run, base: Run | None, data_root: Path | None) -> Gain:
    made, units, adapted = row(run), tuple(run.units()), _adaptation(run) or {}
    comparison, lost = None, dict[str, float]()
    if base is not None:
        before = tuple(base.units())
        metrics = metrics_for(run, units, name=made.headline, data_root=data_root)
        comparison = compare(metrics, before, units, name=made.headline)
        lost = _regressions(before, units, made)
    predictions = [run.prediction(name) for unit in units for name in unit.samples]
    return Gain(
        method=str(adapted["method"]),
        row=made,
        settings={name: adapted[name] for name in SETTINGS if name in adapted},
        comparison=comparison,
        regressions=lost,
        seconds=_seconds(run),
        tokens=fmean(one.usage.completion_tokens for one in predictions),
        rolled_back=sum(
            one.adaptation.rolled_back for one in predictions if one.adaptation is not None
        ),
    )


def _regressions(
    before: Sequence[UnitScore], after: Sequence[UnitScore], made: Row
) -> dict[str, float]:
    """Return the share of units whose headline got worse by more than each limit."""
    sign = 1 if made.better[made.headline] == "higher" else -1
    then = {unit.unit: _value(unit, made.headline) for unit in before}
    losses = [
        sign * (then[unit.unit] - value)
        for unit in after
        if (value := _value(unit, made.headline)) is not None and then.get(unit.unit) is not None
    ]
    return {f"{limit:g}": fmean(loss > limit for loss in losses) for limit in LOSSES if losses}


def _value(unit: UnitScore, name: str) -> Any:
    statistic = unit.scores.get(name)
    if statistic is None or isinstance(statistic, Corpus):
        return None
    above, below = quotient(statistic)
    return above / below if below else None


def _seconds(run: Run) -> float | None:
    """Return the seconds of the language stage a sample, over all attempts; None: not recorded."""
    path = run.folder / TIMING
    if not path.is_file():
        return None
    attempts = read_json(path).get("attempts", [])
    samples = sum(one["samples"] for one in attempts)
    stages = [one["stages"].get("language", {}).get("seconds") for one in attempts]
    known = [seconds for seconds in stages if seconds is not None]
    return sum(known) / samples if samples and known else None


def _curves(run: Run, score: Scorer | None) -> StepCurves:
    """Return the means of every number by step, over the samples that have it."""
    found: dict[str, dict[int, list[float]]] = {}

    def add(name: str, step: int, value: float | None) -> None:
        if value is not None:
            found.setdefault(name, {}).setdefault(step, []).append(value)

    for unit in run.units():
        for sample in unit.samples:
            prediction = run.prediction(sample)
            if prediction.adaptation is None:
                continue
            said = {call.key: call.response or "" for call in prediction.calls}
            for place, step in enumerate(prediction.adaptation.steps):
                number_ = place + 1
                if step.rewards:
                    add("reward", number_, fmean(step.rewards))
                if step.parsed is not None and step.rewards:
                    add("share in the grammar", number_, step.parsed / len(step.rewards))
                add("agreement", number_, step.agreement)
                add("reasoning characters", number_, step.characters)
                add("response tokens", number_, step.tokens)
                add("entropy", number_, step.entropy)
                if score is None:
                    continue
                label = said.get(f"@step{place}#{step.label}")
                if label is not None:
                    add("label score", number_, score(sample, label, prediction))
                after = said.get(f"@after{number_}#0")
                if after is not None:
                    add("score after the step", number_, score(sample, after, prediction))
    means = {
        name: {step: fmean(values) for step, values in sorted(steps.items())}
        for name, steps in found.items()
    }
    return StepCurves(name=_label(run), curves=means)


def _label(run: Run) -> str:
    """Return method, budget, learning rate and seed of an adapted run, as far as it has them."""
    found = _adaptation(run) or {}
    named = [f"{name} {found[key]:g}" for name, key in LABELLED.items() if key in found]
    return ", ".join([f"{found['method']}: {found['budget']}", *named])


def _scorer(run: Run, data_root: Path | None) -> Scorer:
    """Return a function that scores a text as if it were the response, by the headline."""
    task: Task = task_of(run, data_root)
    headline = task.protocol.headline
    samples: dict[str, Sample] = {sample.id: sample for sample in task.samples()}
    reader = plugins.build("models", parse(run.manifest["model"]["spec"]))
    if not isinstance(reader, ResponseReader):
        raise DataError(f"run {run.folder}", expected="a model that reads responses", found="none")

    @cache
    def read(sample: str, text: str) -> float | None:
        one = samples[sample]
        prediction = replace(reader.read(one.query, [text], run.prediction(sample).calls), notes=())
        statistic = task.protocol.score([one], [prediction]).get(headline)
        if statistic is None or isinstance(statistic, Corpus):
            return None
        above, below = quotient(statistic)
        return above / below if below else None

    return lambda sample, text, prediction: read(sample, text)


def to_markdown(found: Sequence[Report]) -> str:
    """Return the tables of gains, regressions and cost, and of the numbers by step."""
    parts = ["# Test-time adaptation\n"]
    for report in found:
        parts.append(f"## {report.title}\n")
        parts.append(_gain_table(report))
        parts += [_step_table(one) for one in report.curves if one.curves]
    return "\n".join(parts)


def _gain_table(report: Report) -> str:
    losses = [f"worse > {limit:.0%}" for limit in LOSSES]
    head = ["method", "budget", "rate", "seed", report.headline, "gain", "95 %", "p", *losses]
    rows = [[*head, "s a sample", "tokens a sample"]]
    for one in report.gains:
        versus = one.comparison
        budget = (one.row.adaptation or "").partition(": ")[2]
        rows.append(
            [
                one.method,
                budget,
                f"{one.settings['learning_rate']:g}" if "learning_rate" in one.settings else "–",
                str(one.settings.get("seed", "–")),
                number(one.row.value),
                signed_number(None if versus is None else versus.difference),
                signed_span(None if versus is None else versus.interval),
                "" if versus is None else p_value(versus),
                *(f"{one.regressions.get(f'{limit:g}', 0.0):.0%}" for limit in LOSSES),
                "–" if one.seconds is None else f"{one.seconds:.2f}",
                f"{one.tokens:.0f}",
            ]
        )
    return _table(rows)


def _step_table(one: StepCurves) -> str:
    steps = sorted({step for points in one.curves.values() for step in points})
    rows = [[one.name, *(f"step {step}" for step in steps)]]
    for name, points in one.curves.items():
        rows.append([name, *(number(points.get(step)) for step in steps)])
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]]) + "\n"
