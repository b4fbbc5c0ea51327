"""Compare runs with test-time adaptation with runs of the same model without it.

`harness board adaptation` calls `reports` with run folders. A `Report` has gains, regressions, cost
and curves by step, read from the run records; `adaptation_tables` prints it. Only the scores of
pseudo-labels and intermediate answers (`texts`) need the benchmark: the run's own model parses them
and the task's protocol scores them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

from harness import plugins
from harness.errors import DataError, UsageError
from harness.leaderboards.adaptation_values import LOSSES, Gain, Report, Settings, Variant
from harness.leaderboards.ranked_table import Key, key
from harness.leaderboards.row import row
from harness.leaderboards.runs import metrics_for, open_runs, task_of
from harness.model import ResponseReader
from harness.record import MANIFEST, Run
from harness.scores import Better, Corpus, Statistic, UnitScore, quotient
from harness.spec import parse
from harness.statistics.paired import compare
from harness.statistics.pseudo import pseudo_values
from harness.store.atomic import read_json
from harness.task import Task
from harness.types import Sample

OFFLINE = "vr_ttrl"
"""Name of the trainer with the same objective on training samples (VR-TTRL, Table 11)."""
NAMED = ("budget", "steps", "rollouts", "single_gen", "seed", "method", "label")
"""Settings that are not added to a variant's name: its method and budget already give them, or
runs of one variant may differ in them."""

Scorer = Callable[[str, str], float | None]
"""Returns the score of a response, by (id of the sample, text of the response)."""


def reports(
    folders: Iterable[Path],
    *,
    metric: str | None = None,
    data_root: Path | None = None,
    score_texts: bool = False,
) -> list[Report]:
    """Return a report for each network, task and data with adapted runs.

    Args:
        folders: Folders of finished runs: adapted ones, runs of the unchanged models, and runs of
            checkpoints that were trained offline with the same objective. The latter belong to the
            network that their training began with, if the training's folder still exists.
        metric: Metric to compare by; None: the headline of each task.
        data_root: Where the benchmarks lie now, if not where the runs read them.
        score_texts: Score pseudo-labels and intermediate answers too.

    Raises:
        UsageError: no run is adapted, or one does not have the metric.
    """
    networks: dict[tuple[str, ...], dict[Key, list[Run]]] = {}
    for run in open_runs(folders):
        of_network = networks.setdefault(_network(run), {})
        of_network.setdefault(key(row(run)), []).append(run)
    all_reports = []
    for benchmarks in networks.values():
        all_settings = [_settings(run) for runs in benchmarks.values() for run in runs]
        if not any(all_settings):
            continue
        names = _names([settings for settings in all_settings if settings])
        all_reports += [
            _report(runs, names, metric=metric, data_root=data_root, score_texts=score_texts)
            for runs in benchmarks.values()
            if any(map(_settings, runs))
        ]
    if not all_reports:
        raise UsageError("--runs", expected="runs of adapted models", found="none of them is")
    return all_reports


def _settings(run: Run) -> Settings | None:
    """Return the settings of a run's adaptation or offline training; None if it had neither."""
    settings: Settings | None = run.manifest["model"]["description"].get("adaptation")
    if settings is not None:
        return settings
    training = row(run).training
    if training is None or training.method.partition("(")[0] != OFFLINE:
        return None
    steps = "" if training.steps is None else f", {training.steps} updates in all"
    return {
        "method": "offline",
        "budget": f"on {', '.join(training.tasks)}{steps}",
        "trainer": training.method,
        "seed": training.seed,
    }


def _network(run: Run) -> tuple[str, ...]:
    """Return checkpoint, weights, prompt and perception models of a run, as texts.

    A checkpoint that was trained offline is replaced by the one that its training began with.
    """
    model = run.manifest["model"]["description"]
    chat = model.get("chat", {})
    weights = chat.get("checkpoint"), chat.get("weights")
    settings = _settings(run)
    if settings is not None and settings["method"] == "offline" and (training := row(run).training):
        path = None if training.place is None else training.place / MANIFEST
        if path is not None and path.is_file():
            base = (read_json(path).get("model") or {}).get("base", {})
            weights = base.get("checkpoint"), base.get("weights")
    model_parts = (model.get("prompt_text"), model.get("segmenter"), model.get("propagator"))
    return tuple(map(str, (*weights, *model_parts)))


def _names(all_settings: Sequence[Settings]) -> dict[str, str]:
    """Return a name for each variant (`_variant`) of a network's adapted runs.

    It has method, budget, and the further settings in which variants of the method differ.
    """
    by_method: dict[str, list[Settings]] = {}
    for settings in all_settings:
        by_method.setdefault(str(settings["method"]), []).append(settings)
    names = {}
    for settings in all_settings:
        peers = by_method[settings["method"]]
        differing = [
            f"{name} {_text(settings[name])}"
            for name in settings
            if name not in NAMED and len({_text(peer.get(name)) for peer in peers}) > 1
        ]
        names[_variant(settings)] = ", ".join(
            [f"{settings['method']}: {settings['budget']}", *differing]
        )
    return names


def _variant(settings: Settings) -> str:
    """Return a key that is equal for runs whose settings differ in the seed alone."""
    return repr(sorted((name, _text(value)) for name, value in settings.items() if name != "seed"))


def _text(value: object) -> str:
    """Return a setting as text; of a mapping, its values joined by `/`."""
    if isinstance(value, Mapping):
        return "/".join(_text(item) for item in value.values())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _report(
    runs: Sequence[Run],
    names: Mapping[str, str],
    *,
    metric: str | None,
    data_root: Path | None,
    score_texts: bool,
) -> Report:
    """Return the report on the runs of one network on one benchmark."""
    base = next((run for run in runs if _settings(run) is None), None)
    first = row(runs[0])
    name = metric or first.headline
    for run in runs:
        metrics = row(run).metrics
        if name not in metrics:
            raise UsageError(
                f"--metric {name}",
                expected=" or ".join(metrics),
                found=f"no metric of that name in {run.folder}",
            )
    variants: dict[str, list[Gain]] = {}
    for run in runs:
        if (settings := _settings(run)) is not None:
            gain = _gain(run, settings, base, name, data_root=data_root, score_texts=score_texts)
            variants.setdefault(names[_variant(settings)], []).append(gain)
    return Report(
        network=_network(runs[0])[0],
        benchmark=" ".join(filter(None, (first.task, first.split, first.subset))),
        samples=first.n_total,
        metric=name,
        base=None if base is None else row(base),
        variants=tuple(
            Variant(name=variant, runs=tuple(sorted(gains, key=lambda gain: gain.seed or 0)))
            for variant, gains in sorted(variants.items(), key=_order)
        ),
    )


def _order(variant: tuple[str, Sequence[Gain]]) -> tuple[object, ...]:
    """Return the sort key of a variant (name, runs): method, updates, rollouts, name."""
    name, gains = variant
    settings = gains[0].settings
    return gains[0].method, settings.get("steps", 0), settings.get("rollouts", 0), name


def _gain(
    run: Run,
    settings: Settings,
    base: Run | None,
    name: str,
    *,
    data_root: Path | None,
    score_texts: bool,
) -> Gain:
    """Compare one adapted run with the run of the unchanged model, paired by unit.

    Args:
        run: The adapted run.
        settings: Settings of its adaptation.
        base: The run of the unchanged model, if there is one.
        name: Name of the metric.
        data_root: Where the benchmark lies now.
        score_texts: Score pseudo-labels and intermediate answers.
    """
    run_row, units = row(run), tuple(run.units())
    comparison, differences, lost = None, None, dict[str, float]()
    if base is not None:
        before = tuple(base.units())
        metrics = metrics_for(run, units, name=name, data_root=data_root)
        comparison = compare(metrics, before, units, name=name)
        run_values, base_values = (
            pseudo_values(metrics, scores, name=name) for scores in (units, before)
        )
        if (
            run_values is not None
            and base_values is not None
            and len(run_values) == len(base_values) > 1
        ):
            differences = run_values - base_values
        lost = _regressions(before, units, name, run_row.better[name])
    predictions = [run.prediction(sample) for unit in units for sample in unit.samples]
    score = (
        _scorer(run, name, data_root) if score_texts and settings["method"] != "offline" else None
    )
    return Gain(
        method=str(settings["method"]),
        row=run_row,
        value=run_row.metrics[name],
        settings=settings,
        comparison=comparison,
        differences=differences,
        regressions=lost,
        seconds=_seconds(run),
        tokens=fmean(prediction.usage.completion_tokens for prediction in predictions),
        rolled_back=sum(
            prediction.adaptation.rolled_back
            for prediction in predictions
            if prediction.adaptation is not None
        ),
        curves=_curves(run, score),
    )


def _regressions(
    before: Sequence[UnitScore], after: Sequence[UnitScore], name: str, better: Better
) -> dict[str, float]:
    """Return the share of units whose metric got worse by more than each limit in `LOSSES`."""
    sign = 1 if better == "higher" else -1
    old_values = {unit.unit: _quotient(unit.scores.get(name)) for unit in before}
    losses = []
    for unit in after:
        old, new = old_values.get(unit.unit), _quotient(unit.scores.get(name))
        if old is not None and new is not None:
            losses.append(sign * (old - new))
    return {f"{limit:g}": fmean(loss > limit for loss in losses) for limit in LOSSES if losses}


def _quotient(statistic: Statistic | None) -> float | None:
    """Return one unit's value of a metric; None if the metric has no values of single units."""
    if statistic is None or isinstance(statistic, Corpus):
        return None
    numerator, denominator = quotient(statistic)
    return numerator / denominator if denominator else None


def _seconds(run: Run, part_name: str | None = None) -> float | None:
    """Return the seconds per sample of the language stage, or of a part; None if not recorded.

    The seconds of all attempts are added.
    """
    attempts = run.timing.get("attempts", [])
    samples = sum(attempt["samples"] for attempt in attempts)
    stages = [attempt.get("stages", {}).get("language", {}) for attempt in attempts]
    if part_name is None:
        by_attempt = [stage.get("seconds") for stage in stages]
    else:
        by_attempt = [stage.get("seconds_by_part", {}).get(part_name) for stage in stages]
    recorded = [seconds for seconds in by_attempt if seconds is not None]
    return sum(recorded) / samples if samples and recorded else None


def _curves(run: Run, score: Scorer | None) -> dict[str, dict[int, float]]:
    """Return the mean of each number by step (from 1), over the samples that recorded it.

    Calls with the keys `@step0#2` and `@after1#0` hold the responses of a step: rollout 2 before
    the first update, and the answer after it.
    """
    values_by_name: dict[str, dict[int, list[float]]] = {}

    def add(name: str, step: int, value: float | None) -> None:
        if value is not None:
            values_by_name.setdefault(name, {}).setdefault(step, []).append(value)

    for unit in run.units():
        for sample in unit.samples:
            prediction = run.prediction(sample)
            if prediction.adaptation is None:
                continue
            responses = {call.key: call.response or "" for call in prediction.calls}
            for index, step in enumerate(prediction.adaptation.steps):
                step_number = index + 1
                if step.rewards:
                    add("reward", step_number, fmean(step.rewards))
                if step.parsed is not None and step.rewards:
                    add("share in the grammar", step_number, step.parsed / len(step.rewards))
                add("agreement", step_number, step.agreement)
                add("reasoning characters", step_number, step.characters)
                add("response tokens", step_number, step.tokens)
                add("entropy", step_number, step.entropy)
                if score is None:
                    continue
                label = responses.get(f"@step{index}#{step.label}")
                if label is not None:
                    add("label score", step_number, score(sample, label))
                after = responses.get(f"@after{step_number}#0")
                if after is not None:
                    add("score after the step", step_number, score(sample, after))
    means = {
        name: {step: fmean(values) for step, values in sorted(steps.items())}
        for name, steps in values_by_name.items()
    }
    longest = max((max(points) for points in means.values()), default=0)
    durations = {step: _seconds(run, f"step {step}") for step in range(1, longest + 1)}
    spent = {step: seconds for step, seconds in durations.items() if seconds is not None}
    if spent:
        means["seconds of the step"] = spent
        means["seconds so far"] = {
            step: sum(spent[earlier] for earlier in spent if earlier <= step) for step in spent
        }
    return means


def _scorer(run: Run, name: str, data_root: Path | None) -> Scorer:
    """Return a function that scores a text as if it were the response, by a metric."""
    task: Task = task_of(run, data_root)
    samples: dict[str, Sample] = {sample.id: sample for sample in task.samples()}
    reader = plugins.build("models", parse(run.manifest["model"]["spec"]))
    if not isinstance(reader, ResponseReader):
        raise DataError(f"run {run.folder}", expected="a model that reads responses", found="none")

    @cache
    def read(sample_id: str, text: str) -> float | None:
        sample = samples[sample_id]
        prediction = replace(
            reader.read(sample.query, [text], run.prediction(sample_id).calls), notes=()
        )
        return _quotient(task.protocol.score([sample], [prediction]).get(name))

    return read
