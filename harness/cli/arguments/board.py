"""Arguments of `harness view` and `harness board`: build, site, keep, check, adaptation."""

import argparse
from pathlib import Path

from harness.cli.arguments.shared import Commands, add_json, command


def add_board(commands: Commands) -> None:
    """`harness board`."""
    parser = commands.add_parser("board", help="build leaderboards, and gate a change by them")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    build = command(actions, "build", "board:build", "board.md and board.json")
    _add_board(build, "where the two files go")
    site = command(
        actions,
        "site",
        "board:site",
        "the board, its runs and every sample as a folder of pages, which opens from disk",
    )
    _add_board(site, "a new folder, or an earlier site, which is replaced")
    site.add_argument("--no-images", action="store_true", help="leave images out")
    keep = command(actions, "keep", "board:keep", "copy of runs what a gate needs, to be committed")
    keep.add_argument(
        "--runs", type=Path, required=True, metavar="DIR", help="a folder with runs below it"
    )
    keep.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    check = command(
        actions,
        "check",
        "board:check",
        "compare a candidate with a baseline, sample by sample; exit code 1 if worse",
    )
    check.add_argument(
        "--baseline", type=Path, required=True, metavar="DIR", help="runs to hold against"
    )
    check.add_argument(
        "--candidate", type=Path, required=True, metavar="DIR", help="runs of the change"
    )
    check.add_argument(
        "--max-loss",
        type=float,
        default=0.02,
        metavar="X",
        help="a loss of score, or of the share of samples answered, that is not significant fails "
        "if it is larger than this and than what the data can detect (default %(default)s)",
    )
    check.add_argument(
        "--level",
        type=float,
        default=0.95,
        help="of the intervals (default 0.95); a loss is significant if p, corrected for the "
        "number of tasks, is at most 1 - level",
    )
    check.add_argument(
        "--data", type=Path, metavar="ROOT", help="default: where the runs read them"
    )
    add_json(check)
    adaptation = command(
        actions,
        "adaptation",
        "board:adaptation",
        "gains, regressions, cost and curves by step of models that adapt to each sample",
    )
    adaptation.add_argument(
        "--runs",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="a folder with runs below it, those of the models as they are too; may be repeated",
    )
    adaptation.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="where adaptation.md, adaptation.json and the figures go",
    )
    adaptation.add_argument(
        "--data", type=Path, metavar="ROOT", help="default: where the runs read them"
    )
    adaptation.add_argument(
        "--texts",
        action="store_true",
        help="read and score pseudo-labels, and the answers of trace=true, too",
    )
    add_json(adaptation)


def add_view(commands: Commands) -> None:
    """`harness view`."""
    parser = command(
        commands,
        "view",
        "view:view",
        "look at runs in a browser, every sample, also while they go on; for this machine alone",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN|DIR", help="a run, or a folder with runs below"
    )
    parser.add_argument(
        "--data", type=Path, metavar="ROOT", help="default: where the runs read them"
    )
    parser.add_argument("--title", default="Runs", help="the heading")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="default: any that is free"
    )


def _add_board(parser: argparse.ArgumentParser, out: str) -> None:
    parser.add_argument(
        "--runs",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="a folder with runs below it; may be repeated",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=out)
    parser.add_argument(
        "--data", type=Path, metavar="ROOT", help="default: where the runs read them"
    )
    parser.add_argument("--title", default="Leaderboard", help="the board's heading")
    add_json(parser)
