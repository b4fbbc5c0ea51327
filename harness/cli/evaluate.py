"""`harness eval`."""

import math
from argparse import Namespace
from contextlib import nullcontext
from typing import Any

from harness.cli.ask import needed, run_folder, specs
from harness.cli.ask import tasks as asked_tasks
from harness.cli.judge import bind, judge_for
from harness.cli.output import show_json
from harness.errors import UsageError
from harness.record import Run, public
from harness.run.evaluate import Options, Progress, preflight
from harness.run.evaluate import evaluate as run_evaluation
from harness.run.workers import build_model
from harness.task import Task


def evaluate(arguments: Namespace) -> int:
    """Evaluate every model on every task; print a table or one JSON object."""
    out = needed(arguments.out, "--out", "a folder for the runs")
    models = specs(arguments.model, "--model")
    needed(arguments.data, "--data", "the folder that holds one folder a benchmark")
    options = _options(arguments)
    asked = list(asked_tasks(arguments))
    judge = judge_for(arguments, [task for _, _, task in asked])
    shown: dict[str, dict[str, Any]] = {}
    with _progress(arguments) as progress:
        for _, _, task in asked:  # all of them, before any model is loaded
            preflight(task, progress, allow_missing=options.allow_missing)
        for spec in models:
            # In this process the model is built once for all tasks; workers build their own.
            own = options.workers == 1 and not options.isolate and options.timeout is None
            model = build_model(spec, options.seed) if own else spec
            shown[str(spec)] = {}
            for key, task_spec, task in asked:
                folder = run_folder(out, str(spec), str(task_spec), options.subset)
                run = run_evaluation(
                    bind(task, judge, folder), model, folder, options, progress=progress,
                    task_spec=str(task_spec), model_spec=str(spec),
                )  # fmt: skip
                shown[str(spec)][key] = _outcome(task, run)
    _show(arguments, shown)
    return 0


def _options(arguments: Namespace) -> Options:
    for name, least in (("workers", 1), ("batch_size", 1), ("seed", 0)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise UsageError(f"--{name.replace('_', '-')}", expected=f"a number ≥ {least}",
                             found=str(value))  # fmt: skip
    if arguments.timeout is not None and not 0 < arguments.timeout < math.inf:
        raise UsageError("--timeout", expected="seconds, more than 0", found=str(arguments.timeout))
    return Options(
        subset=arguments.subset, seed=arguments.seed, batch_size=arguments.batch_size,
        workers=arguments.workers, isolate=arguments.isolate, timeout=arguments.timeout,
        retry_failed=arguments.retry_failed, rescore=arguments.rescore,
        allow_missing=arguments.allow_missing, restart=arguments.restart,
        data_root=str(arguments.data.resolve()), checked=True,
    )  # fmt: skip


def _progress(arguments: Namespace) -> Any:
    if arguments.quiet or arguments.json:
        from harness.cli.progress import Notes

        quiet: Progress = Notes()
        return nullcontext(quiet)
    from harness.cli.progress import Terminal

    return Terminal()


def _outcome(task: Task, run: Run) -> dict[str, Any]:
    shown = public(run.results)
    if task.submission is not None:
        shown["submission"] = str(run.folder / "submission.zip")
    return shown


def _show(arguments: Namespace, shown: dict[str, dict[str, Any]]) -> None:
    if arguments.json:
        if len(shown) == 1:
            ((model, results),) = shown.items()
            show_json({"model": model, "tasks": results})
        else:
            show_json({"models": {name: {"tasks": one} for name, one in shown.items()}})
        return
    from harness.cli.tables import show_results

    for model, results in shown.items():
        show_results(model, results)
        for key, one in results.items():
            if "submission" in one:
                print(
                    f"{key}: the truth is hidden; for the organisers' server: {one['submission']}"
                )
