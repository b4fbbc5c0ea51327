"""The pairs of `harness eval`: run each model on each task, and return how each run ended.

A pair that cannot be run does not stop the others; `harness.cli.evaluate` prints the outcomes.
"""

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.chosen.checkpoints import lacking_parts
from harness.chosen.names import named_models
from harness.chosen.trained_settings import as_trained
from harness.cli import progress as terminal
from harness.cli.against import against
from harness.cli.contamination import contamination_of, print_contamination
from harness.cli.judge import judge_for
from harness.errors import BudgetReached, PartNotChosen, Unavailable, UnsupportedAnswerForm
from harness.judge import Judge
from harness.leaderboards.differences.against import Against, write_decision
from harness.model import Model
from harness.record import Run
from harness.run.batching import select
from harness.run.contamination import Contamination, write_contamination_and_origins
from harness.run.distributed import ProcessRank
from harness.run.evaluate import evaluate as run_evaluation
from harness.run.judging import bind_judge
from harness.run.options import Options, Progress, TitledProgress
from harness.run.preflight import preflight
from harness.run.recorded_task import resumed_task
from harness.run.sample_cache import read_once
from harness.run.start_workers import is_built_here
from harness.run.stored_queries import stored_survey
from harness.run.workers import build_model
from harness.spec import Spec
from harness.summary import public
from harness.task import Task
from harness.types import FailureKind

CLASSICAL_PARTS = {"segmenter": "grabcut", "propagator": "flow"}
"""Parts without weights, suggested where a model lacks a part."""


class Ending(StrEnum):
    """End of the run of a model on a task; the value is the key of its message in the JSON."""

    SCORED = "scored"
    UNFINISHED = "unfinished"  # decided (`--until-decided`), or other shares are missing
    REFUSED = "refused"  # the model cannot do the task
    UNAVAILABLE = "lost"  # the infrastructure failed
    FAILED = "failed"  # the model failed on every sample
    STOPPED = "stopped"  # the budget is reached


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """The outcome of a model on a task: public results, or the message why there are none."""

    ending: Ending
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Results of a scored run; the decision or the share of an unfinished one."""
    message: str = ""
    """Why the run has no scores; empty if it is scored or unfinished."""

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as it is printed with `--json`."""
        return {self.ending.value: self.message} if self.message else dict(self.fields)


def evaluate_pairs(
    arguments: Namespace,
    folders: Mapping[tuple[str, str], Path],
    models: Sequence[Spec],
    requested: Sequence[tuple[str, Spec, Task]],
    options: Options,
    launch: ProcessRank | None,
) -> dict[str, dict[str, PairOutcome]]:
    """Evaluate every model task by task; return outcomes by model and task.

    Only the leading process of a launch has outcomes of finished runs. `folders` has the folder of
    each run by the model's SPEC and the task's key; `requested` has key, SPEC and task.
    """
    judge = judge_for(arguments, [task for _, _, task in requested])
    options = replace(options, judge_cost=lambda: float(getattr(judge, "cost", 0.0)))
    leads = launch is None or launch.leads
    n_pairs = len(models) * len(requested)
    by_model: dict[str, dict[str, PairOutcome]] = {}
    with terminal.progress(quiet=arguments.quiet or arguments.json or not leads) as progress:
        may_be_stored = launch is None and arguments.against is None
        requested, n_samples = _prepare_tasks(
            requested,
            [[folders[str(model), key] for model in models] for key, _, _ in requested],
            options,
            progress,
            may_be_stored=may_be_stored,
        )
        progress.expect(n_pairs, n_samples * len(models))
        overlaps = {
            folders[str(spec), key]: contamination_of(
                spec,
                task,
                options.subset,
                folder=folders[str(spec), key],
                anew=options.restart,
                strict=arguments.strict_split,
            )
            for spec in (models if leads or arguments.strict_split else ())
            for key, _, task in requested
        }
        decider = against(arguments, requested[0][2], pairs=n_pairs)
        if decider is not None:
            stops = arguments.until_decided
            # Called in any case: the decider takes in the units of each call.
            options = replace(options, until=lambda done: decider(done) and stops)
        pairs = _Pairs(arguments, options, judge, decider, overlaps, progress, launch)
        number = 0
        for spec in models:
            # In this process the model is built once for all tasks; workers build their own.
            model = build_model(spec, options.seed) if is_built_here(spec, options) else spec
            by_task = by_model[str(spec)] = dict[str, PairOutcome]()
            for key, task_spec, task in requested:
                number += 1
                title = f"{number} of {n_pairs}: {key}, {arguments.name or spec}"
                outcome = pairs.evaluate(
                    model, spec, task, task_spec, folders[str(spec), key], title
                )
                if outcome is not None:
                    if outcome.ending is Ending.REFUSED and n_pairs > 1:
                        progress.note(outcome.message)
                    by_task[key] = outcome
    return by_model


def _prepare_tasks(
    requested: Sequence[tuple[str, Spec, Task]],
    folders: Sequence[Sequence[Path]],
    options: Options,
    progress: Progress,
    *,
    may_be_stored: bool,
) -> tuple[list[tuple[str, Spec, Task]], int]:
    """Check the files of all tasks; return tasks that cache their samples, and the samples' number.

    A task is not checked if all its runs (`folders`, one for each model) resume from stored
    queries; with `may_be_stored` False none does.
    """
    prepared, n_samples = [], 0
    for (key, spec, task), run_folders in zip(requested, folders, strict=True):
        surveys = [
            stored_survey(folder, task, options) if may_be_stored else None
            for folder in run_folders
        ]
        stored = None if None in surveys else surveys[0]
        if stored is None:
            missing = options.allow_missing
            task = preflight(task, progress, allow_missing=missing, spec=str(spec))
            n_samples += sum(1 for _ in select(task, options.subset).samples(task))
        else:
            n_samples += stored.n_total
        prepared.append((key, spec, read_once(task)))
    return prepared, n_samples


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The runs of one command, with all that they have in common."""

    arguments: Namespace
    options: Options
    judge: Judge | None
    decider: Against | None
    overlaps: Mapping[Path, Contamination | None]
    progress: Progress
    launch: ProcessRank | None

    def evaluate(
        self, model: Model | Spec, spec: Spec, task: Task, task_spec: Spec, folder: Path, title: str
    ) -> PairOutcome | None:
        """Run a model on a task; None if another process of the launch has the outcome.

        `model` is the model itself, or `spec`, its SPEC, if workers build it.
        """
        leads = self.launch is None or self.launch.leads
        if not self.options.restart:
            root = Path(self.options.data_root)
            task = resumed_task(task, task_spec, root, folder, self.progress)
        try:
            run = run_evaluation(
                bind_judge(task, self.judge, folder),
                model,
                folder,
                self.options,
                progress=TitledProgress(self.progress, title),
                task_spec=str(task_spec),
                model_spec=str(spec),
                launch=self.launch,
            )
        except UnsupportedAnswerForm as error:
            if not leads:
                return None
            with suppress(OSError):
                folder.parent.rmdir()  # if it holds no other run
            refusal = str(error)
            if isinstance(error, PartNotChosen):
                refusal += _without_weights(self.arguments, spec, task)
            return PairOutcome(Ending.REFUSED, message=refusal)
        except Unavailable as error:  # the other pairs may have all that they need
            return PairOutcome(Ending.UNAVAILABLE, message=str(error))
        except BudgetReached as error:
            return PairOutcome(Ending.STOPPED, message=str(error))
        if self.decider is not None and self.arguments.until_decided:
            self.progress.note(f"against {self.decider.baseline}: {self.decider.sentence()}")
        if not run.is_finished and (self.decider is not None or self.options.shard is not None):
            return self._unfinished(folder)
        return self._finished(task, run, self.overlaps[folder]) if leads else None

    def _unfinished(self, folder: Path) -> PairOutcome:
        """Note why a run is not finished, and return its outcome."""
        if self.decider is not None:
            write_decision(folder, self.decider)
            self.progress.note(
                f"{folder} is not finished and has no score of the full set; the same command "
                "without --until-decided predicts the rest"
            )
            return PairOutcome(Ending.UNFINISHED, self.decider.to_json())
        self.progress.note(f"{folder} has its share; the other shares are missing")
        share = {"shard": list(self.options.shard or ()), "folder": str(folder)}
        return PairOutcome(Ending.UNFINISHED, share)

    def _finished(self, task: Task, run: Run, contamination: Contamination | None) -> PairOutcome:
        """Record the contamination of a finished run; return its public results."""
        results = public(run.results)
        if deviations := run.manifest["deviations"]:
            results["deviations"] = deviations
        if contamination is not None:
            write_contamination_and_origins(run.folder, contamination)
            results["trained_on"] = asdict(contamination)
            name = f"{run.results['model_spec']} on {task.name}"
            print_contamination({name: contamination})
        if task.submission is not None:
            results["submission"] = str(run.folder / "submission.zip")
        if self.decider is not None:
            results |= _against(self.decider, run)
        if message := _nothing_worked(run):
            return PairOutcome(Ending.FAILED, message=message)
        return PairOutcome(Ending.SCORED, results)


def _without_weights(arguments: Namespace, spec: Spec, task: Task) -> str:
    """Return the typed command with classical parts in place of those that the model lacks.

    Empty if the model itself lacks none for this task: then a model in its arguments lacks one.
    """
    lacking = lacking_parts(spec, frozenset(task.forms))
    if not lacking:
        return ""
    pairs = [pair for text in arguments.model for pair in named_models(text)]
    model = next((text for text, typed in pairs if as_trained(typed) == spec), str(spec))
    parts = ",".join(f"{name}={CLASSICAL_PARTS[name]}" for name in lacking)
    with_parts = f"{model[:-1]},{parts})" if model.endswith(")") else f"{model}({parts})"
    command = ["--model", with_parts]
    if len(pairs) == 1 and "--model" in arguments.typed:
        value = arguments.typed.index("--model") + 1
        before, after = arguments.typed[:value], arguments.typed[value + 1 :]
        command = ["harness", *before, with_parts, *after]
    return f"\nWithout weights: {shlex.join(command)}"


def _nothing_worked(run: Run) -> str:
    """Return a message if the model failed on every sample, so that no score is shown; else ""."""
    results = run.results
    total = results.get("n_total", 0)
    if not total or results["failures"][FailureKind.MODEL] < total:
        return ""
    return (
        f"run {run.folder}: expected an answer to at least one sample, found {total} failures of "
        "the model itself. Correct it, and run the command again with "
        "--retry-failed --accept-code"
    )


def _against(decider: Against, run: Run) -> dict[str, object]:
    """Return a finished run's comparison with its baseline, in words and as plain data."""
    comparison = decider.compare(run)
    return {
        "against": str(decider.baseline),
        "verdict": comparison.verdict(run.manifest["model"]["name"]),
        "comparison": comparison.to_json(),
    }
