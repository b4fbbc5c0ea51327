"""Several runs of one model on one task: variance between seeds, and the mean score over them.

Runs of one checkpoint with several decoding seeds are repeats; checkpoints of one recipe with
several training seeds are trainings. A single run's interval holds for its checkpoint alone.
`repeats` reads run folders and returns `Repeats` (`harness runs repeats`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.errors import DataError, UsageError
from harness.leaderboards.differences.changed import plugin_changes
from harness.leaderboards.ranked_table import key
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import check_numbers, metrics_for, open_runs
from harness.record import WORDS_TEXT, Run, differences
from harness.scores import Mean, Metric, UnitScore
from harness.statistics.analytic import Estimate, clustered_mean
from harness.statistics.clusters import FloatArray
from harness.statistics.paired import check_same_units
from harness.statistics.pseudo import pseudo_values
from harness.statistics.repeats import best_of_k
from harness.statistics.variance import Components, SeededScore, components, seeded_score

Units: TypeAlias = tuple[UnitScore, ...]

OF_DECODING = frozenset({"seed"})
"""Keys of a model's description in which repeats of one checkpoint may differ."""
OF_TRAINING = frozenset({"weights", "checkpoint", "revision", "content", "file"})
"""Keys of a model's description in which checkpoints of one recipe may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """One metric over several runs of one model on one task."""

    task: str
    metric: str
    runs: Mapping[str, tuple[str, ...]]
    """The run folders, by training."""
    values: Mapping[str, tuple[float, ...]]
    """The metric's numbers, in the same order."""
    score: SeededScore
    """avg@k: the mean over all runs, with an interval over samples and seeds."""
    components: Components
    best: Mapping[int, Estimate]
    """Expected best of k decodings of a unit, by k (1, 2, 4, … and all); pass@k if scores are 0 or
    1. Empty for metrics without a number for a unit. The interval is clustered, over samples."""
    binary: bool
    """True if every unit's scores are 0 or 1, so that `best` is pass@k."""
    notes: tuple[str, ...]


def repeats(
    runs: Path | Iterable[Path], *, metric: str | None = None, data_root: Path | None = None
) -> Repeats:
    """Read runs that differ in their seeds alone.

    Args:
        runs: Run folders, or folders of them. Runs whose models' descriptions are equal, except
            for `seed`, are of one training. Each training needs equally many runs.
        metric: Name of the metric; None: the headline.
        data_root: Where the benchmarks lie now; needed only for derived and corpus metrics.

    Raises:
        DataError: the runs are of different tasks, protocols, subsets, data or models, do not
            hold the same units, or a run has no number.
        UsageError: a training is decoded less often than another, two runs are the same model
            with the same seed, or there is no such metric.
        StoreError: a folder holds no finished run.
    """
    all_runs = open_runs(runs)
    _check_alike([row(run) for run in all_runs])
    trainings = _runs_by_training(all_runs)
    _check_balanced(trainings)
    ordered_runs = [run for members in trainings.values() for run in members]
    rows = [row(run) for run in ordered_runs]
    units = [tuple(run.units()) for run in ordered_runs]
    for run_units in units[1:]:
        check_same_units(units[0], run_units)
    name = rows[0].headline if metric is None else metric
    if name not in rows[0].metrics:
        raise UsageError(f"metric {name!r}", expected=" or ".join(rows[0].metrics), found="none")
    shape = len(trainings), len(ordered_runs) // len(trainings)
    metrics = metrics_for(ordered_runs[0], units[0], name=name, data_root=data_root)
    for run, run_units in zip(ordered_runs, units, strict=True):
        check_numbers(run, run_units, metrics)
    table = _table(metrics, units, name)
    split = components(table.reshape(-1, *shape))
    numbers = np.array([run_row.metrics[name] for run_row in rows], dtype=np.float64).reshape(shape)
    scores = _unit_scores(units, name, shape)
    best = {}
    if scores is not None:
        values, weights, groups = scores
        for k in _up_to(shape[1]):
            per_training = [
                best_of_k(training_values, k=k, better=rows[0].better[name])
                for training_values in values.swapaxes(0, 1)
            ]
            mean = np.mean(per_training, axis=0)  # over trainings
            best[k] = clustered_mean(mean, groups, weights=weights)
    return Repeats(
        task=f"{rows[0].task} {rows[0].split}",
        metric=name,
        runs={
            training: tuple(str(run.folder) for run in members)
            for training, members in trainings.items()
        },
        values=dict(zip(trainings, map(tuple, numbers.tolist()), strict=True)),
        score=seeded_score(table.reshape(-1, *shape)),
        components=split,
        best=best,
        binary=scores is not None and bool(np.isin(scores[0], (0, 1)).all()),
        notes=tuple(_component_notes(split)),
    )


def _runs_by_training(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs by training, that is, by their models' descriptions without decoding seeds.

    A training is named by its model's SPEC, with a number if several have the same.

    Raises:
        UsageError: two runs have the same training and seed.
        DataError: the trainings are not of one recipe.
    """
    trainings: dict[str, list[Run]] = {}
    seeds: dict[tuple[str, str], Run] = {}
    # Records of earlier versions lack the requests in words.
    is_earlier = any(WORDS_TEXT not in _model_text(run.manifest["model"]) for run in runs)
    left_out = frozenset({WORDS_TEXT} if is_earlier else ())
    for run in runs:
        model = run.manifest["model"]
        training = _model_text(model, left_out | OF_DECODING)
        decoding = json.dumps([run.manifest["seed"], _model_text(model, left_out)])
        if (training, decoding) in seeds:
            raise UsageError(
                "repeats",
                expected="runs with a decoding seed of their own",
                found=f"{seeds[training, decoding].folder} and {run.folder} with seed "
                f"{run.manifest['seed']}",
            )
        seeds[training, decoding] = run
        trainings.setdefault(training, []).append(run)
    _check_one_recipe(runs, left_out | OF_DECODING | OF_TRAINING)
    labelled: dict[str, list[Run]] = {}
    for members in trainings.values():
        label = members[0].manifest["model"]["spec"]
        # A checkpoint that was trained again in the same folder has the same SPEC.
        twins = sum(name.partition(" #")[0] == label for name in labelled)
        labelled[f"{label} #{twins + 1}" if twins else label] = members
    return labelled


def _check_one_recipe(runs: Sequence[Run], without: frozenset[str]) -> None:
    """Raise DataError unless all models are equal without the keys `without`, and their code is."""
    recipes = list(dict.fromkeys(_model_text(run.manifest["model"], without) for run in runs))
    if len(recipes) > 1:
        first, second, *_ = recipes
        raise DataError(
            "repeats",
            expected="runs of one model, which differ in seeds and weights only",
            found="; ".join(differences(json.loads(first), json.loads(second))[:5]),
        )
    for run in runs[1:]:
        code = (runs[0].manifest["provenance"], run.manifest["provenance"])
        if lines := list(plugin_changes(*code)):
            raise DataError(
                "repeats",
                expected="runs of one model, whose plugins have the same code",
                found=f"{runs[0].folder} and {run.folder}: {lines[0]}",
            )


def _model_text(model: Mapping[str, object], without: frozenset[str] = frozenset()) -> str:
    """Return a model's description as text, without the keys `without` at any depth."""

    def without_keys(plain: object) -> Any:
        if isinstance(plain, Mapping):
            return {
                name: without_keys(value) for name, value in plain.items() if name not in without
            }
        return [without_keys(value) for value in plain] if isinstance(plain, list) else plain

    text = {"name": model["name"], **without_keys(model["description"])}
    if not model["description"] and not without >= OF_TRAINING:
        text["spec"] = model["spec"]
    return json.dumps(text, sort_keys=True)


def _check_alike(rows: Sequence[Row]) -> None:
    """Raise DataError if rows are of different tasks, protocols, judges, subsets or data."""
    names = ("task", "version", "split", "protocol", "judge", "subset", "data")
    for run_row in rows[1:]:
        pairs = zip(names, key(rows[0]), key(run_row), strict=True)
        unlike = [
            f"{name}: {first!r} → {second!r}" for name, first, second in pairs if first != second
        ]
        if unlike:
            raise DataError(
                f"runs {rows[0].run} and {run_row.run}",
                expected="one task by one protocol on the same data",
                found="; ".join(unlike),
            )


def _check_balanced(trainings: Mapping[str, Sequence[Run]]) -> None:
    """Raise UsageError unless there are two runs or more, equally many of each training."""
    n_by_training = {name: len(members) for name, members in trainings.items()}
    if len(set(n_by_training.values())) > 1 or sum(n_by_training.values()) < 2:
        raise UsageError(
            "repeats",
            expected="at least two runs, equally many of each training",
            found=", ".join(f"{count} of {name}" for name, count in n_by_training.items()),
        )


def _table(metrics: Sequence[Metric], units: Sequence[Units], name: str) -> FloatArray:
    """Return (groups, runs) pseudo-values; the mean of a column is the run's number.

    Raises:
        DataError: a run has no number, or only one group.
    """
    columns: list[FloatArray] = []
    for number, run_units in enumerate(units):
        values = pseudo_values(metrics, run_units, name=name)
        if values is None or len(values) < 2:
            raise DataError(
                f"{name} of run {number + 1}",
                expected="a number, from two groups on",
                found="none, or one group",
            )
        columns.append(values)
    return np.stack(columns, axis=1)


def _unit_scores(
    units: Sequence[Units], name: str, shape: tuple[int, int]
) -> tuple[FloatArray, tuple[float, ...], tuple[str, ...]] | None:
    """Return a metric's (units, trainings, decodings) scores, the units' weights and groups.

    None unless the metric is a mean, and all runs have scores of the same units with the same
    weights, in two groups or more.
    """
    columns: list[list[Mean]] = []
    units_of_runs: set[tuple[tuple[str, str, float], ...]] = set()
    for run in units:
        scored = [
            (unit, score)
            for unit in sorted(run, key=lambda unit: unit.unit)
            if isinstance(score := unit.scores.get(name), Mean)
        ]
        columns.append([score for _, score in scored])
        units_of_runs.add(tuple((unit.unit, unit.group, score.weight) for unit, score in scored))
    if len(units_of_runs) > 1:
        return None
    common_units = units_of_runs.pop()
    if len({group for _, group, _ in common_units}) < 2:
        return None
    values = np.array([[score.value for score in column] for column in columns]).T
    _, groups, weights = zip(*common_units, strict=True)
    return values.reshape(-1, *shape), weights, groups


def _up_to(decodings: int) -> list[int]:
    """Return 1, 2, 4, … up to the number of decodings, and this number."""
    return sorted({2**power for power in range(decodings.bit_length())} | {decodings})


def _component_notes(split: Components) -> list[str]:
    notes = [
        f"the estimated variance of {name.replace('_', ' × ')} was below 0 and is given as 0"
        for name in split.clipped
    ]
    if split.trainings == 1:
        notes.append("one training: the interval speaks for this checkpoint, not for the recipe")
    if split.decodings == 1:
        notes.append("one decoding of each training: its noise is counted as the training's")
    return notes
