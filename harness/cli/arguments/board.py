"""Arguments of `harness board` and `harness reproduce`."""

import re
from pathlib import Path

from harness.cli.arguments.shared import WHERE_READ, Commands, Options, actions_of, command
from harness.errors import UsageError

MAX_DROP = 0.02  # default of --max-drop: difference of scores
MAX_CUT = 0.05  # default of --max-cut: difference of shares of truncated responses
TABLE_FORMATS = ("latex", "markdown", "csv")
GATE_FORMATS = ("text", "markdown", "junit", "github", "json", "badge")


def add_board(commands: Commands) -> None:
    """Add `harness board` and its actions."""
    actions = actions_of(
        commands, "board", "build leaderboards and sites, draw curves, and gate a change"
    )
    build = command(actions, "build", "write a board as Markdown, JSON and Parquet")
    _add_output_options(build, "the folder for the files")
    _add_table(build.group("one table, models × tasks"))
    about = "write the board, its runs and every sample as pages that open from disk"
    site = command(actions, "site", about)
    _add_output_options(site, "a new folder, or an earlier site to replace")
    site.flag("--no-images", "leave images out")
    about = "save a small baseline (scores and metadata only) to commit to your repository"
    keep = command(actions, "keep", about)
    keep.option("--runs DIR", "a folder with runs", required=True)
    keep.option("--out DIR", "a new folder", required=True)
    _add_check(actions)
    _add_curves(actions)
    about = "report gains, regressions, cost and curves of test-time training"
    adaptation = command(actions, "adaptation", about)
    about = "folders with runs, including those of the base models"
    adaptation.option("--runs DIR", about, required=True, repeated=True)
    about = "the folder for adaptation.md, adaptation.json and the figures"
    adaptation.option("--out DIR", about, required=True)
    adaptation.data(WHERE_READ)
    about = "compare by this metric of the runs (default: each task's headline)"
    adaptation.option("--metric NAME", about)
    adaptation.flag("--texts", "also parse and score pseudo-labels, and the answers of trace=true")
    adaptation.json()


def _add_curves(actions: Commands) -> None:
    """Add `harness board curves`."""
    parser = command(
        actions,
        "curves",
        "draw training curves; seeds of one recipe are one line with its range",
        "example: harness board curves runs/dr2seg-0 runs/dr2seg-1 runs/base-0 "
        "--y answer_entropy,think_length,rewards/accuracy --out figure.svg",
        function="cli.curves:curves",
    )
    parser.option("runs RUN", "training folders", nargs="+")
    about = "separated by commas or repeated; without it and --out the logged numbers are listed"
    parser.option("--y NAMES", f"numbers of curve.jsonl, {about}", repeated=True)
    parser.option("--out FILE.svg", "the file of the figure, needed with --y")
    about = "average each value with the N - 1 previous ones (default 1)"
    parser.option("--smooth N", about, default=1)
    parser.json()


def _add_table(table: Options) -> None:
    """Add the options of the table of models and tasks."""
    about = f"also write the table as {', '.join(TABLE_FORMATS)}; may be repeated"
    table.option("--format NAME", about, repeated=True, choices=TABLE_FORMATS)
    about = "tasks in the order of the columns, as `NAME` or `NAME(split=SPLIT)` (default: all)"
    table.option("--tasks TASKS", about, default="")
    about = "a row and its label; repeated in the order of the rows (default: all)"
    table.option("--rows NAME[=LABEL]", about, repeated=True)
    table.flag("--published", "add the rows that papers print by the same protocol")
    about = "columns of each task: headline (default), all, or names separated by commas"
    table.option("--metrics NAMES", about, default="headline")
    about = (
        "interval: both ends of the 95 %% interval (default); pm: ± the larger distance to an end, "
        "where that stays between 0 and 100 %%; none"
    )
    table.option("--spread HOW", about, default="interval", choices=("pm", "interval", "none"))
    table.flag("--fractions", "print scores as fractions instead of percent")
    table.option(
        "--label NAME", "the label in LaTeX (default: made from --title)", tex_label, default=""
    )
    table.option("--digits N", "decimal places (default: 1 for percent, 3 for other numbers)", int)


def tex_label(text: str) -> str:
    r"""Return a label that `\ref` can name; a type of `add_argument`."""
    if not re.fullmatch(r"[\w:./ -]*", text):
        raise UsageError("--label", expected="letters, digits and :./-_", found=text)
    return text


def _add_check(actions: Commands) -> None:
    """Add `harness board check`, the gate."""
    check = command(
        actions,
        "check",
        "gate: compare a candidate with a baseline, sample by sample; exit code 1 if worse",
        "example: harness board check --baseline baseline --candidate runs/pocket "
        "--max-drop reason_seg=0.05\nSee docs/ci.md.",
    )
    check.option("--baseline DIR", "the runs to compare with", required=True)
    check.option("--candidate DIR", "the runs of the change", required=True)
    about = (
        "compare only these tasks, separated by commas or repeated (default: all of the baseline)"
    )
    check.option("--tasks NAMES", about, repeated=True)
    about = (
        "fail if the score, or the share of answered samples, drops by more than X, even if the "
        f"drop is not significant (default {MAX_DROP}), unless chance can explain it; may be "
        "repeated"
    )
    check.option("--max-drop [TASK=]X", about, repeated=True)
    about = (
        "refuse to compare runs if their shares of truncated responses differ by more than X, "
        "and by more than one sample (default %(default)s)"
    )
    check.option("--max-cut X", about, default=MAX_CUT)
    about = "fail also on tasks marked ?, whose samples could hide a drop of --max-drop"
    check.flag("--fail-on-inconclusive", about)
    about = (
        "level of the intervals (default %(default)s); a drop is significant if its p value, "
        "corrected for the number of tasks, is at most 1 - level"
    )
    check.option("--level", about, default=0.95)
    about = (
        f"{', '.join(GATE_FORMATS)}; may be repeated (default: text; in GitHub Actions github, "
        "which prints text as well, with annotations and the job's summary); badge=FILE.svg is a "
        "picture, badge=FILE.json what shields.io reads"
    )
    check.option("--format NAME[=FILE]", about, repeated=True)
    about = "link worsened samples to a site of both runs, made with `board site --runs … --runs …`"
    check.option("--site DIR|URL", about, default="")
    about = "replace the baseline's runs by copies of the candidate's; exit code 0"
    check.flag("--update-baseline", about)
    check.data(WHERE_READ)
    check.json()


def _add_output_options(parser: Options, out: str) -> None:
    """Add the options of actions that write a board; `out` is the help of `--out`."""
    about = "a folder with runs; may be repeated"
    parser.option("--runs DIR", about, required=True, repeated=True)
    parser.option("--out DIR", out, required=True)
    parser.data(WHERE_READ)
    about = "only the runs of a paper's table, or of a board's TOML file"
    parser.option("--board PAPER/TABLE|FILE", about)
    parser.option("--title", "the board's heading", default="Leaderboard")
    parser.flag("--no-published", "leave out published numbers")
    about = "of the index by which unchanged runs are not read again (default: $HARNESS_DB, else "
    parser.database(f"{about}this machine's if there is one)")
    parser.json()


def add_reproduce(commands: Commands) -> None:
    """Add `harness reproduce`."""
    about = "make a paper's table: train, evaluate, build the board; finished parts are kept"
    parser = command(commands, "reproduce", about, "example: harness reproduce dr2seg 3 --dry-run")
    about = "a paper, such as dr2seg, or a folder of boards; an unknown name lists the papers"
    parser.option("paper PAPER", about, nargs="?")
    parser.option("table TABLE", "the table's number", nargs="?")
    parser.flag("--dry-run", "print the commands, hours and memory; run nothing")
    parser.rehearse()
    parser.flag("--all", "rehearse every table of the papers (with --rehearse)")
    about = "only rows called NAME, or PAPER/TABLE: NAME; may be repeated"
    parser.option("--rows NAME", about, repeated=True)
    parser.data()
    about = "the folder for trainings, runs and boards, which tables share (default %(default)s)"
    parser.option("--out DIR", about, default=Path("reproduce"))
    about = "the device for estimates, such as H100 (default: this machine's)"
    parser.option("--device NAME", about)
