"""Arguments of the commands that compute scores: `eval`, `sweep`, `score` and `verify`."""

from argparse import ArgumentParser
from pathlib import Path

from harness.cli.arguments.shared import (
    Commands,
    add_config,
    add_data_root,
    add_json,
    add_judge,
    add_metrics,
    add_tasks_and_data,
    command,
    flag,
    share,
)

LINES = """A line of FILE is a JSON object: "id", and one of "response", "boxes", "points", "masks",
"answer", "no_target". A sample without a line counts as failed. See docs/predictions.md.
"""

FORMATS = (
    "jsonl",
    "lmms-eval",
    "vlmevalkit",
    "inspect",
    "every-eval-ever",
    "video-mme",
    "tempcompass",
    "sti",
    "vsi",
    "png-tree",
    "label-tree",
    "mask-tree",
)
"""Formats that `harness score` reads. `harness.formats` defines them, but is slow to import."""


LOGS = ("lmms-eval", "vlmevalkit", "inspect", "every-eval-ever")
"""Formats that `harness diff` compares a run with."""


def add_eval(commands: Commands) -> None:
    """`harness eval`."""
    parser = command(
        commands,
        "eval",
        "predict and score",
        function="evaluate:evaluate",
        epilog="example: harness eval --model saliency --tasks reason_seg,mevis "
        "--data ROOT --out runs",
    )
    _evaluation(parser)


def add_sweep(commands: Commands) -> None:
    """`harness sweep`."""
    parser = command(
        commands,
        "sweep",
        "evaluate one model under several settings",
        epilog="example: harness sweep --model pocket --vary frames=2,4,8 "
        "--tasks mevis --data ROOT --out runs",
    )
    parser.add_argument(
        "--vary",
        action="append",
        metavar="SETTING=VALUES",
        help="of the model's "
        "SPEC, with commas; backend.max_pixels=… reaches inside; may be repeated",
    )
    flag(
        parser,
        "--grid",
        "every combination (default: one setting at a time, and the model as it is)",
    )
    _evaluation(parser)


def _evaluation(parser: ArgumentParser) -> None:
    parser.usage = "%(prog)s --model SPECS --tasks SPECS --data ROOT --out DIR [options]"
    what = parser.add_argument_group("what to evaluate")
    what.add_argument(
        "--model",
        action="append",
        metavar="SPECS",
        help="required: NAME or NAME(key=value,…), several with commas or repeated",
    )
    add_tasks_and_data(what)
    what.add_argument("--subset", help="first<N>, seed<S>-<N>, or a file with one id a line")
    add_metrics(what)
    add_judge(what)
    what.add_argument("--seed", type=int, default=0, help="of sampling (default 0)")
    flag(
        what,
        "--strict-split",
        "refuse if the model's checkpoint says that it was trained on some of it",
    )
    flag(
        what, "--allow-missing", "count samples with missing or damaged images as failed and go on"
    )
    add_config(what)
    where = parser.add_argument_group("results")
    where.add_argument("--out", type=Path, metavar="DIR", help="required: where run folders go")
    where.add_argument(
        "--name",
        help="of one model, for its folder, record and boards (default: "
        "the model's own, and its SPEC for the folder)",
    )
    flag(where, "--quiet", "no progress")
    add_json(where)
    speed = parser.add_argument_group("speed and machines")
    speed.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="samples in a batch (default: the model's own)",
    )
    speed.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that each hold the model (default 1: this one)",
    )
    speed.add_argument(
        "--shard",
        type=share,
        metavar="I/N",
        help="predict the I-th of N shares, without scores; folders of all shares copied together "
        "are finished by the same command without --shard",
    )
    speed.add_argument(
        "--submitit",
        metavar="KEY=VALUE,…",
        help="run the command as a job of Slurm with these parameters of submitit, such as "
        "partition=gpu,nodes=2,gpus_per_node=8,timeout_min=240: a process a GPU",
    )
    flag(speed, "--isolate", "give the model decoded images in a process without file handles")
    speed.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="restart a worker that reports nothing for SECONDS",
    )
    speed.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="let the workers be actors of a Ray cluster; `local` begins one",
    )
    speed.add_argument(
        "--worker-gpus",
        type=float,
        metavar="N",
        help="GPUs of each actor, such as 0.5; with 0 they compute on the CPU "
        "(default: 1, or an equal share, where the cluster has GPUs)",
    )
    speed.add_argument(
        "--worker-wait",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="how long an actor may wait for a machine with room for it (default 120)",
    )
    again = parser.add_argument_group("a run that exists (the same command resumes it)")
    flag(again, "--retry-failed", "predict again what failed")
    flag(again, "--restart", "set an earlier run in the same folder aside and begin anew")
    flag(again, "--rescore", "overwrite stored results if re-scoring gives different numbers")
    stop = parser.add_argument_group("stop early (docs/ci.md)")
    stop.add_argument(
        "--against",
        type=Path,
        metavar="RUN",
        help="compare with this finished run, group by group in an order that --seed draws",
    )
    flag(
        stop,
        "--until-decided",
        "stop once the model is shown to be worse, or not worse by the margin; exit code 1 "
        "if worse. The run stays unfinished: it has no score of the full set",
    )
    stop.add_argument(
        "--margin",
        type=float,
        default=0.05,
        metavar="X",
        help="the drop that matters (default %(default)s)",
    )


def add_score(commands: Commands) -> None:
    """`harness score`."""
    parser = command(
        commands,
        "score",
        "score predictions that exist: a file from elsewhere, or a run",
        epilog=LINES,
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders")
    add_tasks_and_data(parser)
    parser.add_argument(
        "--predictions", type=Path, metavar="FILE", help="JSON lines, or what --format says"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="jsonl",
        metavar="NAME",
        help=f"of FILE: {', '.join(FORMATS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="of --format mask-tree: a probability above it is foreground (default 0.5)",
    )
    parser.add_argument(
        "--model",
        metavar="SPEC",
        help='reads "response" lines, or a RUN again, such as qwen_vl(backend=stored)',
    )
    parser.add_argument(
        "--protocols",
        metavar="NAMES",
        help="score a RUN's predictions by these protocols of its benchmark, or by `all`; boards "
        "show what `all` gives",
    )
    parser.add_argument("--name", help="the name on boards (default: the file's)")
    parser.add_argument("--subset", help="first<N>, seed<S>-<N>, or a file with one id a line")
    flag(parser, "--allow-extra", "ignore lines with unknown ids")
    flag(parser, "--allow-missing", "go on where images or videos are missing")
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that score RUNs (default 1)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="leave a run folder for boards")
    add_metrics(parser)
    add_judge(parser)
    add_config(parser)
    add_json(parser)


def add_diff(commands: Commands) -> None:
    """`harness diff`."""
    parser = command(
        commands,
        "diff",
        "why two numbers differ: what each stage explains, from a run to another or to a log",
        epilog="examples: harness diff runs/old/mevis runs/new/mevis --out waterfall.svg\n"
        "          harness diff runs/mine/video_mme samples_videomme.jsonl --format lmms-eval",
    )
    parser.add_argument("a", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("b", type=Path, metavar="OTHER", help="another run, or a log of --format")
    parser.add_argument(
        "--format",
        choices=LOGS,
        metavar="NAME",
        help=f"OTHER is a log of {', '.join(LOGS)}, with its scores where it has some",
    )
    parser.add_argument(
        "--model", metavar="SPEC", help="reads the log's responses (default: as RUN's model does)"
    )
    _waterfall(parser, data="default: where the runs read them")


def _waterfall(parser: ArgumentParser, *, data: str) -> None:
    add_data_root(parser, data)
    parser.add_argument(
        "--level", type=float, default=0.95, help="of the paired intervals (default %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the waterfall, as .svg or as .html"
    )
    add_json(parser)


def add_audit(commands: Commands) -> None:
    """`harness audit`."""
    parser = command(
        commands,
        "audit",
        "what of a score is seeing: controls without images, in other orders, with a verdict each",
        epilog="examples: harness audit runs/pocket/reason_seg --out audit\n"
        "          harness audit pocket --tasks reason_seg --data ROOT --out audit",
    )
    parser.add_argument("of", metavar="RUN|MODEL", help="a run folder, or a model's SPEC")
    add_tasks_and_data(parser)
    parser.add_argument("--subset", help="of a MODEL: first<N>, seed<S>-<N>, or a file of ids")
    parser.add_argument("--seed", type=int, default=0, help="of a MODEL's sampling (default 0)")
    parser.add_argument(
        "--controls",
        metavar="NAMES",
        help="with commas: grey, swapped, shuffled, omitted, reasoning, options, frames, "
        "contamination (default: all that apply)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="where audit.html, audit.json, badge.svg and the controls' runs go",
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="worker processes (default 1)"
    )
    add_json(parser)


def add_ladder(commands: Commands) -> None:
    """`harness ladder`."""
    parser = command(
        commands,
        "ladder",
        "where masks are lost: one stage after another replaced by the truth",
        epilog="example: harness ladder runs/pocket/mevis --out ladder.svg",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run of a task with masks")
    _waterfall(parser, data="default: where the run read it")


def add_verify(commands: Commands) -> None:
    """`harness verify`."""
    parser = command(
        commands,
        "verify",
        "check that ground-truth answers get the maximum score, as answers and as response text",
    )
    add_tasks_and_data(parser)
    parser.add_argument(
        "--model",
        metavar="SPEC",
        default="qwen_vl(backend=stored)",
        help="whose grammar writes and reads the responses (default: %(default)s); "
        "none: answers only",
    )
    add_json(parser)


def add_conform(commands: Commands) -> None:
    """`harness conform`."""
    parser = command(
        commands,
        "conform",
        "hold somebody else's scorer against a protocol, on small adversarial cases",
        epilog="example: harness conform --protocol rvos/mevis "
        "--scorer 'python their_eval.py {truth_masks} {pred_masks}'\nThe files that it gets, and "
        "the number that it prints: docs/differences.md.",
    )
    parser.add_argument(
        "--scorer",
        required=True,
        metavar="CMD",
        help="a command line with {truth} and {pred} (JSON lines), or {truth_masks} and "
        "{pred_masks} (folders of PNG)",
    )
    parser.add_argument("--protocol", required=True, metavar="NAME", help="such as seg/lisa")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-6,
        metavar="X",
        help="largest difference that is none (default %(default)s)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="X",
        help="what a score of 1 is in its output, such as 100 (default 1)",
    )
    add_json(parser)
