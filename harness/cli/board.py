"""`harness board`: leaderboards and sites from runs, and the gate that compares runs.

The actions are `build`, `site`, `keep` and `check` (baseline and gate) and `adaptation`; `curves`
has its own module.
"""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.arguments.board import GATE_FORMATS, MAX_DROP
from harness.cli.output import note, say, tell, write_text
from harness.cli.tables import wrap_lines
from harness.errors import UsageError, counted
from harness.leaderboards.collection import without_collection
from harness.record import Run, has_run, incomplete_below, no_run, runs_below, walked_once
from harness.store.atomic import write_bytes, write_json, writing

if TYPE_CHECKING:
    from harness.leaderboards.board import Board
    from harness.leaderboards.gate_report import GateReport
    from harness.leaderboards.history.known import KnownValues


@walked_once()
@without_collection()
def build(arguments: Namespace) -> int:
    """Write board.md, board.json and samples.parquet from run folders, and tables for papers."""
    from harness.leaderboards.export.tables import SAMPLES, write_samples
    from harness.leaderboards.history.known import find_index
    from harness.leaderboards.render import write, write_tables
    from harness.leaderboards.render.summary import Style

    formats = dict.fromkeys(arguments.format or ())
    if not formats and (arguments.rows or arguments.published or arguments.label):
        raise UsageError(
            "--rows, --published and --label", expected="--format beside them", found="none"
        )
    board = _built(arguments, find_index(arguments.db, note))
    style = Style(
        metrics=arguments.metrics,
        spread=arguments.spread,
        percent=not arguments.fractions,
        digits=arguments.digits,
        tasks=arguments.tasks,
        rows=arguments.rows or (),
        published=arguments.published,
        label=arguments.label,
    )
    with writing(arguments.out):
        tables = write_tables(board, arguments.out, formats, style, data_root=arguments.data)
        paths = [*write(board, arguments.out), arguments.out / SAMPLES, *tables]
        entries = [entry for table in board.tables for entry in table.entries]
        rows = {entry.folder: entry.row for entry in entries}
        write_samples([entry.run for entry in entries], arguments.out / SAMPLES, rows=rows)
    return _report(arguments, list(map(str, paths)), board)


@walked_once()
@without_collection()
def site(arguments: Namespace) -> int:
    """Write a site from run folders: the board, its runs, and every sample."""
    from harness.leaderboards.history.known import find_index
    from harness.leaderboards.site.trainings import trainings_below
    from harness.leaderboards.site.write import check_place, write_site

    check_place(arguments.out)
    trained = arguments.runs
    # A folder of trainings that were not evaluated is shown by its curves alone.
    arguments.runs = [
        folder for folder in trained if has_run(folder) or not trainings_below([folder])
    ]
    index = find_index(arguments.db, note)
    board = _built(arguments, index)
    start = write_site(
        board,
        arguments.out,
        data_root=arguments.data,
        images=not arguments.no_images,
        trained=trained,
        note=lambda line: say(line, to=sys.stderr),
        index=index,
    )
    return _report(arguments, [str(start)], board)


def _built(arguments: Namespace, index: "KnownValues | None") -> "Board":
    """Return the board of `--runs`, or only of those that the table of `--board` defines.

    Runs that cannot be on it are listed in the board; if all are refused, the reason is raised.
    """
    from harness.leaderboards.board import build as build_board
    from harness.leaderboards.definitions import find, read, unreadable
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
        index=index,
    )
    for error in unreadable().values():
        note(f"left out, {error}")
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
    """Print what was written and what is not on the board; return 1 if a run was refused."""
    below = [incomplete_below(folder) for folder in arguments.runs]
    for path in dict.fromkeys(path for unscored, _ in below for path in unscored):
        note(f"{path} has no scores: the benchmark does not publish its ground truth.")
    unfinished = list(dict.fromkeys(path for _, paths in below for path in paths))
    for path in unfinished:
        note(f"{path} is unfinished and left out; run the same `harness eval` to finish it.")
    for text in board.notes_on_older_scorers:
        note(text)
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
    from harness.leaderboards.baseline import blind_tasks, by_task
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
    by_task(map(Run.open, folders), "baseline")  # refuses two runs of a task
    for folder in folders:
        copy = arguments.out / folder.relative_to(arguments.runs)
        keep_run(Run.open(folder), copy)
        say(copy)
    for task, groups, needed in blind_tasks([*map(Run.open, folders)]):
        note(
            f"a gate with this baseline cannot show a drop of {task} alone: it has "
            f"{counted(groups, 'image or video', 'images or videos')}, {needed} are needed"
        )
    return 0


def check(arguments: Namespace) -> int:
    """Compare a candidate with a baseline; exit code 1 if it is worse or cannot be compared."""
    from harness.leaderboards.baseline import update
    from harness.leaderboards.gate import check as check_gate
    from harness.leaderboards.gate import drops

    if not 0 < arguments.level < 1:
        raise UsageError("--level", expected="a number between 0 and 1", found=str(arguments.level))
    formats = _formats(arguments)
    limits = drops(arguments.max_drop)
    task_names = (part.strip() for text in arguments.tasks or () for part in text.split(","))
    tasks = list(filter(None, task_names)) or None
    report = check_gate(
        arguments.baseline,
        arguments.candidate,
        max_drop=limits.pop("", MAX_DROP),
        max_drops=limits,
        tasks=tasks,
        max_cut=arguments.max_cut,
        fail_on_inconclusive=arguments.fail_on_inconclusive,
        level=arguments.level,
        data_root=arguments.data,
        site=arguments.site,
    )
    for name, path in formats:
        text = _rendered(report, name, path)
        if path is None:
            print(text, end="")
        else:
            write_text(path, text)
    if not arguments.update_baseline:
        return 0 if report.is_passed else 1
    for replaced in update(arguments.baseline, arguments.candidate, tasks=tasks):
        say(f"replaced: {replaced}", to=sys.stderr)
    return 0


def _formats(arguments: Namespace) -> list[tuple[str, Path | None]]:
    """Return the formats of the gate's report, each with its file; None: standard output."""
    if arguments.json:
        arguments.format = [*(arguments.format or ()), "json"]
    usual = "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"
    formats: list[tuple[str, Path | None]] = []
    for text in arguments.format or ():
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
    printed = [name for name, path in formats if path is None]
    if len(printed) > 1:
        raise UsageError("--format", expected="a file for all but one", found="several without")
    if not printed:
        formats.insert(0, ("text" if formats else usual, None))
    return formats


def _rendered(report: "GateReport", name: str, path: Path | None) -> str:
    """Return the gate's report in a format; a badge for a path is SVG or JSON by its suffix."""
    from harness.leaderboards import gate_formats

    if name == "badge":
        return gate_formats.badge_file(report, "" if path is None else path.suffix.lower())
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
    """Write adaptation.md, adaptation.json and one figure for each table of adapted runs."""
    from harness.leaderboards.adaptation import reports
    from harness.leaderboards.adaptation_tables import charts, to_markdown
    from harness.leaderboards.figure import figure

    all_reports = reports(
        arguments.runs,
        metric=arguments.metric,
        data_root=arguments.data,
        score_texts=arguments.texts,
    )
    plain = [report.to_json() for report in all_reports]
    files = {"adaptation.md": to_markdown(all_reports).encode()}
    for number, report in enumerate(all_reports, 1):
        if panels := charts(report):
            files[f"adaptation-{number}.svg"] = figure(panels).encode()
    with writing(arguments.out):
        arguments.out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_bytes(arguments.out / name, content)
    write_json(arguments.out / "adaptation.json", plain)
    paths = [str(arguments.out / name) for name in (*files, "adaptation.json")]
    tell(arguments, {"files": paths}, *paths)
    return 0
