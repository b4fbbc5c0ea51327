"""`harness board`: build, site, keep, check, adaptation."""

import json
import math
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.arguments.board import DROP, GATE_FORMATS
from harness.cli.output import note, say, tell, write_text
from harness.cli.tables import wrap_lines
from harness.errors import UsageError, counted
from harness.record import SCORES, Run, no_run, runs_below, unfinished_below
from harness.store.atomic import write_bytes, write_json, writing

if TYPE_CHECKING:
    from harness.leaderboards.board import Board
    from harness.leaderboards.gate_report import GateReport


def build(arguments: Namespace) -> int:
    """Write board.md, board.json and samples.parquet from run folders, and tables for papers."""
    from harness.leaderboards.export.tables import SAMPLES, write_samples
    from harness.leaderboards.render import write, write_tables
    from harness.leaderboards.render.summary import Style

    board = _built(arguments)
    style = Style(
        metrics=arguments.metrics,
        spread=arguments.spread,
        percent=not arguments.fractions,
        digits=arguments.digits,
    )
    formats = dict.fromkeys(arguments.format or ())
    with writing(arguments.out):
        tables = write_tables(board, arguments.out, formats, style, data_root=arguments.data)
        paths = [*write(board, arguments.out), arguments.out / SAMPLES, *tables]
        entries = [entry for table in board.tables for entry in table.entries]
        rows = {entry.folder: entry.row for entry in entries}
        write_samples(list(map(Run, rows)), arguments.out / SAMPLES, rows=rows)
    return _report(arguments, list(map(str, paths)), board)


def site(arguments: Namespace) -> int:
    """Write a site from run folders: the board, its runs, and every sample."""
    from harness.leaderboards.site.trainings import trainings_below
    from harness.leaderboards.site.write import check_place, write_site

    check_place(arguments.out)
    trained = arguments.runs
    # A folder of trainings that were not evaluated is shown by its curves alone.
    arguments.runs = [
        folder for folder in trained if runs_below(folder) or not trainings_below([folder])
    ]
    board = _built(arguments)
    start = write_site(
        board,
        arguments.out,
        data_root=arguments.data,
        images=not arguments.no_images,
        trained=trained,
        note=lambda line: say(line, to=sys.stderr),
    )
    return _report(arguments, [str(start)], board)


def _built(arguments: Namespace) -> "Board":
    """Return the board of the arguments' runs, or of those that a definition names."""
    from harness.leaderboards.board import build as build_board
    from harness.leaderboards.definitions import find, read
    from harness.leaderboards.grid import left_off_text

    definition = None
    if arguments.board:
        path = Path(arguments.board)
        definition = read(path) if path.is_file() else find(*arguments.board.rsplit("/", 1))
    make = partial(
        build_board,
        arguments.runs,
        title=arguments.title,
        data_root=arguments.data,
        published=not arguments.no_published,
        definition=definition,
    )
    board = make(names_refused=True)
    if board.refused and not board.tables:
        return make()  # raises the reason: there is nothing to go on with
    if definition is not None and not board.tables:
        command = f"harness reproduce {definition.paper} {definition.table} --dry-run"
        note(
            f"none of the runs is of a row of {definition.heading}: expected a model, its "
            f"arguments, a split and a protocol that `{command}` prints."
        )
    if board.left_off:
        note(f"{left_off_text(board.left_off)}.")
    return board


def _report(arguments: Namespace, paths: Sequence[str], board: "Board") -> int:
    """Say what was written and what is not on the board; return 1 if a run was refused, else 0."""
    below = (path for folder in arguments.runs for path in runs_below(folder))
    for path in dict.fromkeys(path for path in below if not (path / SCORES).is_file()):
        note(f"{path} has no scores, for the ground truth is hidden.")
    below = (path for folder in arguments.runs for path in unfinished_below(folder))
    unfinished = list(dict.fromkeys(below))
    for path in unfinished:
        note(f"{path} is unfinished and left out; run the same `harness eval` to finish it.")
    for refusal in board.refused:
        name = f"{refusal.model} {refusal.run}".strip()
        say(f"refused: {name}: {refusal.reason}", to=sys.stderr)
    plain = {
        "files": paths,
        "tables": len(board.tables),
        "unfinished": list(map(str, unfinished)),
        "refused": [refusal.run for refusal in board.refused],
    }
    tell(arguments, plain, *paths)
    return int(bool(board.refused))


def keep(arguments: Namespace) -> int:
    """Copy scores and records of runs, without predictions and without paths of this machine."""
    from harness.leaderboards.baseline import blind_tasks
    from harness.leaderboards.baseline import keep as keep_run

    if arguments.out.exists():
        raise UsageError(
            f"--out {arguments.out}",
            expected="a new folder",
            found="one that exists",
            fix="`harness board check … --update-baseline` replaces a baseline.",
        )
    if not (folders := runs_below(arguments.runs)):
        raise no_run(arguments.runs)
    for folder in folders:
        place = arguments.out / folder.relative_to(arguments.runs)
        keep_run(Run.open(folder), place)
        say(place)
    for task, groups, needed in blind_tasks([*map(Run.open, folders)]):
        note(
            f"a gate with this baseline cannot show a drop of {task}: it has "
            f"{counted(groups, 'image or video', 'images or videos')}, {needed} are needed"
        )
    return 0


def check(arguments: Namespace) -> int:
    """Compare a candidate with a baseline; exit code 1 if it is worse or cannot be compared."""
    from harness.leaderboards.baseline import update
    from harness.leaderboards.gate import check as check_gate

    if not 0 < arguments.level < 1:
        raise UsageError("--level", expected="a number between 0 and 1", found=str(arguments.level))
    formats = _formats(arguments)
    limits = _limits(arguments.max_drop)
    typed = (part.strip() for text in arguments.tasks or () for part in text.split(","))
    tasks = list(filter(None, typed)) or None
    report = check_gate(
        arguments.baseline,
        arguments.candidate,
        max_drop=limits.pop("", DROP),
        max_drops=limits,
        tasks=tasks,
        max_cut=arguments.max_cut,
        fail_on_inconclusive=arguments.fail_on_inconclusive,
        level=arguments.level,
        data_root=arguments.data,
        site=_address(arguments.site),
    )
    for name, path in formats:
        text = _rendered(report, name, path)
        if path is None:
            print(text, end="")
        else:
            write_text(path, text)
    if not arguments.update_baseline:
        return 0 if report.is_passed else 1
    for place in update(arguments.baseline, arguments.candidate, tasks=tasks):
        say(f"replaced: {place}", to=sys.stderr)
    return 0


def _address(site: str) -> str:
    """Return the address of a site's start page, from it or from the site's folder."""
    start = Path(site, "index.html")
    return start.resolve().as_uri() if site and start.is_file() else site


def _limits(texts: Sequence[str] | None) -> dict[str, float]:
    """Limits by task, from `X` and `TASK=X`; the one of all others has an empty name."""
    limits = {}
    for text in texts or ():
        task, _, number = text.rpartition("=")
        try:
            limits[task] = float(number)
        except ValueError:
            limits[task] = math.nan
        if not limits[task] >= 0:
            raise UsageError(
                f"--max-drop {text}", expected="X or TASK=X, X a number from 0 on", found=number
            )
    return limits


def _formats(arguments: Namespace) -> list[tuple[str, Path | None]]:
    """The formats of the report, each with its file; None: standard output."""
    if arguments.json:
        arguments.format = [*(arguments.format or ()), "json"]
    usual = "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"
    formats: list[tuple[str, Path | None]] = []
    for text in arguments.format or [usual]:
        name, _, path = text.partition("=")
        if name not in GATE_FORMATS:
            raise UsageError(
                f"--format {text}",
                expected=f"NAME or NAME=FILE, NAME one of {', '.join(GATE_FORMATS)}",
                found=name,
            )
        if name == "badge" and path and Path(path).suffix.lower() not in (".svg", ".json"):
            raise UsageError(f"--format {text}", expected="badge=FILE.svg or FILE.json", found=path)
        formats.append((name, Path(path) if path else None))
    if sum(path is None for _, path in formats) > 1:
        raise UsageError("--format", expected="a file for all but one", found="several without")
    return formats


def _rendered(report: "GateReport", name: str, path: Path | None) -> str:
    from harness.leaderboards import gate_formats
    from harness.leaderboards.render import badge

    if name == "badge":
        words = gate_formats.badge(report)
        if path is not None and path.suffix.lower() == ".svg":
            return badge.svg(*words)
        return json.dumps(badge.shields(*words)) + "\n"

    if name == "json":
        return json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False) + "\n"
    if name == "github":
        return gate_formats.github(report, os.environ)
    if name == "text":
        lines = report.text().splitlines()
        wrapped = ([line] if "look: " in line else wrap_lines(line, indent=6) for line in lines)
        return "".join(f"{part}\n" for parts in wrapped for part in parts)  # commands stay whole
    return gate_formats.markdown(report) if name == "markdown" else gate_formats.junit(report)


def adaptation(arguments: Namespace) -> int:
    """Write the report of adapted runs: adaptation.md, adaptation.json and a figure a table."""
    from harness.leaderboards.adaptation import reports
    from harness.leaderboards.adaptation_tables import charts, to_markdown
    from harness.leaderboards.figure import figure

    all_reports = reports(
        arguments.runs, metric=arguments.metric, data_root=arguments.data, texts=arguments.texts
    )
    plain = [report.to_json() for report in all_reports]
    files = {"adaptation.md": to_markdown(all_reports).encode()}
    for place, report in enumerate(all_reports, 1):
        if panels := charts(report):
            files[f"adaptation-{place}.svg"] = figure(panels).encode()
    with writing(arguments.out):
        arguments.out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_bytes(arguments.out / name, content)
    write_json(arguments.out / "adaptation.json", plain)
    paths = [str(arguments.out / name) for name in (*files, "adaptation.json")]
    tell(arguments, {"files": paths}, *paths)
    return 0
