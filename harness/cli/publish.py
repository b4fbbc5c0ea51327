"""`harness publish`: write publications (runs that others can score again), and check them."""

import os
from argparse import Namespace
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.cli.output import note, say, tell, write_text
from harness.cli.spec_arguments import require
from harness.errors import MissingDependency, UsageError, one_line
from harness.record import Run, no_run, runs_below


def publish(arguments: Namespace) -> int:
    """Write publications, check them, write the workflow that does, or show receipts; 1: faults."""
    if arguments.workflow is not None:
        template = files("harness.leaderboards").joinpath("rescore.yml")
        write_text(arguments.workflow, template.read_text("utf-8"))
        print(arguments.workflow)
        if not (arguments.runs or arguments.check):
            return 0
    if arguments.receipt and not (arguments.runs or arguments.check):
        for receipt in _receipts(arguments):
            keys = "task", "split", "number", "account", "method", "received_at", "sha256", "shown"
            say("✓ " + ", ".join(f"{key} {receipt[key]}" for key in keys if key in receipt))
        return 0
    if bool(arguments.runs) == bool(arguments.check):
        raise UsageError("harness publish", expected="RUN or --check DIR", found="both or neither")
    return _check(arguments) if arguments.check else _write_publications(arguments)


def _receipts(arguments: Namespace) -> list[dict[str, Any]]:
    """Return the receipts of `--receipt`; raise StoreError if `--key` did not sign one."""
    if not arguments.receipt:
        return []
    require(arguments, key="the file server.pub of the server that signed the receipts")
    try:
        from harness.leaderboards.server.receipt import read_receipt
    except ModuleNotFoundError as error:
        raise MissingDependency.package(error.name, extra="server") from error
    return [read_receipt(path, arguments.key) for path in arguments.receipt]


def _write_publications(arguments: Namespace) -> int:
    """Write a publication of each run, and print the heads of their hash chains."""
    from harness.leaderboards.publish import publish as publish_run
    from harness.leaderboards.runs import refuse_rehearsal

    require(arguments, out="a folder for the publications")
    paths_by_folder = {folder: runs_below(folder) for folder in arguments.runs}
    if empty := [folder for folder, paths in paths_by_folder.items() if not paths]:
        raise no_run(empty[0])
    heads = {}
    for folder, paths in paths_by_folder.items():
        for path in paths:
            run = Run.open(path)
            refuse_rehearsal(run)
            relative = path.relative_to(folder)  # of no parts if the folder is the run
            copy_folder = arguments.out / (relative if relative.parts else path.name)
            heads[str(copy_folder)] = publish_run(run, copy_folder)
            root = run.manifest["data"]["root"]
            for copy in copy_folder.glob("samples.*") if root else ():
                if root in copy.read_text(errors="replace"):
                    note(f"{copy} names {root}, a path of this machine")
    tell(arguments, heads, *(f"{head}  {copy_folder}" for copy_folder, head in heads.items()))
    return 0


def _check(arguments: Namespace) -> int:
    """Check publications, and print their faults, also into the summary of a GitHub workflow."""
    from harness.leaderboards.publish import check

    require(arguments, "data")
    publications = check(
        arguments.check, arguments.data, heads=arguments.head or (), receipts=_receipts(arguments)
    )
    lines = []
    for publication in publications:
        mark = "✗" if publication.faults else "✓"
        lines.append(f"{mark} {publication.folder}  {publication.name}  {publication.head[:16]}")
        if publication.received:
            lines.append(f"    receipt {publication.received} is of these predictions")
        lines.extend(f"    {line}" for fault in publication.faults for line in fault.splitlines())
    lines = [one_line(line) for line in lines]
    say(*lines)
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write("".join(f"    {line}\n" for line in lines))
    return int(any(publication.faults for publication in publications))
