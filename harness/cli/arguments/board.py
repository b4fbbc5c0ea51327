"""Arguments of `harness view`, `harness board` and `harness reproduce`."""

import argparse
from pathlib import Path

from harness.cli.arguments.shared import (
    Commands,
    actions_of,
    add_data_root,
    add_json,
    add_run_folders,
    command,
    flag,
)

DROP = 0.02
CUT = 0.05
GATE_FORMATS = ("text", "markdown", "junit", "github", "json")


def add_board(commands: Commands) -> None:
    """`harness board`."""
    actions = actions_of(commands, "board", "build leaderboards, and gate a change by them")
    build = command(actions, "build", "write a board as Markdown, JSON and Parquet")
    _add_board(build, "where the files go")
    site = command(
        actions,
        "site",
        "the board, its runs and every sample as a folder of pages, which opens from disk",
    )
    _add_board(site, "a new folder, or an earlier site, which is replaced")
    flag(site, "--no-images", "leave images out")
    keep = command(
        actions,
        "keep",
        "save a small baseline (scores and metadata only) to commit to your repository",
    )
    keep.add_argument(
        "--runs", type=Path, required=True, metavar="DIR", help="a folder with runs below it"
    )
    keep.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    check = command(
        actions,
        "check",
        "gate: compare a candidate with a baseline, sample by sample; exit code 1 if worse",
        epilog="example: harness board check --baseline baseline --candidate runs/pocket "
        "--max-drop reason_seg=0.05\nSee docs/ci.md.",
    )
    check.add_argument(
        "--baseline", type=Path, required=True, metavar="DIR", help="runs to compare with"
    )
    check.add_argument(
        "--candidate", type=Path, required=True, metavar="DIR", help="runs of the change"
    )
    check.add_argument(
        "--tasks",
        action="append",
        metavar="NAMES",
        help="compare only these, several with commas or repeated (default: all of the baseline)",
    )
    check.add_argument(
        "--max-drop",
        action="append",
        metavar="[TASK=]X",
        help="fail if the score, or the share of answered samples, drops by more than X, even if "
        f"the drop is not significant (default {DROP}), unless this data cannot detect such a "
        "drop; may be repeated",
    )
    check.add_argument(
        "--max-cut",
        type=float,
        default=CUT,
        metavar="X",
        help="refuse to compare runs whose shares of samples cut off by the limit of new tokens "
        "differ by more than X, and by more than one sample (default %(default)s)",
    )
    check.add_argument(
        "--level",
        type=float,
        default=0.95,
        help="level of the intervals (default %(default)s); a drop is significant if its p value, "
        "corrected for the number of tasks, is at most 1 - level",
    )
    check.add_argument(
        "--format",
        action="append",
        metavar="NAME[=FILE]",
        help=f"{', '.join(GATE_FORMATS)}; may be repeated (default: text; in GitHub Actions "
        "github: text, annotations and the job's summary)",
    )
    check.add_argument(
        "--site",
        default="",
        metavar="DIR|URL",
        help="link worsened samples to a site of both, which `board site --runs … --runs …` wrote",
    )
    flag(
        check,
        "--update-baseline",
        "replace the baseline's runs by copies of the candidate's; exit code 0",
    )
    add_data_root(check, "default: where the runs read them")
    add_json(check)
    adaptation = command(
        actions,
        "adaptation",
        "gains, regressions, cost and curves by step of models that adapt to each sample",
    )
    add_run_folders(
        adaptation,
        "folders with runs below them, those of the models as they are too",
    )
    adaptation.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="where adaptation.md, adaptation.json and the figures go",
    )
    add_data_root(adaptation, "default: where the runs read them")
    adaptation.add_argument(
        "--metric",
        metavar="NAME",
        help="compare by this metric of the runs (default: each task's headline)",
    )
    flag(adaptation, "--texts", "read and score pseudo-labels, and the answers of trace=true, too")
    add_json(adaptation)


def add_reproduce(commands: Commands) -> None:
    """`harness reproduce`."""
    parser = command(
        commands,
        "reproduce",
        "make a paper's table: train, evaluate, board; finished parts are not made again",
        epilog="example: harness reproduce dr2seg 3 --dry-run",
    )
    parser.add_argument(
        "paper",
        metavar="PAPER",
        help="such as dr2seg or shapes, or a folder of boards; a wrong name lists what there is",
    )
    parser.add_argument("table", metavar="TABLE", help="the table's number")
    flag(parser, "--dry-run", "print the commands, hours and memory; run nothing")
    add_data_root(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("reproduce"),
        metavar="DIR",
        help="for trainings, runs and boards, which tables share (default %(default)s)",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="to estimate for, such as H100 (default: this machine's)"
    )


def add_view(commands: Commands) -> None:
    """`harness view`."""
    parser = command(
        commands,
        "view",
        "look at runs in a browser, every sample, also while they go on; for this machine alone",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN|DIR", help="a run, or a folder with runs below"
    )
    add_data_root(parser, "default: where the runs read them")
    parser.add_argument("--title", default="Runs", help="the heading")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="default: any that is free"
    )


def _add_board(parser: argparse.ArgumentParser, out: str) -> None:
    add_run_folders(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=out)
    add_data_root(parser, "default: where the runs read them")
    parser.add_argument(
        "--board",
        metavar="PAPER/TABLE|FILE",
        help="the table of a paper, or a board's TOML file: only its runs",
    )
    parser.add_argument("--title", default="Leaderboard", help="the board's heading")
    flag(parser, "--no-published", "leave the numbers of papers out")
    add_json(parser)
