"""`harness reproduce`: the trainings, evaluations and board that make a paper's table."""

import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from harness import plugins
from harness.cli.doctor import gpus
from harness.cli.spec_arguments import require
from harness.errors import UsageError
from harness.hub.fetch import repositories
from harness.leaderboards import estimate
from harness.leaderboards.definitions import Definition, find
from harness.leaderboards.estimate import Device, Estimate
from harness.leaderboards.published_results import GENERATED
from harness.leaderboards.table_commands import Step, is_small, plan
from harness.spec import parse

OUT = Path("reproduce")
"""Folder of trainings, runs and boards by default."""
ASSUMED = "A100-80GB"
"""Device that a dry run estimates for where there is no GPU."""


def reproduce(arguments: Namespace) -> int:
    """Print what makes a table, and run it; return the first exit code that is none of success."""
    if not arguments.paper or not arguments.table or arguments.all or arguments.rows:
        raise UsageError(
            "harness reproduce",
            expected="PAPER TABLE; --all and --rows belong to --rehearse",
            found="no table" if not arguments.table else "--all or --rows",
        )
    definition = find(arguments.paper, arguments.table)
    if not arguments.dry_run:
        require(arguments, "data")
    absent = ASSUMED if arguments.dry_run else "CPU"
    usual = "CPU" if is_small(definition) else " ".join(gpus()) or absent
    device = estimate.device_of(arguments.device or usual)
    if device is None:
        text = arguments.device or usual
        known = [device.name for device in estimate.DEVICES]
        near = [name for name in known if text.upper() in name]
        raise UsageError("--device", expected=f"one of {', '.join(near or known)}", found=text)
    steps = plan(definition, str(arguments.data or "ROOT"), arguments.out, device)
    _show(definition, steps, device, arguments.data or Path("ROOT"))
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
            return code
    return 0


def _data_lines(definition: Definition, steps: list[Step], root: Path) -> Iterator[str]:
    """Yield the data that is not below a root yet, with the commands or pages that bring it.

    A generated world is no paper's data.
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
    print(definition.heading)
    if lines := list(_data_lines(definition, steps, root)):
        print("data to get first:", *(f"  {line}" for line in lines), sep="\n")
    if left_out := [row.row for row in definition.rows if not row.model]:
        print(f"left out: {', '.join(left_out)}: see docs/models.md for how they are reached")
    for step in steps:
        about = f": {step.estimate} on {step.processes} × {device.name}" if step.estimate else ""
        print(f"\n# {step.name}{about}")
        known = [f"{count:,} of {task}" for task, count in step.samples.items() if count]
        if known:
            print(f"#   samples: {', '.join(known)}")
        if unknown := [task for task, count in step.samples.items() if not count]:
            print(
                f"#   {estimate.UNKNOWN:,} samples assumed of {', '.join(unknown)}: no number is "
                "published, and --data has no real files of it to count"
            )
        for needed in step.needs:
            state = "" if needed.is_given else "; left out until it is there"
            print(f"#   needs {needed}{state}")
        if step.estimate and step.estimate.host:
            print(f"#   {step.estimate.host:,.0f} GB of the machine's own memory")
        if step.estimate and step.estimate.memory > device.memory:
            print(f"#   more than the {device.memory:.0f} GB of one {device.name}. What fits:")
            for way in step.ways or ("a smaller network",):
                print(f"#     {way}")
        print(shlex.join(step.line))
    whole = Estimate(sum(step.estimate.hours for step in steps if step.estimate), 0)
    print(f"\nabout {whole.time} in all; uncertain by a factor of 3 (docs/published.md)")
