"""`harness reproduce`: make a paper's table by training, evaluating and building the board.

Each step of `leaderboards.table_commands.plan` is a `harness` command, which runs as a process.
"""

import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from harness import plugins
from harness.cli.output import note
from harness.cli.spec_arguments import require
from harness.errors import UsageError
from harness.hub.fetch import repositories
from harness.leaderboards import estimate
from harness.leaderboards.column_metrics import check_metrics
from harness.leaderboards.definitions import Definition, find, unreadable, with_rows
from harness.leaderboards.estimate import Device
from harness.leaderboards.published_results import GENERATED, PAPERS
from harness.leaderboards.table_commands import Step, is_small, plan, total
from harness.machine import gpus
from harness.spec import parse

OUT = Path("reproduce")
"""Folder of trainings, runs and boards by default."""


def reproduce(arguments: Namespace) -> int:
    """Print the steps of a table with estimates, and run them; return the first code that is not 0.

    Steps that lack something, such as a licence or a package, are left out with a message.

    Raises:
        UsageError: no table is named, the device is unknown, or a step needs several machines.
    """
    if not arguments.paper or not arguments.table or arguments.all:
        raise UsageError(
            "harness reproduce",
            expected="PAPER TABLE; --all belongs to --rehearse",
            found="no table" if not arguments.table else "--all",
        )
    (definition,) = with_rows([find(arguments.paper, arguments.table)], arguments.rows or ())
    check_metrics(definition)
    for error in unreadable().values():
        note(f"left out, {error}")
    if not arguments.dry_run:
        require(arguments, "data")
    absent = estimate.ASSUMED if arguments.dry_run else "CPU"
    text = arguments.device
    if not text:
        text = "CPU" if is_small(definition) else " ".join(gpus()) or absent
    device = estimate.named_device(text)
    steps = plan(definition, str(arguments.data or "ROOT"), arguments.out, device)
    _show(definition, steps, device, arguments.data or Path("ROOT"))
    exit_code = 0
    for step in () if arguments.dry_run else steps:
        if lacking := [str(needed) for needed in step.needs if not needed.is_given]:
            print(f"left out: {step.name}: needs {'; '.join(lacking)}", file=sys.stderr)
            continue
        line = [sys.executable, "-m", "harness", *step.command]
        if step.machines > 1:
            if step.is_finished:
                continue
            raise UsageError(
                step.name,
                expected=f"{step.machines} machines, which this command cannot start",
                found="one",
                fix=f"Start it on each, with RANK from 0: {shlex.join(step.line)}; "
                "then run the same command again to resume.",
            )
        if step.processes > 1:
            line = [sys.executable, "-m", "accelerate.commands.launch", *step.line[2:]]
        sys.stdout.flush()
        if code := subprocess.run(line, check=False).returncode:
            print(f"harness: {step.name} ended with {code}", file=sys.stderr)
            if code != 1 or step.name.split()[0] != "eval":
                return code
            exit_code = code  # a finished run without answers, which is a row of the board
    return exit_code


def _data_lines(definition: Definition, steps: list[Step], root: Path) -> Iterator[str]:
    """Yield a line on each benchmark that is not below `root` yet: how to get it.

    A generated world does not count as a benchmark's data, unless the table is a small one.
    """
    if is_small(definition):
        if not root.is_dir():
            yield f"a generated world: harness data make shapes --out {shlex.quote(str(root))}"
        return
    is_generated = (root / GENERATED).is_file()
    names = dict.fromkeys(parse(task).name for step in steps for task in step.samples)
    for name in names:
        card = plugins.find_card(name)
        if card is None or ((root / card.folder).is_dir() and not is_generated):
            continue
        if repositories(card):
            yield f"{name}: harness data fetch {name} --data {shlex.quote(str(root))}"
        elif card.data:
            yield f"{name}: {card.data}"


def _show(definition: Definition, steps: list[Step], device: Device, root: Path) -> None:
    """Print the data to get, and each step with its needs, estimate and command."""
    print(definition.heading)
    if lines := list(_data_lines(definition, steps, root)):
        print("data to get first:", *(f"  {line}" for line in lines), sep="\n")
    if left_out := [row.row for row in definition.rows if not row.model]:
        ours = definition.paper in PAPERS
        why = "see docs/models.md for how to run them" if ours else "the board names no model"
        print(f"left out: {', '.join(left_out)}: {why}")
    for step in steps:
        print("", *(f"# {line}" for line in step.about(device)), shlex.join(step.line), sep="\n")
    print(f"\n{total(steps, device)}")
