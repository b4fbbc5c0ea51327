"""Arguments of `harness board` and `harness reproduce`."""

from pathlib import Path

from harness.cli.arguments.shared import (
    WHERE_READ,
    Commands,
    Options,
    actions_of,
    add_data_root,
    add_json,
    command,
    flag,
    option,
)

DROP = 0.02
CUT = 0.05
GATE_FORMATS = ("text", "markdown", "junit", "github", "json")


def add_board(commands: Commands) -> None:
    """`harness board`."""
    actions = actions_of(commands, "board", "build leaderboards, and gate a change by them")
    build = command(actions, "build", "write a board as Markdown, JSON and Parquet")
    _add_board(build, "where the files go")
    about = "the board, its runs and every sample as a folder of pages, which opens from disk"
    site = command(actions, "site", about)
    _add_board(site, "a new folder, or an earlier site, which is replaced")
    flag(site, "--no-images", "leave images out")
    about = "save a small baseline (scores and metadata only) to commit to your repository"
    keep = command(actions, "keep", about)
    option(keep, "--runs DIR", "a folder with runs below it", required=True)
    option(keep, "--out DIR", "a new folder", required=True)
    _add_check(actions)
    about = "gains, regressions, cost and curves by step of models that adapt to each sample"
    adaptation = command(actions, "adaptation", about)
    about = "folders with runs below them, those of the models as they are too"
    option(adaptation, "--runs DIR", about, required=True, repeated=True)
    about = "where adaptation.md, adaptation.json and the figures go"
    option(adaptation, "--out DIR", about, required=True)
    add_data_root(adaptation, WHERE_READ)
    about = "compare by this metric of the runs (default: each task's headline)"
    option(adaptation, "--metric NAME", about)
    flag(adaptation, "--texts", "read and score pseudo-labels, and the answers of trace=true, too")
    add_json(adaptation)


def _add_check(actions: Commands) -> None:
    check = command(
        actions,
        "check",
        "gate: compare a candidate with a baseline, sample by sample; exit code 1 if worse",
        "example: harness board check --baseline baseline --candidate runs/pocket "
        "--max-drop reason_seg=0.05\nSee docs/ci.md.",
    )
    option(check, "--baseline DIR", "runs to compare with", required=True)
    option(check, "--candidate DIR", "runs of the change", required=True)
    about = "compare only these, several with commas or repeated (default: all of the baseline)"
    option(check, "--tasks NAMES", about, repeated=True)
    about = (
        "fail if the score, or the share of answered samples, drops by more than X, even if the "
        f"drop is not significant (default {DROP}), unless this data cannot detect such a drop; "
        "may be repeated"
    )
    option(check, "--max-drop [TASK=]X", about, repeated=True)
    about = (
        "refuse to compare runs whose shares of samples cut off by the limit of new tokens "
        "differ by more than X, and by more than one sample (default %(default)s)"
    )
    option(check, "--max-cut X", about, default=CUT)
    about = (
        "level of the intervals (default %(default)s); a drop is significant if its p value, "
        "corrected for the number of tasks, is at most 1 - level"
    )
    option(check, "--level", about, default=0.95)
    about = (
        f"{', '.join(GATE_FORMATS)}; may be repeated (default: text; in GitHub Actions github: "
        "text, annotations and the job's summary)"
    )
    option(check, "--format NAME[=FILE]", about, repeated=True)
    about = "link worsened samples to a site of both, which `board site --runs … --runs …` wrote"
    option(check, "--site DIR|URL", about, default="")
    about = "replace the baseline's runs by copies of the candidate's; exit code 0"
    flag(check, "--update-baseline", about)
    add_data_root(check, WHERE_READ)
    add_json(check)


def _add_board(parser: Options, out: str) -> None:
    about = "a folder with runs below it; may be repeated"
    option(parser, "--runs DIR", about, required=True, repeated=True)
    option(parser, "--out DIR", out, required=True)
    add_data_root(parser, WHERE_READ)
    about = "the table of a paper, or a board's TOML file: only its runs"
    option(parser, "--board PAPER/TABLE|FILE", about)
    option(parser, "--title", "the board's heading", default="Leaderboard")
    flag(parser, "--no-published", "leave the numbers of papers out")
    add_json(parser)


def add_reproduce(commands: Commands) -> None:
    """`harness reproduce`."""
    about = "make a paper's table: train, evaluate, board; finished parts are not made again"
    parser = command(commands, "reproduce", about, "example: harness reproduce dr2seg 3 --dry-run")
    about = "such as dr2seg or shapes, or a folder of boards; a wrong name lists what there is"
    option(parser, "paper PAPER", about)
    option(parser, "table TABLE", "the table's number")
    flag(parser, "--dry-run", "print the commands, hours and memory; run nothing")
    add_data_root(parser)
    about = "for trainings, runs and boards, which tables share (default %(default)s)"
    option(parser, "--out DIR", about, default=Path("reproduce"))
    about = "to estimate for, such as H100 (default: this machine's)"
    option(parser, "--device NAME", about)
