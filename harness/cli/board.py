"""`harness board`: build, keep, check, adaptation."""

import sys
from argparse import Namespace
from pathlib import Path

from harness.cli.output import show_json
from harness.errors import UsageError
from harness.record import SCORES, Run, finish, runs_below, unfinished_below
from harness.run.checkpoint_provenance import copy_origins
from harness.run.contamination import read_contamination, write_contamination
from harness.store.atomic import cannot_write, write_bytes, write_json


def build(arguments: Namespace) -> int:
    """Write board.md, board.json and board.html from run folders."""
    from harness.leaderboards.board import build as build_board
    from harness.leaderboards.definitions import find, read
    from harness.leaderboards.render import write

    definition = None
    if arguments.board:
        path = Path(arguments.board)
        definition = read(path) if path.is_file() else find(*arguments.board.rsplit("/", 1))
    board = build_board(
        arguments.runs,
        title=arguments.title,
        data_root=arguments.data,
        picks=0 if arguments.no_gallery else 2,
        published=not arguments.no_published,
        definition=definition,
    )
    try:
        paths = write(board, arguments.out)
    except OSError as error:
        raise cannot_write(arguments.out, error) from error
    if definition is not None and not board.tables:
        print(f"note: none of the runs is of a row of {definition.heading}.", file=sys.stderr)
    below = (path for folder in arguments.runs for path in runs_below(folder))
    for path in (path for path in below if not (path / SCORES).is_file()):
        print(f"note: {path} has no scores, for the ground truth is hidden.", file=sys.stderr)
    unfinished = [path for folder in arguments.runs for path in unfinished_below(folder)]
    for path in unfinished:
        print(
            f"note: {path} is not finished and not on the board; the same `harness eval` goes on.",
            file=sys.stderr,
        )
    if arguments.json:
        files = {"files": [str(path) for path in paths], "tables": len(board.tables)}
        show_json({**files, "unfinished": list(map(str, unfinished))})
    else:
        for path in paths:
            print(path)
    return 0


def keep(arguments: Namespace) -> int:
    """Copy scores and records of runs, without predictions and without paths of this machine."""
    if arguments.out.exists():
        raise UsageError(f"--out {arguments.out}", expected="a new folder", found="one that exists")
    for folder in runs_below(arguments.runs):
        run = Run.open(folder)
        run.check_files()
        place = arguments.out / folder.relative_to(arguments.runs)
        place.mkdir(parents=True)
        manifest = {**run.manifest, "data": {**run.manifest["data"], "root": ""}}
        finish(place, run.units(), run.results, manifest=manifest, journal=False)
        if (found := read_contamination(folder)) is not None:
            write_contamination(place, found)
        copy_origins(folder, place)
        print(place)
    return 0


def check(arguments: Namespace) -> int:
    """Compare a candidate with a baseline; exit code 1 if it is worse or cannot be compared."""
    from harness.leaderboards.gate import check as check_gate

    if not 0 < arguments.level < 1:
        raise UsageError("--level", expected="a number between 0 and 1", found=str(arguments.level))
    report = check_gate(
        arguments.baseline,
        arguments.candidate,
        max_loss=arguments.max_loss,
        level=arguments.level,
        data_root=arguments.data,
    )
    if arguments.json:
        show_json(report.to_json())
    else:
        print(report.text())
    return 0 if report.is_passed else 1


def adaptation(arguments: Namespace) -> int:
    """Write the report of adapted runs: adaptation.md, adaptation.json and a figure a table."""
    from harness.cli.figure import Panel, figure
    from harness.leaderboards.adaptation import reports, to_markdown

    found = reports(arguments.runs, data_root=arguments.data, texts=arguments.texts)
    plain = [report.to_json() for report in found]
    files = {"adaptation.md": to_markdown(found).encode()}
    for place, report in enumerate(found, 1):
        names = dict.fromkeys(name for one in report.curves for name in one.curves)
        panels = [
            Panel(
                name,
                {one.name: [one.curves[name]] for one in report.curves if name in one.curves},
            )
            for name in names
        ]
        if panels:
            files[f"adaptation-{place}.svg"] = figure(panels).encode()
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(arguments.out, error) from error
    for name, content in files.items():
        write_bytes(arguments.out / name, content)
    write_json(arguments.out / "adaptation.json", plain)
    paths = [arguments.out / name for name in (*files, "adaptation.json")]
    if arguments.json:
        show_json({"files": [str(path) for path in paths]})
    else:
        for path in paths:
            print(path)
    return 0
