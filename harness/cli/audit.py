"""`harness audit`: measure how much of a model's score needs the images, by altered samples."""

from argparse import Namespace
from pathlib import Path

from harness.cli.output import say, show_json, write_text
from harness.cli.progress import LineProgress
from harness.cli.spec_arguments import run_folder
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.cli.tables import show_columns, wrap_lines
from harness.errors import UsageError, counted
from harness.leaderboards import formatting
from harness.leaderboards.differences.audit import CONTROLS, Audit, Control
from harness.leaderboards.differences.audit import audit as run_audit
from harness.leaderboards.render.audit import SYMBOLS, badge, page, summary
from harness.record import MANIFEST, Run
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.store.atomic import json_bytes, write_bytes


def audit(arguments: Namespace) -> int:
    """Run the controls, print the verdicts, and write the page."""
    names = None if arguments.controls is None else arguments.controls.split(",")
    if unknown := set(names or ()) - set(CONTROLS):
        raise UsageError(
            f"--controls {', '.join(sorted(unknown))}",
            expected=f"some of {', '.join(CONTROLS)}",
            found="others",
        )
    progress = LineProgress()
    run = _run(arguments, progress)
    run.check_files()
    report = run_audit(
        run,
        out=arguments.out,
        data_root=arguments.data,
        names=names,
        workers=arguments.workers,
        progress=progress,
    )
    write_bytes(arguments.out / "audit.json", json_bytes(report.to_json()))
    write_text(arguments.out / "audit.html", page(report))
    write_text(arguments.out / "badge.svg", badge(report))
    if arguments.json:
        show_json(report.to_json())
        return 0
    _print(report)
    say("", arguments.out / "audit.html", arguments.out / "badge.svg")
    return 0


def _run(arguments: Namespace, progress: LineProgress) -> Run:
    """Open the run that was named, or evaluate the named model to get one."""
    if (Path(arguments.of) / MANIFEST).is_file():
        if arguments.tasks or arguments.subset:
            raise UsageError("--tasks or --subset beside RUN", expected="the run's", found="others")
        return Run.open(Path(arguments.of))
    from harness.cli.model_choice import requested_models

    ((_, spec, task), *others) = requested_tasks(arguments)
    (model, *more) = requested_models([arguments.of], tell=True)
    if others or more:
        raise UsageError("harness audit", expected="one model and one task", found="several")
    folder = run_folder(arguments.out / "runs", str(model), str(spec), arguments.subset)
    options = Options(
        subset=arguments.subset,
        seed=arguments.seed,
        workers=arguments.workers,
        data_root=str(arguments.data.resolve()),
    )
    return evaluate(task, model, folder, options, task_spec=str(spec), progress=progress)


def _print(report: Audit) -> None:
    say(
        f"{report.model} on {report.task}, {report.protocol}, "
        f"{counted(report.n_samples, 'sample')}: "
        f"{report.headline} {formatting.number(report.value)}"
    )
    say(*wrap_lines(summary(report)), "")
    head = ("", "control", "score", "change", "verdict", "")
    show_columns([head, *map(_cells, report.controls)])


def _cells(control: Control) -> tuple[str, ...]:
    number, change = formatting.number(control.value), formatting.change(control.comparison)
    why = control.reason or control.about
    return (SYMBOLS[control.passed], control.name, number, change, control.verdict, why)
