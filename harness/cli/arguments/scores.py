"""Arguments of `harness eval` and `score`, and of the commands that compare or test scores."""

from pathlib import Path
from typing import get_args

from harness.cli.arguments.shared import (
    SUBSET,
    WHERE_READ,
    Commands,
    Options,
    command,
    count,
    share,
)
from harness.coordinates import Coordinates
from harness.run.budget import budget

LINES = """A line of FILE is a JSON object: "id", and one of "response", "boxes", "points", "masks",
"answer", "no_target". A sample without a line counts as failed. See docs/predictions.md.
"""

EVALUATION_USAGE = "%(prog)s --model SPECS --tasks SPECS --data ROOT --out DIR [options]"
LOGS = ("lmms-eval", "vlmevalkit", "inspect", "evalscope", "every-eval-ever")
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
    """Add `harness eval`."""
    parser = command(
        commands,
        "eval",
        "predict and score",
        "example: harness eval --model saliency --tasks reason_seg,mevis --data ROOT --out runs\n"
        "         harness eval --model pocket --vary frames=2,4,8 "
        "--tasks mevis --data ROOT --out runs",
        function="cli.sweep:evaluate_or_sweep",
        usage=EVALUATION_USAGE,
    )
    _evaluation(parser)
    parser.group("rehearsal").rehearse()


def _evaluation(parser: Options) -> None:
    """Add the options of an evaluation, in the groups of the help."""
    what = parser.group("what to evaluate")
    about = "required: NAME or NAME(key=value,…), several with commas or repeated"
    what.option("--model SPECS", about, repeated=True)
    what.tasks_and_data()
    what.option("--subset", SUBSET)
    what.metrics()
    what.judge()
    what.option("--seed", "seed of sampling (default 0)", default=0)
    about = "refuse if the checkpoint was trained on some of the samples"
    what.flag("--strict-split", about)
    about = "count samples with missing or damaged images as failed"
    what.flag("--allow-missing", about)
    what.config()
    several = parser.group("other settings of a model")
    about = "ask, show and generate as the model's vendor does on these tasks, or refuse"
    several.flag("--as-vendor", f"{about} (docs/models/vendor.md)")
    about = (
        "evaluate the model once for each of these values of a setting of its SPEC, separated by "
        "commas; backend.max_pixels=… is an inner setting; may be repeated"
    )
    several.option("--vary SETTING=VALUES", about, repeated=True)
    about = "with --vary every combination (default: one at a time, and the model's defaults)"
    several.flag("--grid", about)
    where = parser.group("results")
    where.option("--out DIR", "required: the folder for run folders")
    about = "(default: the model's own name, and its SPEC for the folder)"
    where.option("--name", f"the model's name in its folder, record and boards {about}")
    where.flag("--quiet", "print no progress")
    where.json()
    about = (
        "largest share of samples lost to servers, nodes or files (default %(default)s); with more"
    )
    where.option(
        "--infrastructure-limit SHARE", f"{about} there is no score, and exit code 6", default=0.05
    )
    speed = parser.group("speed and machines")
    speed.option("--batch-size N", "samples per batch (default: the model's own)")
    about = "processes, each with its own model (default 1: this process)"
    speed.option("--workers N", about, default=1)
    about = (
        "predict the I-th of N shares, without scores; copy the folders of all shares together "
        "and run the command without --shard to finish"
    )
    speed.option("--shard I/N", about, share)
    about = (
        "run the command as a Slurm job with these parameters of submitit, such as "
        "partition=gpu,nodes=2,gpus_per_node=8,timeout_min=240; one process per GPU"
    )
    speed.option("--submitit KEY=VALUE,…", about)
    speed.flag("--isolate", "give the model decoded images in a process without file handles")
    speed.option("--timeout SECONDS", "restart a worker that reports nothing for SECONDS")
    about = "run the workers as actors of a Ray cluster; `local` starts one"
    speed.option("--ray ADDRESS", about)
    about = (
        "GPUs per actor, such as 0.5; 0 means the CPU (default: 1, or an equal share, if the "
        "cluster has GPUs)"
    )
    speed.option("--worker-gpus N", about, float)
    about = "longest wait of an actor for a free machine (default 120)"
    speed.option("--worker-wait SECONDS", about, default=120.0)
    again = parser.group("a run that exists (the same command resumes it)")
    again.flag("--retry-failed", "predict failed samples again")
    again.flag("--accept-code", "go on although the code of plugins has changed")
    again.flag("--restart", "rename an earlier run in the same folder and start again")
    again.flag("--rescore", "overwrite stored results if re-scoring gives different numbers")
    cost = parser.group("time, tokens, memory and money (docs/runs.md)")
    about = "predict N samples of all lengths first, and estimate what the rest takes by them"
    cost.option("--pilot N", about, count)
    about = (
        "stop after a time (2h, 90min) or a sum (5$), which all runs of the command share; "
        "finished work is kept, and exit code 8; with --pilot 8 unless N is given"
    )
    cost.option("--budget LIMIT", about, budget)
    stop = parser.group("stop early (docs/ci.md)")
    about = "compare with this finished run, group by group in a random order (--seed)"
    stop.option("--against RUN", about)
    about = (
        "stop once the model is shown to be worse, or not worse by the margin; exit code 1 "
        "if worse. The run stays unfinished: it has no score of the full set"
    )
    stop.flag("--until-decided", about)
    stop.option("--margin X", "the drop that matters (default %(default)s)", default=0.05)


def add_score(commands: Commands) -> None:
    """Add `harness score`."""
    about = "score existing predictions: a file of another program, or a run"
    parser = command(commands, "score", about, LINES)
    parser.option("runs RUN", "run folders", nargs="*")
    parser.tasks_and_data()
    parser.option("--predictions FILE", "a file of JSON lines, or of another --format")
    about = f"format of FILE: {', '.join(FORMATS)} (default: %(default)s)"
    parser.option("--format NAME", about, default="jsonl", choices=FORMATS)
    about = (
        "with --format mask-tree: probabilities above it are foreground; with --format coco "
        "and one mask or a count: detections with a score above it are used (default 0.5)"
    )
    parser.option("--threshold P", about)
    about = (
        "with --format jsonl and coco: coordinates of boxes and points (default: `pixels`, "
        "checked against the image); `normalized_1000`: 0 to 1000; `_yx`: y comes first"
    )
    parser.option("--coordinates NAME", about, choices=get_args(Coordinates))
    about = "with --format jsonl and coco: direction of run-lengths (default: columns, checked)"
    parser.option("--mask-order NAME", about, choices=("columns", "rows"))
    about = 'the model that parses "response" lines or a RUN, such as qwen_vl(backend=stored)'
    parser.option("--model SPEC", about)
    about = (
        "score a RUN's predictions under these protocols of its benchmark, or under `all`; "
        "boards show the scores of `all`, but not in a paper's table"
    )
    parser.option("--protocols NAMES", about)
    parser.option("--name", "the name on boards (default: the file's name)")
    parser.option("--subset", SUBSET)
    parser.flag("--allow-extra", "ignore lines with unknown ids")
    parser.flag("--allow-missing", "continue if images or videos are missing")
    parser.option("--workers N", "processes for scoring RUNs (default 1)", default=1)
    parser.option("--out DIR", "write a run folder for boards")
    parser.flag("--restart", "with --out: rename an earlier run in the same folder")
    parser.metrics()
    parser.judge()
    parser.config()
    parser.json()


def add_diff(commands: Commands) -> None:
    """Add `harness diff`."""
    parser = command(
        commands,
        "diff",
        "explain why two runs, or a run and a log, differ: the share of each stage",
        "examples: harness diff runs/old/mevis runs/new/mevis --out waterfall.svg\n"
        "          harness diff runs/mine/video_mme samples_videomme.jsonl --format lmms-eval",
    )
    parser.option("a RUN", "a run folder")
    parser.option("b OTHER", "another run, or a log of --format", Path)
    about = f"OTHER is a log of one of these: {', '.join(LOGS)}"
    parser.option("--format NAME", about, choices=LOGS)
    about = "the model that parses the log's responses (default: RUN's model)"
    parser.option("--model SPEC", about)
    _waterfall(parser, data=WHERE_READ)


def _waterfall(parser: Options, *, data: str) -> None:
    """Add the options of the commands that draw a waterfall of losses (`harness.cli.waterfall`)."""
    parser.data(data)
    parser.option("--level", "level of the paired intervals (default %(default)s)", default=0.95)
    parser.option("--out FILE", "write the waterfall, as .svg or as .html")
    parser.json()


def add_audit(commands: Commands) -> None:
    """Add `harness audit`."""
    parser = command(
        commands,
        "audit",
        "measure how much of a score needs the images: controls without them, options reordered",
        "examples: harness audit runs/pocket/reason_seg --out audit\n"
        "          harness audit pocket --tasks reason_seg --data ROOT --out audit",
    )
    parser.option("of RUN|MODEL", "a run folder, or a model's SPEC")
    parser.tasks_and_data()
    parser.option("--subset", "for a MODEL: first<N>, seed<S>-<N>, or a file of ids")
    parser.option("--seed", "for a MODEL: seed of sampling (default 0)", default=0)
    about = "grey, swapped, shuffled, omitted, reasoning, options, frames, contamination"
    parser.option("--controls NAMES", f"separated by commas: {about} (default: all that apply)")
    about = "the folder for audit.html, audit.json, badge.svg and the controls' runs"
    parser.option("--out DIR", about, required=True)
    parser.option("--workers N", "worker processes (default 1)", default=1)
    parser.json()


def add_certify(commands: Commands) -> None:
    """Add `harness certify`."""
    parser = command(
        commands,
        "certify",
        "test whether two ways of calling one network are the same model, and show what differs",
        'example: harness certify --model "qwen_vl(checkpoint=DIR)" --against '
        '"qwen_vl(checkpoint=DIR,backend=openai(base_url=http://localhost:8000/v1))" --out DIR\n'
        "exit code 0 if they are shown to be equal, otherwise 1; docs/certify.md explains it",
    )
    parser.option("--model SPEC", "one way", required=True)
    parser.option("--against SPEC", "another way", required=True)
    parser.tasks_and_data()
    about = "number of questions (default %(default)s), of the tasks or of a built-in battery"
    parser.option("--questions N", about, default=50)
    parser.option("--out DIR", "the folder for certificate.html and certificate.json")
    parser.json()


def add_ladder(commands: Commands) -> None:
    """Add `harness ladder`."""
    about = (
        "find the stage where masks are lost: replace one stage after another by the ground truth"
    )
    example = "example: harness ladder runs/pocket/mevis --out ladder.svg"
    parser = command(commands, "ladder", about, example)
    parser.option("run RUN", "a run of a task with masks")
    _waterfall(parser, data="the data root (default: that of the run)")


def add_verify(commands: Commands) -> None:
    """Add `harness verify`."""
    about = "check that ground-truth answers get the maximum score, as answers and as responses"
    parser = command(commands, "verify", about)
    parser.tasks_and_data()
    about = (
        "the model whose grammar writes and parses the responses (default: %(default)s); none: "
        "only answers"
    )
    parser.option("--model SPEC", about, default="qwen_vl(backend=stored)")
    parser.json()


def add_conform(commands: Commands) -> None:
    """Add `harness conform`."""
    parser = command(
        commands,
        "conform",
        "test another scorer against a protocol, on small adversarial cases",
        "example: harness conform --protocol rvos/mevis "
        "--scorer 'python their_eval.py {truth_masks} {pred_masks}'\ndocs/differences.md describes "
        "its input files and its output.",
    )
    about = (
        "a command line with {truth} and {pred} (JSON lines), or {truth_masks} and {pred_masks} "
        "(folders of PNG)"
    )
    parser.option("--scorer CMD", about, required=True)
    parser.option("--protocol NAME", "a protocol, such as seg/lisa", required=True)
    about = "largest difference that counts as equal (default %(default)s)"
    parser.option("--tolerance X", about, default=1e-6)
    about = "the scorer's output for a score of 1, such as 100 (default 1)"
    parser.option("--scale X", about, default=1.0)
    parser.json()
