"""Arguments of the commands that compute scores, and that take one apart."""

from argparse import ArgumentParser
from pathlib import Path

from harness.cli.arguments.shared import (
    SUBSET,
    WHERE_READ,
    Commands,
    add_config,
    add_data_root,
    add_json,
    add_judge,
    add_metrics,
    add_tasks_and_data,
    command,
    flag,
    option,
    share,
)

LINES = """A line of FILE is a JSON object: "id", and one of "response", "boxes", "points", "masks",
"answer", "no_target". A sample without a line counts as failed. See docs/predictions.md.
"""

LOGS = ("lmms-eval", "vlmevalkit", "inspect", "every-eval-ever")
"""Formats that `harness diff` compares a run with."""
FORMATS = (
    *("jsonl", *LOGS, "video-mme", "tempcompass", "sti", "vsi"),
    *("png-tree", "label-tree", "mask-tree"),
)
"""Formats that `harness score` reads. `harness.formats` defines them, but is slow to import."""


def add_eval(commands: Commands) -> None:
    """`harness eval`."""
    parser = command(
        commands,
        "eval",
        "predict and score",
        "example: harness eval --model saliency --tasks reason_seg,mevis --data ROOT --out runs",
        function="evaluate:evaluate",
    )
    _evaluation(parser)


def add_sweep(commands: Commands) -> None:
    """`harness sweep`."""
    parser = command(
        commands,
        "sweep",
        "evaluate one model under several settings",
        "example: harness sweep --model pocket --vary frames=2,4,8 "
        "--tasks mevis --data ROOT --out runs",
    )
    about = "of the model's SPEC, with commas; backend.max_pixels=… reaches inside; may be repeated"
    option(parser, "--vary SETTING=VALUES", about, repeated=True)
    about = "every combination (default: one setting at a time, and the model as it is)"
    flag(parser, "--grid", about)
    _evaluation(parser)


def _evaluation(parser: ArgumentParser) -> None:
    parser.usage = "%(prog)s --model SPECS --tasks SPECS --data ROOT --out DIR [options]"
    what = parser.add_argument_group("what to evaluate")
    about = "required: NAME or NAME(key=value,…), several with commas or repeated"
    option(what, "--model SPECS", about, repeated=True)
    add_tasks_and_data(what)
    option(what, "--subset", SUBSET)
    add_metrics(what)
    add_judge(what)
    option(what, "--seed", "of sampling (default 0)", default=0)
    about = "refuse if the model's checkpoint says that it was trained on some of it"
    flag(what, "--strict-split", about)
    about = "count samples with missing or damaged images as failed and go on"
    flag(what, "--allow-missing", about)
    add_config(what)
    where = parser.add_argument_group("results")
    option(where, "--out DIR", "required: where run folders go")
    about = "(default: the model's own, and its SPEC for the folder)"
    option(where, "--name", f"of one model, for its folder, record and boards {about}")
    flag(where, "--quiet", "no progress")
    add_json(where)
    speed = parser.add_argument_group("speed and machines")
    option(speed, "--batch-size N", "samples in a batch (default: the model's own)")
    about = "processes that each hold the model (default 1: this one)"
    option(speed, "--workers N", about, default=1)
    about = (
        "predict the I-th of N shares, without scores; folders of all shares copied together "
        "are finished by the same command without --shard"
    )
    option(speed, "--shard I/N", about, share)
    about = (
        "run the command as a job of Slurm with these parameters of submitit, such as "
        "partition=gpu,nodes=2,gpus_per_node=8,timeout_min=240: a process a GPU"
    )
    option(speed, "--submitit KEY=VALUE,…", about)
    flag(speed, "--isolate", "give the model decoded images in a process without file handles")
    option(speed, "--timeout SECONDS", "restart a worker that reports nothing for SECONDS")
    about = "let the workers be actors of a Ray cluster; `local` begins one"
    option(speed, "--ray ADDRESS", about)
    about = (
        "GPUs of each actor, such as 0.5; with 0 they compute on the CPU (default: 1, or an equal "
        "share, where the cluster has GPUs)"
    )
    option(speed, "--worker-gpus N", about, float)
    about = "how long an actor may wait for a machine with room for it (default 120)"
    option(speed, "--worker-wait SECONDS", about, default=120.0)
    again = parser.add_argument_group("a run that exists (the same command resumes it)")
    flag(again, "--retry-failed", "predict again what failed")
    flag(again, "--restart", "set an earlier run in the same folder aside and begin anew")
    flag(again, "--rescore", "overwrite stored results if re-scoring gives different numbers")
    stop = parser.add_argument_group("stop early (docs/ci.md)")
    about = "compare with this finished run, group by group in an order that --seed draws"
    option(stop, "--against RUN", about)
    about = (
        "stop once the model is shown to be worse, or not worse by the margin; exit code 1 "
        "if worse. The run stays unfinished: it has no score of the full set"
    )
    flag(stop, "--until-decided", about)
    option(stop, "--margin X", "the drop that matters (default %(default)s)", default=0.05)


def add_score(commands: Commands) -> None:
    """`harness score`."""
    about = "score predictions that exist: a file from elsewhere, or a run"
    parser = command(commands, "score", about, LINES)
    option(parser, "runs RUN", "run folders", nargs="*")
    add_tasks_and_data(parser)
    option(parser, "--predictions FILE", "JSON lines, or what --format says")
    about = f"of FILE: {', '.join(FORMATS)} (default: %(default)s)"
    option(parser, "--format NAME", about, default="jsonl", choices=FORMATS)
    about = "of --format mask-tree: a probability above it is foreground (default 0.5)"
    option(parser, "--threshold P", about)
    about = 'reads "response" lines, or a RUN again, such as qwen_vl(backend=stored)'
    option(parser, "--model SPEC", about)
    about = (
        "score a RUN's predictions by these protocols of its benchmark, or by `all`; boards show "
        "what `all` gives"
    )
    option(parser, "--protocols NAMES", about)
    option(parser, "--name", "the name on boards (default: the file's)")
    option(parser, "--subset", SUBSET)
    flag(parser, "--allow-extra", "ignore lines with unknown ids")
    flag(parser, "--allow-missing", "go on where images or videos are missing")
    option(parser, "--workers N", "processes that score RUNs (default 1)", default=1)
    option(parser, "--out DIR", "leave a run folder for boards")
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
        "examples: harness diff runs/old/mevis runs/new/mevis --out waterfall.svg\n"
        "          harness diff runs/mine/video_mme samples_videomme.jsonl --format lmms-eval",
    )
    option(parser, "a RUN", "a run folder")
    option(parser, "b OTHER", "another run, or a log of --format", Path)
    about = f"OTHER is a log of {', '.join(LOGS)}, with its scores where it has some"
    option(parser, "--format NAME", about, choices=LOGS)
    about = "reads the log's responses (default: as RUN's model does)"
    option(parser, "--model SPEC", about)
    _waterfall(parser, data=WHERE_READ)


def _waterfall(parser: ArgumentParser, *, data: str) -> None:
    add_data_root(parser, data)
    option(parser, "--level", "of the paired intervals (default %(default)s)", default=0.95)
    option(parser, "--out FILE", "write the waterfall, as .svg or as .html")
    add_json(parser)


def add_audit(commands: Commands) -> None:
    """`harness audit`."""
    parser = command(
        commands,
        "audit",
        "what of a score is seeing: controls without images, in other orders, with a verdict each",
        "examples: harness audit runs/pocket/reason_seg --out audit\n"
        "          harness audit pocket --tasks reason_seg --data ROOT --out audit",
    )
    option(parser, "of RUN|MODEL", "a run folder, or a model's SPEC")
    add_tasks_and_data(parser)
    option(parser, "--subset", "of a MODEL: first<N>, seed<S>-<N>, or a file of ids")
    option(parser, "--seed", "of a MODEL's sampling (default 0)", default=0)
    about = "grey, swapped, shuffled, omitted, reasoning, options, frames, contamination"
    option(parser, "--controls NAMES", f"with commas: {about} (default: all that apply)")
    about = "where audit.html, audit.json, badge.svg and the controls' runs go"
    option(parser, "--out DIR", about, required=True)
    option(parser, "--workers N", "worker processes (default 1)", default=1)
    add_json(parser)


def add_ladder(commands: Commands) -> None:
    """`harness ladder`."""
    about = "where masks are lost: one stage after another replaced by the truth"
    example = "example: harness ladder runs/pocket/mevis --out ladder.svg"
    parser = command(commands, "ladder", about, example)
    option(parser, "run RUN", "a run of a task with masks")
    _waterfall(parser, data="default: where the run read it")


def add_verify(commands: Commands) -> None:
    """`harness verify`."""
    about = "check that ground-truth answers get the maximum score, as answers and as response text"
    parser = command(commands, "verify", about)
    add_tasks_and_data(parser)
    about = (
        "whose grammar writes and reads the responses (default: %(default)s); none: answers only"
    )
    option(parser, "--model SPEC", about, default="qwen_vl(backend=stored)")
    add_json(parser)


def add_conform(commands: Commands) -> None:
    """`harness conform`."""
    parser = command(
        commands,
        "conform",
        "hold somebody else's scorer against a protocol, on small adversarial cases",
        "example: harness conform --protocol rvos/mevis "
        "--scorer 'python their_eval.py {truth_masks} {pred_masks}'\nThe files that it gets, and "
        "the number that it prints: docs/differences.md.",
    )
    about = (
        "a command line with {truth} and {pred} (JSON lines), or {truth_masks} and {pred_masks} "
        "(folders of PNG)"
    )
    option(parser, "--scorer CMD", about, required=True)
    option(parser, "--protocol NAME", "such as seg/lisa", required=True)
    about = "largest difference that is none (default %(default)s)"
    option(parser, "--tolerance X", about, default=1e-6)
    about = "what a score of 1 is in its output, such as 100 (default 1)"
    option(parser, "--scale X", about, default=1.0)
    add_json(parser)
