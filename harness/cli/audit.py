"""`harness audit`: what of a model's score is seeing; one page, one verdict a control, a badge."""

from argparse import Namespace
from pathlib import Path

from harness.cli.output import say, show_json, write_text
from harness.cli.progress import LineProgress
from harness.cli.spec_arguments import run_folder
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.cli.tables import show_columns, wrap_lines
from harness.errors import UsageError
from harness.leaderboards import formatting
from harness.leaderboards.differences.audit import BLIND, CONTROLS, Audit, Control
from harness.leaderboards.differences.audit import audit as run_audit
from harness.leaderboards.render import badge as badges
from harness.record import MANIFEST, Run
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.store.atomic import json_bytes, write_bytes

COLOURS = {True: badges.GOOD, False: badges.BAD, None: badges.UNKNOWN}
SYMBOLS = {True: "✓", False: "✗", None: "·"}
WIDTH = 260
"""Pixels of the longest bar."""


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
    made = run_audit(
        run,
        out=arguments.out,
        data_root=arguments.data,
        names=names,
        workers=arguments.workers,
        progress=progress,
    )
    write_bytes(arguments.out / "audit.json", json_bytes(made.to_json()))
    write_text(arguments.out / "audit.html", page(made))
    write_text(arguments.out / "badge.svg", badge(made))
    if arguments.json:
        show_json(made.to_json())
        return 0
    _print(made)
    say("", arguments.out / "audit.html", arguments.out / "badge.svg")
    return 0


def _run(arguments: Namespace, progress: LineProgress) -> Run:
    """Open the run that was named, or evaluate the model that was."""
    if (Path(arguments.of) / MANIFEST).is_file():
        if arguments.tasks or arguments.subset:
            raise UsageError("--tasks or --subset beside RUN", expected="the run's", found="others")
        return Run.open(Path(arguments.of))
    from harness.cli.checkpoint_config import requested_models

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


def summary(made: Audit) -> str:
    """Describe in one sentence what of the score is seeing."""
    number = formatting.number
    best = made.best_blind
    if best is None or best.comparison is None:
        return "No control without the question's images could be run."
    reach, low_is_good = best.comparison.interval, best.comparison.better == "lower"
    if reach is not None and not low_is_good:
        reach = -reach[1], -reach[0]
    span = f" ({formatting.signed_span(reach)})" if reach else ""
    return (
        f"Of {made.headline} {number(made.value)}, {number(made.seeing)}{span} is seeing: "
        f"it is {number(best.value)} without the question's own images."
    )


def _print(made: Audit) -> None:
    say(
        f"{made.model} on {made.task}, {made.protocol}, {made.n_samples} samples: "
        f"{made.headline} {formatting.number(made.value)}"
    )
    say(*wrap_lines(summary(made)), "")
    head = ("", "control", "score", "change", "verdict", "")
    show_columns([head, *map(_cells, made.controls)])


def _cells(one: Control) -> tuple[str, ...]:
    number, change = formatting.number(one.value), formatting.change(one.comparison)
    return (SYMBOLS[one.passed], one.name, number, change, one.verdict, one.reason or one.about)


def page(made: Audit) -> str:
    """Return the page: the sentence, a bar and a verdict for each control."""
    known = [one.value for one in made.controls if one.value is not None]
    longest = max([abs(made.value or 0.0), *map(abs, known)]) or 1.0
    from harness.leaderboards.render.pages import fill

    return fill(
        "audit.jinja",
        made=made,
        summary=summary(made),
        width=lambda value: max(1, round(WIDTH * abs(value) / longest)),
        colours=COLOURS,
        symbols=SYMBOLS,
    )


def badge(made: Audit) -> str:
    """Return a badge for a README: what of the score is seeing."""
    best = made.best_blind
    if best is None or best.comparison is None or made.seeing is None or not made.value:
        text, colour = "not known", COLOURS[None]
    else:
        share = f"{max(0.0, made.seeing / made.value):.0%} of it"
        other = f"{formatting.number(best.value)} blind"  # an error has no share that is seeing
        told = other if best.comparison.better == "lower" else share
        text = f"{made.headline} {formatting.number(made.value)}, {told}"
        verdicts = [one.passed for one in made.controls if one.name in BLIND]
        colour = COLOURS[False if False in verdicts else True if all(verdicts) else None]
    return badges.svg("seeing", text, colour)
