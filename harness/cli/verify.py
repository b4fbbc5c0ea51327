"""`harness verify`: check that ground-truth answers reach the ceiling of each task's protocol.

They are scored as answers, and as responses that a model's grammar writes and parses.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from harness.cli.model_choice import built_model
from harness.cli.output import say, show_json
from harness.cli.spec_arguments import NEEDED, data_folders, require
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.errors import UsageError, counted
from harness.model import ResponseReader
from harness.run.verify import CeilingCheck
from harness.run.verify import verify as verify_task
from harness.segmentation import MaskEmitter
from harness.task import Task

ALL = "all"
"""Value in place of task names: every installed task whose data lies below the root."""

THOUGHTS = {
    None: "",
    False: "; reasoning before an answer changes no score",
    True: "; reasoning before an answer is READ and changes scores",
}
"""End of a printed line, by `CeilingCheck.reads_thoughts`."""


def verify(arguments: Namespace) -> int:
    """Score ground-truth answers, and print each score with its ceiling; exit code 1 if missed."""
    require(arguments, tasks=f"{NEEDED['tasks']}, or {ALL}", data=NEEDED["data"])
    reader = _reader(arguments.model)
    everything = arguments.tasks == [ALL]
    if everything:
        arguments.tasks = _available_tasks(arguments)
    verdicts = [
        (key, verdict)
        for key, _, task in requested_tasks(arguments)
        for verdict in _verdicts(task, reader, everything=everything)
    ]
    passed = all(verdict.is_passed for _, verdict in verdicts)
    if arguments.json:
        lines = [
            {"name": key, **asdict(verdict), "passed": verdict.is_passed}
            for key, verdict in verdicts
        ]
        show_json({"passed": passed, "verdicts": lines})
    else:
        _show(verdicts)
    return 0 if passed else 1


def _verdicts(
    task: Task, reader: ResponseReader | MaskEmitter | None, *, everything: bool
) -> Iterator[CeilingCheck]:
    """Yield the verdicts of a task.

    Raises:
        UsageError: the reader does not suit the task; with `everything` this is only printed.
    """
    try:
        yield from verify_task(task, reader)
    except UsageError as error:
        if not everything:
            raise
        say(f"{task.name}: verified as answers, not as responses: {error}", to=sys.stderr)


def _available_tasks(arguments: Namespace) -> list[str]:
    """Return the tasks whose folder is below the root, and print the others.

    Raises:
        UsageError: no task's folder is there.
    """
    root = arguments.data
    folders = {name: root / folder for name, folder in data_folders().items()}
    available = [name for name, folder in folders.items() if folder.is_dir()]
    if not available:
        raise UsageError(
            f"--tasks {ALL} --data {root}", expected="at least one benchmark's folder", found="none"
        )
    if missing := [name for name in folders if name not in available]:
        print(f"no data below {root}: {', '.join(missing)}", file=sys.stderr)
    return available


def _reader(text: str) -> ResponseReader | MaskEmitter | None:
    """Return the model of `--model`; None for `none`; raise UsageError if it cannot read."""
    if text == "none":
        return None
    reader, _ = built_model(text)
    if not isinstance(reader, (ResponseReader, MaskEmitter)):
        raise UsageError(
            f"--model {text}",
            expected="a model that parses stored responses, or whose network emits masks",
            found="another",
        )
    return reader


def _show(verdicts: list[tuple[str, CeilingCheck]]) -> None:
    """Print a line on each verdict, then remarks: the lowest samples, tolerances, other metrics."""
    from harness.cli.tables import number, wrap_lines

    for key, verdict in verdicts:
        value = "–" if verdict.value is None else f"{verdict.value:.7f}"
        summary = (
            f"{'reached' if verdict.is_passed else 'MISSED'}  {key}, {verdict.protocol}: "
            f"{verdict.metric} {value} of {verdict.ceiling:.7f} by perfect {verdict.way}, "
            f"{counted(verdict.n, 'unit')}{THOUGHTS[verdict.reads_thoughts]}"
        )
        say(*wrap_lines(summary, indent=9))
    remarks = []
    for key, verdict in verdicts:
        if not verdict.is_passed:
            remarks.append(f"{key} by {verdict.way}: lowest are {', '.join(verdict.worst)}")
            remarks += [f"  {reason}" for reason in verdict.reasons]
        elif verdict.tolerance:
            why = f", because {verdict.why}" if verdict.why else ""
            remarks.append(f"{key}: up to {verdict.tolerance:g} below the ceiling{why}")
        if verdict.others:
            others = ", ".join(f"{name} {number(value)}" for name, value in verdict.others.items())
            remarks.append(f"{key} by perfect {verdict.way}: {others}")
    say(*dict.fromkeys(remarks))
