"""`harness board`: build, site, keep, check, adaptation."""

import sys
from argparse import Namespace
from collections.abc import Sequence

from harness.cli.output import show_json
from harness.errors import UsageError, printable
from harness.record import Run, finish, runs_below, unfinished_below
from harness.run.checkpoint_provenance import copy_origins
from harness.run.contamination import read_contamination, write_contamination
from harness.store.atomic import cannot_write, write_bytes, write_json


def build(arguments: Namespace) -> int:
    """Write board.md and board.json from run folders."""
    from harness.leaderboards.board import build as build_board
    from harness.leaderboards.render import write

    board = build_board(arguments.runs, title=arguments.title, data_root=arguments.data)
    try:
        paths = write(board, arguments.out)
    except OSError as error:
        raise cannot_write(arguments.out, error) from error
    _report(arguments, list(map(str, paths)), len(board.tables))
    return 0


def site(arguments: Namespace) -> int:
    """Write a site from run folders: the board, its runs, and every sample."""
    from harness.leaderboards.board import build as build_board
    from harness.leaderboards.site.write import check_place, write_site

    check_place(arguments.out)
    board = build_board(arguments.runs, title=arguments.title, data_root=arguments.data)
    start = write_site(
        board,
        arguments.out,
        data_root=arguments.data,
        images=not arguments.no_images,
        told=lambda line: print(printable(line), file=sys.stderr),
    )
    _report(arguments, [str(start)], len(board.tables))
    return 0


def _report(arguments: Namespace, paths: Sequence[str], tables: int) -> None:
    unfinished = [path for folder in arguments.runs for path in unfinished_below(folder)]
    for path in unfinished:
        print(
            f"note: {path} is not finished and not on the board; the same `harness eval` goes on.",
            file=sys.stderr,
        )
    if arguments.json:
        show_json({"files": paths, "tables": tables, "unfinished": list(map(str, unfinished))})
    else:
        print("\n".join(paths))


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
