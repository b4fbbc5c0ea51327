"""Arguments of the commands that compute scores, and that take one apart."""

from pathlib import Path
from typing import get_args

from harness.cli.arguments.shared import SUBSET, WHERE_READ, Commands, Options, command, share
from harness.coordinates import Coordinates

LINES = """A line of FILE is a JSON object: "id", and one of "response", "boxes", "points", "masks",
"answer", "no_target". A sample without a line counts as failed. See docs/predictions.md.
"""

EVALUATION = "%(prog)s --model SPECS --tasks SPECS --data ROOT --out DIR [options]"
LOGS = ("lmms-eval", "vlmevalkit", "inspect", "every-eval-ever")
"""Formats that `harness diff` compares a run with."""
FORMATS = (
    "jsonl",
    *LOGS,
    "video-mme",
    "tempcompass",
    "blink",
    "sti",
    "vsi",
    "qvhighlights",
    "coco",
    "sa2va",
    "perception-test",
    "png-tree",
    "label-tree",
    "mask-tree",
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
        usage=EVALUATION,
    )
    _evaluation(parser)
    parser.group("rehearsal").rehearse()


def add_sweep(commands: Commands) -> None:
    """`harness sweep`."""
    parser = command(
        commands,
        "sweep",
        "evaluate one model under several settings",
        "example: harness sweep --model pocket --vary frames=2,4,8 "
        "--tasks mevis --data ROOT --out runs",
        usage=EVALUATION,
    )
    about = "of the model's SPEC, with commas; backend.max_pixels=… reaches inside; may be repeated"
    parser.option("--vary SETTING=VALUES", about, repeated=True)
    about = "every combination (default: one setting at a time, and the model as it is)"
    parser.flag("--grid", about)
    _evaluation(parser)


def _evaluation(parser: Options) -> None:
    what = parser.group("what to evaluate")
    about = "required: NAME or NAME(key=value,…), several with commas or repeated"
    what.option("--model SPECS", about, repeated=True)
    what.tasks_and_data()
    what.option("--subset", SUBSET)
    what.metrics()
    what.judge()
    what.option("--seed", "of sampling (default 0)", default=0)
    about = "refuse if the model's checkpoint says that it was trained on some of it"
    what.flag("--strict-split", about)
    about = "count samples with missing or damaged images as failed and go on"
    what.flag("--allow-missing", about)
    what.config()
    where = parser.group("results")
    where.option("--out DIR", "required: where run folders go")
    about = "(default: the model's own, and its SPEC for the folder)"
    where.option("--name", f"of one model, for its folder, record and boards {about}")
    where.flag("--quiet", "no progress")
    where.json()
    about = "of samples that servers, nodes or files may lose (default %(default)s); with more lost"
    where.option(
        "--infrastructure-limit SHARE", f"{about} there is no score, and code 6", default=0.05
    )
    speed = parser.group("speed and machines")
    speed.option("--batch-size N", "samples in a batch (default: the model's own)")
    about = "processes that each hold the model (default 1: this one)"
    speed.option("--workers N", about, default=1)
    about = (
        "predict the I-th of N shares, without scores; folders of all shares copied together "
        "are finished by the same command without --shard"
    )
    speed.option("--shard I/N", about, share)
    about = (
        "run the command as a job of Slurm with these parameters of submitit, such as "
        "partition=gpu,nodes=2,gpus_per_node=8,timeout_min=240: a process a GPU"
    )
    speed.option("--submitit KEY=VALUE,…", about)
    speed.flag("--isolate", "give the model decoded images in a process without file handles")
    speed.option("--timeout SECONDS", "restart a worker that reports nothing for SECONDS")
    about = "let the workers be actors of a Ray cluster; `local` begins one"
    speed.option("--ray ADDRESS", about)
    about = (
        "GPUs of each actor, such as 0.5; with 0 they compute on the CPU (default: 1, or an equal "
        "share, where the cluster has GPUs)"
    )
    speed.option("--worker-gpus N", about, float)
    about = "how long an actor may wait for a machine with room for it (default 120)"
    speed.option("--worker-wait SECONDS", about, default=120.0)
    again = parser.group("a run that exists (the same command resumes it)")
    again.flag("--retry-failed", "predict again what failed")
    again.flag("--restart", "set an earlier run in the same folder aside and begin anew")
    again.flag("--rescore", "overwrite stored results if re-scoring gives different numbers")
    stop = parser.group("stop early (docs/ci.md)")
    about = "compare with this finished run, group by group in an order that --seed draws"
    stop.option("--against RUN", about)
    about = (
        "stop once the model is shown to be worse, or not worse by the margin; exit code 1 "
        "if worse. The run stays unfinished: it has no score of the full set"
    )
    stop.flag("--until-decided", about)
    stop.option("--margin X", "the drop that matters (default %(default)s)", default=0.05)


def add_score(commands: Commands) -> None:
    """`harness score`."""
    about = "score existing predictions: a file of another program, or a run"
    parser = command(commands, "score", about, LINES)
    parser.option("runs RUN", "run folders", nargs="*")
    parser.tasks_and_data()
    parser.option("--predictions FILE", "JSON lines, or what --format says")
    about = f"of FILE: {', '.join(FORMATS)} (default: %(default)s)"
    parser.option("--format NAME", about, default="jsonl", choices=FORMATS)
    about = (
        "of --format mask-tree: a probability above it is foreground; of --format coco: where one "
        "mask or a count is asked, detections with a score above it make it (default 0.5)"
    )
    parser.option("--threshold P", about)
    about = (
        "of --format jsonl and coco: what the numbers of boxes and points are (default: pixels, "
        "which is checked): `pixels`, or `normalized_1000` as other sides; `_yx`: y comes first"
    )
    parser.option("--coordinates NAME", about, choices=get_args(Coordinates))
    about = "of --format jsonl and coco: what run-lengths go along (default: columns, checked)"
    parser.option("--mask-order NAME", about, choices=("columns", "rows"))
    about = 'reads "response" lines, or a RUN again, such as qwen_vl(backend=stored)'
    parser.option("--model SPEC", about)
    about = (
        "score a RUN's predictions by these protocols of its benchmark, or by `all`; boards show "
        "what `all` gives"
    )
    parser.option("--protocols NAMES", about)
    parser.option("--name", "the name on boards (default: the file's)")
    parser.option("--subset", SUBSET)
    parser.flag("--allow-extra", "ignore lines with unknown ids")
    parser.flag("--allow-missing", "go on where images or videos are missing")
    parser.option("--workers N", "processes that score RUNs (default 1)", default=1)
    parser.option("--out DIR", "leave a run folder for boards")
    parser.metrics()
    parser.judge()
    parser.config()
    parser.json()


def add_diff(commands: Commands) -> None:
    """`harness diff`."""
    parser = command(
        commands,
        "diff",
        "explain why two runs, or a run and a log, differ: the share of each stage",
        "examples: harness diff runs/old/mevis runs/new/mevis --out waterfall.svg\n"
        "          harness diff runs/mine/video_mme samples_videomme.jsonl --format lmms-eval",
    )
    parser.option("a RUN", "a run folder")
    parser.option("b OTHER", "another run, or a log of --format", Path)
    about = f"OTHER is a log of {', '.join(LOGS)}, with its scores where it has some"
    parser.option("--format NAME", about, choices=LOGS)
    about = "reads the log's responses (default: as RUN's model does)"
    parser.option("--model SPEC", about)
    _waterfall(parser, data=WHERE_READ)


def _waterfall(parser: Options, *, data: str) -> None:
    parser.data(data)
    parser.option("--level", "of the paired intervals (default %(default)s)", default=0.95)
    parser.option("--out FILE", "write the waterfall, as .svg or as .html")
    parser.json()


def add_audit(commands: Commands) -> None:
    """`harness audit`."""
    parser = command(
        commands,
        "audit",
        "measure how much of a score needs the images: controls without them, options reordered",
        "examples: harness audit runs/pocket/reason_seg --out audit\n"
        "          harness audit pocket --tasks reason_seg --data ROOT --out audit",
    )
    parser.option("of RUN|MODEL", "a run folder, or a model's SPEC")
    parser.tasks_and_data()
    parser.option("--subset", "of a MODEL: first<N>, seed<S>-<N>, or a file of ids")
    parser.option("--seed", "of a MODEL's sampling (default 0)", default=0)
    about = "grey, swapped, shuffled, omitted, reasoning, options, frames, contamination"
    parser.option("--controls NAMES", f"with commas: {about} (default: all that apply)")
    about = "where audit.html, audit.json, badge.svg and the controls' runs go"
    parser.option("--out DIR", about, required=True)
    parser.option("--workers N", "worker processes (default 1)", default=1)
    parser.json()


def add_ladder(commands: Commands) -> None:
    """`harness ladder`."""
    about = "find the stage where masks are lost: replace one stage after another by the truth"
    example = "example: harness ladder runs/pocket/mevis --out ladder.svg"
    parser = command(commands, "ladder", about, example)
    parser.option("run RUN", "a run of a task with masks")
    _waterfall(parser, data="default: where the run read it")


def add_verify(commands: Commands) -> None:
    """`harness verify`."""
    about = "check that ground-truth answers get the maximum score, as answers and as responses"
    parser = command(commands, "verify", about)
    parser.tasks_and_data()
    about = (
        "whose grammar writes and reads the responses (default: %(default)s); none: answers only"
    )
    parser.option("--model SPEC", about, default="qwen_vl(backend=stored)")
    parser.json()


def add_conform(commands: Commands) -> None:
    """`harness conform`."""
    parser = command(
        commands,
        "conform",
        "test another scorer against a protocol, on small adversarial cases",
        "example: harness conform --protocol rvos/mevis "
        "--scorer 'python their_eval.py {truth_masks} {pred_masks}'\nThe files that it gets, and "
        "the number that it prints: docs/differences.md.",
    )
    about = (
        "a command line with {truth} and {pred} (JSON lines), or {truth_masks} and {pred_masks} "
        "(folders of PNG)"
    )
    parser.option("--scorer CMD", about, required=True)
    parser.option("--protocol NAME", "such as seg/lisa", required=True)
    about = "largest difference that is none (default %(default)s)"
    parser.option("--tolerance X", about, default=1e-6)
    about = "what a score of 1 is in its output, such as 100 (default 1)"
    parser.option("--scale X", about, default=1.0)
    parser.json()
