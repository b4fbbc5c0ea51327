"""`harness eval`: every model of `--model` on every task of `--tasks`, one run for each pair.

All data and options are checked before the first model is loaded. A pair that cannot be run does
not stop the others; the exit code says so at the end.
"""

import math
import os
import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path

from harness import plugins
from harness.chosen.checkpoints import check_network
from harness.cli.evaluated_pairs import Ending, PairOutcome, evaluate_pairs
from harness.cli.model_choice import requested_models
from harness.cli.output import say, show_json, warn_unanswered
from harness.cli.spec_arguments import require, require_minimum, run_folder, specs
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.errors import BudgetReached, ModelError, Unavailable, UnsupportedAnswerForm, UsageError
from harness.provenance import is_rehearsal
from harness.record import SCORES, Run
from harness.run.distributed import detect_launch, heartbeat, own_gpu
from harness.run.interrupts import terminable
from harness.run.options import Options

MAX_LISTED = 6
"""Maximum number of run folders that are listed at the end."""


@terminable()
def evaluate(arguments: Namespace) -> int:
    """Evaluate every model on every task; print a table or one JSON object.

    In a launch of several processes each takes its share, and one prints. Exit code 1 if a pair has
    no answer to any sample, or if `--until-decided` shows that the model is worse.

    Raises:
        UsageError: the options do not fit together.
        UnsupportedAnswerForm, Unavailable, ModelError, BudgetReached: a pair has no scores for this
            reason; raised after all pairs.
    """
    launch = detect_launch(os.environ)
    if launch is not None:
        own_gpu()
    require(arguments, "model", "tasks", "data", "out")
    out: Path = arguments.out
    vendor_tasks = (
        [task.name for task in specs(arguments.tasks, "--tasks")] if arguments.as_vendor else ()
    )
    models = requested_models(
        arguments.model, tell=launch is None or launch.leads, vendor_tasks=vendor_tasks
    )
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
        by_model = evaluate_pairs(arguments, folders, models, requested, options, launch)
    outcomes = [outcome for by_task in by_model.values() for outcome in by_task.values()]
    endings = Counter(outcome.ending for outcome in outcomes)
    n_without_run = endings[Ending.UNAVAILABLE] + endings[Ending.FAILED]
    if (launch is None or launch.leads) and n_without_run < len(outcomes):
        _show(arguments, by_model, folders)
    _raise_for(outcomes, arguments.typed)
    fields_by_pair = {
        f"{model}, {key}": outcome.fields
        for model, by_task in by_model.items()
        for key, outcome in by_task.items()
    }
    is_worse = any(outcome.fields.get("decision") == "worse" for outcome in outcomes)
    return int(warn_unanswered(fields_by_pair) or is_worse)


def _raise_for(outcomes: Sequence[PairOutcome], typed: Sequence[str]) -> None:
    """Raise the error of the command if a pair has no scores; see `evaluate`."""
    messages: dict[Ending, list[str]] = {ending: [] for ending in Ending}
    for outcome in outcomes:
        messages[outcome.ending].append(outcome.message)
    if refused := messages[Ending.REFUSED]:
        alone = len(outcomes) == 1
        raise UnsupportedAnswerForm(
            refused[0] if alone else f"{len(refused)} of {len(outcomes)} pairs were not run"
        )
    if unavailable := messages[Ending.UNAVAILABLE]:
        raise Unavailable("; ".join(unavailable))
    if failed := messages[Ending.FAILED]:
        raise ModelError("; ".join(failed))
    if stopped := messages[Ending.STOPPED]:
        again = shlex.join(["harness", *typed])
        raise BudgetReached("\n".join([*stopped, f"To go on: {again}"]))


def _check_processes(arguments: Namespace, options: Options, size: int) -> None:
    """Raise UsageError if an option needs one process, and a launch has more (`size`)."""
    several = size > 1
    if several and (arguments.pilot or arguments.budget):
        raise UsageError(
            "--pilot and --budget", expected="one process", found=f"{size} of a launch"
        )
    if several and arguments.against is not None:
        raise UsageError("--against", expected="one process", found=f"{size} of a launch")
    if options.shard is not None and (
        several or arguments.against is not None or not options.in_process
    ):
        raise UsageError(
            "--shard",
            expected="one process for each share, and a complete run",
            found="several processes, or --against",
        )
    if several and not options.in_process:
        raise UsageError(
            "--workers, --isolate, --timeout and --ray",
            expected="none of them with several processes",
            found=f"{size} processes",
        )


def _options(arguments: Namespace) -> Options:
    """Return the options of the runs; raise UsageError for a number out of its range."""
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
    names = {field.name for field in fields(Options)}
    options = {name: value for name, value in vars(arguments).items() if name in names}
    options["pilot"] = arguments.pilot or 0
    return Options(**options, data_root=str(arguments.data.resolve()))


def _show(
    arguments: Namespace,
    by_model: Mapping[str, Mapping[str, PairOutcome]],
    folders: Mapping[tuple[str, str], Path],
) -> None:
    """Print the outcomes by model and task, then the run folders and the next commands."""
    results_by_model = {
        model: {key: outcome.to_json() for key, outcome in by_task.items()}
        for model, by_task in by_model.items()
    }
    if arguments.json:
        mark = {"rehearsal": True} if is_rehearsal() else {}
        if len(results_by_model) == 1:
            ((model, results),) = results_by_model.items()
            show_json({"model": model, "tasks": results, **mark})
        else:
            models = {name: {"tasks": tasks} for name, tasks in results_by_model.items()}
            show_json({"models": models, **mark})
        return
    from harness.cli.tables import show_results, wrap_lines

    scored = {pair for pair in folders if by_model[pair[0]][pair[1]].ending is Ending.SCORED}
    for model, results in results_by_model.items():
        if of_model := {key: result for key, result in results.items() if (model, key) in scored}:
            show_results(f"{arguments.name}, {model}" if arguments.name else model, of_model)
        for key, result in results.items():
            if "verdict" in result:
                verdict = f"{key} against {result['against']}: {result['verdict']}"
                say(*wrap_lines(verdict, indent=2), "")
            if "submission" in result:
                say(
                    f"{key}: the ground truth is not published; "
                    f"for the organisers' server: {result['submission']}"
                )
    if scored:
        say(*next_commands(arguments.out, [folders[pair] for pair in folders if pair in scored]))


def next_commands(out: Path, folders: Sequence[Path]) -> list[str]:
    """Return lines with the run folders and the commands to continue with.

    `harness explain` is suggested for the last run with scores; after a rehearsal, which no site
    shows, the command itself without `--rehearse`.
    """
    lines = (
        [f"runs: {folder}" for folder in folders]
        if len(folders) <= MAX_LISTED
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
