"""Functions of `import harness` for notebooks and scripts; each does what a command does.

They share the commands' code, folders and defaults: a run that starts here can be resumed, scored
again and put on boards by the command line, and a command's run here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from harness import plugins
from harness.chosen.checkpoints import check_network
from harness.chosen.trained_settings import as_trained
from harness.cli.contamination import contamination_of, print_contamination
from harness.cli.model_choice import model_spec, tell_taken
from harness.cli.progress import LineProgress
from harness.cli.spec_arguments import run_folder
from harness.errors import DataError, UsageError
from harness.leaderboards.gate import differences, same_samples
from harness.leaderboards.row import row
from harness.leaderboards.runs import check_numbers, metrics_for, open_runs, task_of
from harness.model import Model
from harness.record import Run
from harness.run.batching import select
from harness.run.budget import budget as parse_budget
from harness.run.contamination import write_contamination_and_origins
from harness.run.evaluate import evaluate as run_evaluation
from harness.run.external_predictions import Submission
from harness.run.judging import unjudged
from harness.run.options import Options
from harness.run.preflight import preflight
from harness.run.recorded_task import resumed_task
from harness.run.rescore import selected
from harness.run.score import score_file
from harness.run.scoring import Scorer
from harness.run.start_workers import is_built_here
from harness.run.stored_queries import stored_survey
from harness.run.workers import build_model
from harness.scores import Metric, Totals, UnitScore
from harness.spec import Spec, parse
from harness.statistics.paired import Comparison
from harness.statistics.paired import compare as compare_units
from harness.summary import public
from harness.task import Task
from harness.types import Failure, FailureKind, Prediction, Query, Target

__all__ = [
    "ScoredSample",
    "compare",
    "evaluate",
    "load_model",
    "load_task",
    "read_run",
    "read_samples",
    "score",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadedTask(Task):
    """Task that keeps the SPEC it was loaded by, for the records of its runs."""

    spec: Spec
    data_root: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSample:
    """One sample of a finished run: its query, target, prediction and scores."""

    id: str
    """The benchmark's own id."""
    query: Query
    """Input of the model: text, media, options."""
    target: Target | None
    """The ground truth; None where the organisers keep it."""
    prediction: Prediction
    """The answer in pixels of the original image, or the failure."""
    scores: Mapping[str, float]
    """Each metric's number over the sample's unit alone; metrics of a whole corpus are left out."""

    @property
    def responses(self) -> tuple[str, ...]:
        """The model's raw texts, in the order in which they were generated."""
        return self.prediction.responses


def load_task(spec: str, *, data: str | Path = ".") -> Task:
    """Build a task from a SPEC such as `mevis(split=valid_u)`.

    Args:
        spec: A name of `harness list tasks`, with arguments where they differ from the defaults.
        data: The folder with one folder per benchmark; `table(file=…)` needs none.

    Raises:
        UsageError: no such task or argument; the nearest names are given.
        DataError: the benchmark's files are missing or in another layout.
    """
    parsed, root = parse(spec), Path(data)
    task: Task = plugins.build("tasks", parsed, root)
    values = {field.name: getattr(task, field.name) for field in fields(Task)}
    return _LoadedTask(**values, spec=parsed, data_root=root.resolve())


def load_model(spec: str, *, seed: int = 0) -> Model:
    """Build a model from a SPEC such as `pocket(checkpoint=runs/x)`; `predict` takes queries.

    Arguments recorded by the checkpoint's training apply unless the SPEC overrides them.

    Args:
        spec: A name of `harness list models`, with arguments where they differ from the defaults.
        seed: Seed of sampling, unless the SPEC gives one.

    Raises:
        UsageError: no such model or argument; the nearest names are given.
        ModelError: it cannot be loaded.
    """
    resolved = _with_checkpoint_config(spec)
    model = build_model(resolved, seed)
    object.__setattr__(model, "built_from", resolved)  # models are frozen
    return model


def evaluate(
    task: Task,
    model: Model | str,
    *,
    out: str | Path,
    subset: str | None = None,
    name: str | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    workers: int = 1,
    restart: bool = False,
    accept_code: bool = False,
    pilot: int = 0,
    budget: str | None = None,
    as_vendor: bool = False,
) -> Run:
    """Predict and score every sample, or resume an earlier run, like `harness eval`.

    Args:
        task: A task from `load_task`, or one that you built.
        model: A SPEC, or a model: of `load_model`, or one of your own that derives from `Model`.
        out: The folder for runs; this one goes to `out/<model>/<task>`.
        subset: Part of the samples: `first200`, `seed0-200`, or a file of ids.
        name: Name of the model in records and on boards; None: its own name.
        seed: Seed of sampling for a model given as a SPEC; it is recorded.
        batch_size: Queries per batch; None: the model's own.
        workers: Number of processes; more than one need a model given as a SPEC.
        restart: Rename an earlier run in the folder and start again.
        accept_code: Go on with an earlier run although the code of the model's plugins has changed.
        pilot: Number of samples of all lengths to predict first; what the rest takes is estimated
            by them, noted, and kept in `pilot.json`.
        budget: The time (`2h`) or money (`5$`) after which to stop.
        as_vendor: Ask, show and generate as the vendor of a model given as a SPEC does on this
            task; UsageError where it did not publish how.

    Raises:
        BudgetReached: the budget is spent, and samples are left; another call goes on.
        DataError: files of the benchmark are missing or damaged.
        UnsupportedAnswerForm: the model supports the answer form of no sample.
        ResumeMismatch: the folder holds another run.
        UsageError: several workers and a ready model, or a task that needs a judge.
        ModelError: the model is neither a SPEC nor derived from `Model`.
    """
    _check_judge(task)
    if as_vendor and not isinstance(model, str):
        raise UsageError("as_vendor=True", expected="a model given as a SPEC", found="a ready one")
    if workers < 1 or (workers > 1 and not isinstance(model, str)):
        raise UsageError(
            f"workers={workers}",
            expected="1, or more with a SPEC as the model, which each worker builds for itself",
            found=f"{workers} workers and "
            f"{'a SPEC' if isinstance(model, str) else 'a ready model'}",
        )
    model_or_spec: Model | Spec
    spec: Spec | None
    if isinstance(model, str):
        spec = _with_checkpoint_config(model, vendor_tasks=[task.name] if as_vendor else ())
        built_here = is_built_here(spec, Options(workers=workers))
        model_or_spec = build_model(spec, seed) if built_here else spec
        model_spec = str(spec)
    else:
        plugins.check_contract("models", "the model", model)
        spec, model_or_spec = model.built_from, model
        model_spec = str(spec or model.name)
    folder = run_folder(Path(out), name or model_spec, _spec_of(task), subset)
    progress = LineProgress()
    options = Options(
        subset=subset,
        name=name,
        seed=seed,
        batch_size=batch_size,
        workers=workers,
        restart=restart,
        accept_code=accept_code,
        pilot=pilot,
        budget=None if budget is None else parse_budget(budget),
        data_root=_data_root(task),
    )
    task_spec = _spec_of(task)
    if isinstance(task, _LoadedTask) and not restart:
        task = resumed_task(task, task.spec, task.data_root, folder, progress)
    if stored_survey(folder, task, options) is None:
        task = preflight(task, progress, allow_missing=False)
    overlap = None
    if spec is not None:
        overlap = contamination_of(spec, task, subset, folder=folder, anew=restart, strict=False)
    run = run_evaluation(
        task,
        model_or_spec,
        folder,
        options,
        task_spec=task_spec,
        model_spec=model_spec,
        progress=progress,
    )
    if overlap is not None:
        write_contamination_and_origins(run.folder, overlap)
        print_contamination({f"{model_spec} on {task.name}": overlap})
    return run


def score(
    task: Task, predictions: str | Path | Iterable[Prediction], *, subset: str | None = None
) -> dict[str, object]:
    """Score existing predictions; a sample without a prediction is failed.

    Args:
        task: The task to score on.
        predictions: A file in the form of docs/predictions.md, or predictions by `query_id`.
        subset: The samples to score, as in `evaluate`.

    Returns:
        The JSON of `harness score --json` for a task: `headline`, `metrics`, `intervals`, counts.

    Raises:
        DataError: a prediction is malformed, repeated, or belongs to no sample of the task.
    """
    _check_judge(task)
    if isinstance(predictions, (str, Path)):
        file = Path(predictions)
        submission = Submission(
            path=file, name=file.stem, subset=subset, data_root=_data_root(task)
        )
        return public(score_file(task, submission, folder=None, task_spec=_spec_of(task)))
    selection = select(task, subset)
    samples = partial(selection.samples, task)
    by_query = _by_query(task, predictions, {sample.query.id for sample in samples()})
    scorer = Scorer(task, samples)
    scorer.advance(lambda query: by_query.get(query) or _no_prediction(query))
    manifest = {
        "subset": selection.name,
        "seed": 0,
        "config_hash": "",
        "model": {"name": "predictions", "spec": ""},
    }
    return public(scorer.results(manifest))


def read_run(folder: str | Path) -> Run:
    """Open a run: `manifest` holds its configuration, `results` its scores.

    Raises:
        StoreError: the folder is not a run folder, or is of another version.
    """
    return Run.open(Path(folder))


def read_samples(run: Run, task: Task | None = None) -> Iterator[ScoredSample]:
    """Yield the samples of a finished run with predictions and scores, in the task's order.

    Args:
        run: A run that `evaluate` or `read_run` returned.
        task: Task of the evaluation; None: built from the run's record, which needs the
            data where it lay. Give it where the data has moved or the task was built by hand.

    Raises:
        StoreError: the run is not finished, or of another version of the task.
        DataError: the data is not what the run was made on.
    """
    task = task or task_of(run)
    metrics = _metrics_of_units(task, run)
    for unit, scored in zip(selected(task, run), run.units(), strict=True):
        scores = _unit_numbers(metrics, scored)
        for sample in unit:
            yield ScoredSample(
                id=sample.id,
                query=sample.query,
                target=sample.target,
                prediction=run.prediction(sample.id),
                scores=scores,
            )


def compare(
    a: Run | str | Path,
    b: Run | str | Path,
    *,
    metric: str | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare run b with run a on the same samples, and return the paired difference.

    The interval is clustered by image or video, as on boards and in the gate.

    Args:
        a: The first run (the baseline), or its folder.
        b: The second run (the candidate), or its folder.
        metric: The metric to compare; None: the task's headline.
        level: Level of the interval.
        seed: Seed of the resampling.

    Raises:
        UsageError: the runs differ in task, version, split, protocol, subset or data, or there is
            no such metric.
        StoreError: a run is not finished, or its files were changed.
    """
    first, second = _finished_run(a), _finished_run(b)
    before, after = row(first), row(second)
    different = differences(before, after)
    if before.task != after.task:
        different = [f"{before.task} and {after.task}"]
    if different:
        raise UsageError(
            f"{first.folder} and {second.folder}",
            expected="two runs of one task on the same samples",
            found="; ".join(different),
            fix=same_samples(first, second) if before.subset != after.subset else "",
        )
    name = metric or before.headline
    if name not in before.metrics:
        raise UsageError(f"metric {name!r}", expected=" or ".join(before.metrics), found=repr(name))
    first_units, other_units = tuple(first.units()), tuple(second.units())
    metrics = metrics_for(first, first_units, name=name)
    check_numbers(first, first_units, metrics)
    check_numbers(second, other_units, metrics)
    return compare_units(metrics, first_units, other_units, name=name, level=level, seed=seed)


def _with_checkpoint_config(text: str, *, vendor_tasks: Sequence[str] = ()) -> Spec:
    """Add to a model's SPEC what the training of its checkpoint recorded, and check it."""
    parsed = model_spec(text, vendor_tasks=vendor_tasks)
    tell_taken([parsed])
    spec = as_trained(parsed)
    check_network(spec)
    return spec


def _spec_of(task: Task) -> str:
    return str(task.spec) if isinstance(task, _LoadedTask) else task.name


def _data_root(task: Task) -> str:
    return str(task.data_root) if isinstance(task, _LoadedTask) else ""


def _check_judge(task: Task) -> None:
    """Raise UsageError before anything runs if free answers are graded and nobody grades them."""
    rubric = task.protocol.rubric
    if rubric is not None and "judge" not in task.arguments:
        raise unjudged(rubric)


def _by_query(
    task: Task, predictions: Iterable[Prediction], query_ids: set[str]
) -> dict[str, Prediction]:
    """Return predictions by query id.

    Raises:
        DataError: a prediction is repeated, or its id is not in `query_ids`.
    """
    by_query: dict[str, Prediction] = {}
    for prediction in predictions:
        if prediction.query_id not in query_ids or prediction.query_id in by_query:
            problem = "a second one" if prediction.query_id in by_query else "an id of no sample"
            raise DataError(
                f"prediction {prediction.query_id!r}",
                found=problem,
                expected=f"the query id of a sample of {task.name}, split {task.split}, once",
            )
        by_query[prediction.query_id] = prediction
    return by_query


def _no_prediction(query: str) -> Prediction:
    failure = Failure(FailureKind.INFRASTRUCTURE, "no prediction for this sample")
    return Prediction(query_id=query, failure=failure)


def _metrics_of_units(task: Task, run: Run) -> tuple[Metric, ...]:
    """Return the metrics that can be computed over one unit alone.

    They are the protocol's without its corpus metrics, and those that `--metrics` added to the run.
    """
    unit_metrics: dict[str, Metric] = {}
    for metric in task.protocol.metrics:
        if metric.corpus is None and all(name in unit_metrics for name in metric.inputs):
            unit_metrics[metric.name] = metric
    declared = {metric.name for metric in task.protocol.metrics}
    extra_directions = {
        name: better for name, better in run.results["better"].items() if name not in declared
    }
    return (
        *unit_metrics.values(),
        *(Metric(name, better=better) for name, better in extra_directions.items()),
    )


def _unit_numbers(metrics: Sequence[Metric], unit: UnitScore) -> dict[str, float]:
    """Return each metric's number over one unit; a metric that does not count there is left out."""
    names = {metric.name for metric in metrics}
    totals = Totals(tuple(metrics))
    totals.add({name: statistic for name, statistic in unit.scores.items() if name in names})
    return {name: value for name, value in totals.values().items() if value is not None}


def _finished_run(run: Run | str | Path) -> Run:
    """Open one finished run; raise StoreError if its files were changed since it wrote them."""
    folder = run.folder if isinstance(run, Run) else Path(run)
    runs = open_runs(folder)
    if len(runs) > 1:
        raise UsageError(
            f"folder {folder}",
            expected="one run",
            found=f"{len(runs)}",
            fix="Name the folder of one run.",
        )
    return runs[0]
