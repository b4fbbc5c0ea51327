"""`harness eval`."""

import math
import os
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import plugins
from harness.chosen.checkpoints import check_network, lacking_parts
from harness.chosen.names import named_models
from harness.chosen.trained_settings import as_trained
from harness.cli import progress as terminal
from harness.cli.against import against
from harness.cli.contamination import contamination_of, print_contamination
from harness.cli.judge import judge_for
from harness.cli.model_choice import requested_models
from harness.cli.output import say, show_json
from harness.cli.spec_arguments import require, require_minimum, run_folder
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.errors import (
    ModelError,
    PartNotChosen,
    Unavailable,
    UnsupportedAnswerForm,
    UsageError,
)
from harness.leaderboards.differences.against import Against, write_decision
from harness.provenance import is_rehearsal
from harness.record import SCORES, Run
from harness.run.batching import select
from harness.run.contamination import Contamination, write_trainings
from harness.run.distributed import ProcessRank, detect_launch, heartbeat, own_gpu
from harness.run.evaluate import evaluate as run_evaluation
from harness.run.interrupts import terminable
from harness.run.judging import bind_judge
from harness.run.options import Options, Progress, TitledProgress
from harness.run.preflight import preflight, read_once
from harness.run.stored_queries import stored_survey
from harness.run.workers import build_model
from harness.spec import Spec
from harness.summary import public
from harness.task import Task
from harness.types import FailureKind

SHOWN = 6
"""Maximum number of run folders that are listed at the end."""
CLASSICAL = {"segmenter": "grabcut", "propagator": "flow"}
"""Parts that need no weights, for a SPEC that lacks one."""
NO_SCORES = {"refused", "lost", "failed", "decision", "shard"}
"""Keys of outcomes without scores: of a pair that was not run, of a run that the infrastructure
failed, and of one that was stopped."""


@terminable()
def evaluate(arguments: Namespace) -> int:
    """Evaluate every model on every task; print a table or one JSON object."""
    launch = detect_launch(os.environ)
    if launch is not None:
        own_gpu()
    require(arguments, "model", "tasks", "data", "out")
    out: Path = arguments.out
    models = requested_models(arguments.model, tell=launch is None or launch.leads)
    if arguments.name is not None and (len(models) > 1 or not arguments.name.strip()):
        raise UsageError(
            "--name",
            expected="a name for one model",
            found="an empty one" if len(models) == 1 else f"{len(models)} models",
        )
    for spec in models:  # all of them, before the first is evaluated
        check_network(spec)
        plugins.check_arguments("models", spec)
    options = _options(arguments)
    if launch is not None and arguments.submitit:
        raise UsageError(
            "--submitit", expected="one process", found=f"{launch.size}, begun by a launcher"
        )
    _check_processes(arguments, options, 1 if launch is None else launch.size)
    requested = list(requested_tasks(arguments))
    if arguments.submitit:
        from harness.cli.submission import submit

        return submit(arguments, partial(_check_processes, arguments, options))
    folders = {
        (str(model), key): run_folder(out, arguments.name or str(model), str(spec), options.subset)
        for model in models
        for key, spec, _ in requested
    }
    with nullcontext() if launch is None else heartbeat(launch, out) as launch:
        shown = _evaluate_models(arguments, folders, models, requested, options, launch)
    outcomes = [outcome for results in shown.values() for outcome in results.values()]
    lost = [outcome["lost"] for outcome in outcomes if "lost" in outcome]
    failed = [outcome["failed"] for outcome in outcomes if "failed" in outcome]
    if (launch is None or launch.leads) and len(lost) + len(failed) < len(outcomes):
        scored = [
            folder
            for (model, key), folder in folders.items()
            if not shown[model][key].keys() & NO_SCORES
        ]
        _show(arguments, shown, scored)
    if refused := [outcome["refused"] for outcome in outcomes if "refused" in outcome]:
        alone = len(outcomes) == 1
        raise UnsupportedAnswerForm(
            refused[0] if alone else f"{len(refused)} of {len(outcomes)} pairs were not run"
        )
    if lost:
        raise Unavailable("; ".join(lost))
    if failed:
        raise ModelError("; ".join(failed))
    return int(any(outcome.get("decision") == "worse" for outcome in outcomes))


def _evaluate_models(
    arguments: Namespace,
    folders: Mapping[tuple[str, str], Path],
    models: Sequence[Spec],
    requested: Sequence[tuple[str, Spec, Task]],
    options: Options,
    launch: ProcessRank | None,
) -> dict[str, dict[str, Any]]:
    """Evaluate every model task by task; return what to print, which one process has."""
    judge = judge_for(arguments, [task for _, _, task in requested])
    shown: dict[str, dict[str, object]] = {}
    leads = launch is None or launch.leads
    started = 0
    with terminal.progress(quiet=arguments.quiet or arguments.json or not leads) as progress:
        # All of them, before any model is loaded; not those whose runs go on by stored queries.
        tasks, counts = [], []
        for key, spec, task in requested:
            surveys = [
                stored_survey(folders[str(model), key], task, options)
                if launch is None and arguments.against is None
                else None
                for model in models
            ]
            stored = None if None in surveys else surveys[0]
            if stored is None:
                missing = options.allow_missing
                task = preflight(task, progress, allow_missing=missing, spec=str(spec))
            tasks.append((key, spec, read_once(task)))
            counts.append(
                sum(1 for _ in select(task, options.subset).samples(task))
                if stored is None
                else stored.n_total
            )
        requested = tasks
        pairs = len(models) * len(requested)
        progress.expect(pairs, sum(counts) * len(models))
        overlaps = {
            folder: contamination_of(
                spec,
                task,
                options.subset,
                folder=folder,
                anew=options.restart,
                strict=arguments.strict_split,
            )
            for spec in (models if leads or arguments.strict_split else ())
            for key, _, task in requested
            for folder in [folders[str(spec), key]]
        }
        decider = against(arguments, requested[0][2], pairs=pairs)
        if decider is not None:
            stops = arguments.until_decided
            options = replace(options, until=lambda done: decider(done) and stops)
        for spec in models:
            # In this process the model is built once for all tasks; workers build their own.
            model = build_model(spec, options.seed) if options.in_process else spec
            shown[str(spec)] = {}
            for key, task_spec, task in requested:
                folder = folders[str(spec), key]
                started += 1
                title = f"{started} of {pairs}: {key}, {arguments.name or spec}"
                try:
                    run = run_evaluation(
                        bind_judge(task, judge, folder),
                        model,
                        folder,
                        options,
                        progress=TitledProgress(progress, title),
                        task_spec=str(task_spec),
                        model_spec=str(spec),
                        launch=launch,
                    )
                except UnsupportedAnswerForm as error:
                    if leads:
                        with suppress(OSError):
                            folder.parent.rmdir()  # if it holds no other run
                        refusal = str(error)
                        if isinstance(error, PartNotChosen):
                            refusal += _without_weights(arguments, spec, task)
                        if pairs > 1:
                            progress.note(refusal)
                        shown[str(spec)][key] = {"refused": refusal}
                    continue
                except Unavailable as error:  # the other pairs may have all that they need
                    shown[str(spec)][key] = {"lost": str(error)}
                    continue
                if decider is not None and arguments.until_decided:
                    progress.note(f"against {decider.baseline}: {decider.sentence()}")
                if not run.is_finished and (decider is not None or options.shard is not None):
                    shown[str(spec)][key] = _unfinished(folder, decider, options, progress)
                elif leads:
                    shown[str(spec)][key] = _outcome(task, run, overlaps[folder], decider)
    return shown


def _unfinished(
    folder: Path, decider: Against | None, options: Options, progress: Progress
) -> dict[str, object]:
    """Note why a run is not finished, and return what is shown of it."""
    if decider is not None:
        write_decision(folder, decider)
        progress.note(
            f"{folder} is not finished and has no score of the full set; the same command without "
            "--until-decided predicts the rest"
        )
        return decider.to_json()
    progress.note(f"{folder} has its share; the other shares are lacking")
    return {"shard": list(options.shard or ()), "folder": str(folder)}


def _without_weights(arguments: Namespace, spec: Spec, task: Task) -> str:
    """Return the command as it was typed, with the parts that a model lacks for a task.

    Empty for a model that has them in a model within it.
    """
    lacking = lacking_parts(spec, frozenset(task.forms))
    if not lacking:
        return ""
    named = [pair for text in arguments.model for pair in named_models(text)]
    model = next((text for text, whole in named if as_trained(whole) == spec), str(spec))
    parts = ",".join(f"{name}={CLASSICAL[name]}" for name in lacking)
    with_parts = f"{model[:-1]},{parts})" if model.endswith(")") else f"{model}({parts})"
    command = ["--model", with_parts]
    if len(named) == 1 and "--model" in arguments.typed:
        place = arguments.typed.index("--model") + 1
        before, after = arguments.typed[:place], arguments.typed[place + 1 :]
        command = ["harness", *before, with_parts, *after]
    return f"\nWithout weights: {shlex.join(command)}"


def _check_processes(arguments: Namespace, options: Options, size: int) -> None:
    """Raise UsageError if an option needs one process, and a launch has more."""
    several = size > 1
    if several and arguments.against is not None:
        raise UsageError("--against", expected="one process", found=f"{size} of a launch")
    if options.shard is not None and (
        several or arguments.against is not None or not options.in_process
    ):
        raise UsageError(
            "--shard",
            expected="one process a share, and a run to the end",
            found="several processes, or --against",
        )
    if several and not options.in_process:
        raise UsageError(
            "--workers, --isolate, --timeout and --ray",
            expected="none of them where a launch has several processes",
            found=f"{size} processes",
        )


def _options(arguments: Namespace) -> Options:
    require_minimum(arguments, 1, "workers", "batch_size")
    require_minimum(arguments, 0, "seed")
    gpus, wait = arguments.worker_gpus, arguments.worker_wait
    if gpus is not None and not 0 <= gpus < math.inf:
        raise UsageError("--worker-gpus", expected="a number ≥ 0", found=str(gpus))
    for name, value in (("--worker-wait", wait), ("--timeout", arguments.timeout)):
        if value is not None and not 0 < value < math.inf:
            raise UsageError(name, expected="seconds, more than 0", found=str(value))
    if not 0 <= (limit := arguments.infrastructure_limit) <= 1:
        raise UsageError("--infrastructure-limit", expected="from 0 to 1", found=str(limit))
    known = {field.name for field in fields(Options)}
    typed = {name: value for name, value in vars(arguments).items() if name in known}
    return Options(**typed, data_root=str(arguments.data.resolve()))


def _nothing_worked(run: Run) -> str:
    """Return what to say of a run in which the model failed on every sample; else nothing.

    Its results are kept, and are not shown as a score.
    """
    results = run.results
    total = results.get("n_total", 0)
    if not total or results["failures"][FailureKind.MODEL] < total:
        return ""
    return (
        f"run {run.folder}: expected an answer to at least one sample, found {total} failures of "
        "the model itself. Mend it, and run the command again with --retry-failed"
    )


def _outcome(
    task: Task, run: Run, contamination: Contamination | None, decider: Against | None
) -> dict[str, object]:
    """Return what is shown of a finished run."""
    shown = public(run.results)
    if differs := run.manifest["deviations"]:
        shown["deviations"] = differs
    if contamination is not None:
        write_trainings(run.folder, contamination)
        shown["trained_on"] = asdict(contamination)
        print_contamination({f"{run.results['model_spec']} on {task.name}": contamination})
    if task.submission is not None:
        shown["submission"] = str(run.folder / "submission.zip")
    if decider is not None:
        shown |= _against(decider, run)
    return {"failed": reason} if (reason := _nothing_worked(run)) else shown


def _against(decider: Against, run: Run) -> dict[str, object]:
    """Compare a finished run with its baseline, in words and as plain data."""
    comparison = decider.compare(run)
    return {
        "against": str(decider.baseline),
        "verdict": comparison.verdict(run.manifest["model"]["name"]),
        "comparison": comparison.to_json(),
    }


def _show(arguments: Namespace, shown: dict[str, dict[str, Any]], folders: Sequence[Path]) -> None:
    if arguments.json:
        mark = {"rehearsal": True} if is_rehearsal() else {}
        if len(shown) == 1:
            ((model, results),) = shown.items()
            show_json({"model": model, "tasks": results, **mark})
        else:
            models = {name: {"tasks": tasks} for name, tasks in shown.items()}
            show_json({"models": models, **mark})
        return
    from harness.cli.tables import show_results, wrap_lines

    for model, results in shown.items():
        if run := {key: result for key, result in results.items() if not result.keys() & NO_SCORES}:
            show_results(f"{arguments.name}, {model}" if arguments.name else model, run)
        for key, result in results.items():
            if "verdict" in result:
                verdict = f"{key} against {result['against']}: {result['verdict']}"
                say(*wrap_lines(verdict, indent=2), "")
            if "submission" in result:
                say(
                    f"{key}: the ground truth is hidden; "
                    f"for the organisers' server: {result['submission']}"
                )
    if folders:
        say(*next_commands(arguments.out, folders))


def next_commands(out: Path, folders: Sequence[Path]) -> list[str]:
    """Return lines with the run folders and the next commands; of several runs, for the last.

    A rehearsal stands on no site: after it comes the command itself.
    """
    lines = (
        [f"runs: {folder}" for folder in folders]
        if len(folders) <= SHOWN
        else [f"runs: {len(folders)} below {out}"]
    )
    board = f"harness board site --runs {shlex.quote(str(out))} --out site"
    if is_rehearsal():
        board = "the same command without --rehearse, with another --out"
    for folder in reversed(folders):
        if not (folder / SCORES).exists():  # the ground truth is hidden
            continue
        units = Run.open(folder).units()
        sample = next((sample for unit in units for sample in unit.samples), None)
        if sample is not None:
            look = f"harness explain {shlex.quote(str(folder))} {shlex.quote(sample)}"
            return [*lines, f"next: {board}", f"      {look}"]
    return [*lines, f"next: {board}"]
