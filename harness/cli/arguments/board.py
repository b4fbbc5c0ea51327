"""Arguments of `harness board`: build, keep, check, adaptation; and of `harness reproduce`."""

from pathlib import Path

from harness.cli.arguments.shared import Commands, add_json, command


def add_board(commands: Commands) -> None:
    """`harness board`."""
    parser = commands.add_parser("board", help="build leaderboards, and gate a change by them")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    build = command(actions, "build", "board:build", "board.md, board.json and board.html")
    build.add_argument(
        "--runs",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="a folder with runs below it; may be repeated",
    )
    build.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where the three files go"
    )
    build.add_argument(
        "--data",
        type=Path,
        metavar="ROOT",
        help="for the gallery (default: where the run read them)",
    )
    build.add_argument(
        "--board",
        metavar="PAPER/TABLE|FILE",
        help="the table of a paper, or a board's TOML file: only its runs",
    )
    build.add_argument("--title", default="Leaderboard", help="the board's heading")
    build.add_argument(
        "--no-published", action="store_true", help="leave the numbers of papers out"
    )
    build.add_argument("--no-gallery", action="store_true", help="leave images out")
    add_json(build)
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


def add_reproduce(commands: Commands) -> None:
    """`harness reproduce`."""
    parser = command(
        commands,
        "reproduce",
        "reproduce:reproduce",
        "make a paper's table: train, evaluate, board; finished parts are not made again",
        epilog="example: harness reproduce dr2seg 3 --dry-run",
    )
    parser.add_argument(
        "paper",
        metavar="PAPER",
        help="such as dr2seg or shapes, or a folder of boards; a wrong name lists what there is",
    )
    parser.add_argument("table", metavar="TABLE", help="the table's number")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the commands, hours and memory; run nothing"
    )
    parser.add_argument(
        "--data", type=Path, metavar="ROOT", help="the folder that holds one folder a benchmark"
    )
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
