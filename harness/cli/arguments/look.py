"""Arguments of the commands that change nothing: `list`, `view`, `explain`, `samples`, `curves`."""

from pathlib import Path

from harness.cli.arguments.shared import (
    WHERE_READ,
    Commands,
    add_data_root,
    add_json,
    command,
    count,
    flag,
    option,
)
from harness.spec import KINDS


def add_list(commands: Commands) -> None:
    """`harness list`."""
    about = "the plugins that are installed"
    parser = command(commands, "list", about, function="show:list_plugins")
    about = f"{', '.join(KINDS)}; without, how many there are of each"
    option(parser, "kind KIND", about, nargs="?", choices=KINDS)
    option(parser, "name", "show all there is to say about this one", nargs="?")
    add_json(parser)


def add_view(commands: Commands) -> None:
    """`harness view`."""
    about = "look at runs in a browser, every sample, also while they go on; for this machine alone"
    parser = command(commands, "view", about)
    option(parser, "runs RUN|DIR", "a run, or a folder with runs below", Path, nargs="+")
    add_data_root(parser, WHERE_READ)
    option(parser, "--title", "the heading", default="Runs")
    option(parser, "--port N", "default: any that is free", default=0)


def add_explain(commands: Commands) -> None:
    """`harness explain`."""
    parser = command(
        commands,
        "explain",
        "one sample of a run: prompt, pixels, response, what was read, masks, score; "
        "or a training's rollouts",
        "examples: harness explain runs/saliency/reason_seg SAMPLE --image sample.png\n"
        "          harness explain TRAINING --out rollouts.html",
    )
    option(parser, "run RUN", "a run folder, or a training's")
    about = "its official id; of a training, only this one's rollouts"
    option(parser, "sample SAMPLE", about, nargs="?")
    add_data_root(parser, "default: where the run read them")
    option(parser, "--image FILE.png", "write ground truth and prediction over the image")
    option(parser, "--out FILE.html", "of a training: its page (default: RUN/rollouts.html)")
    about = "of a training: prompts that are shown, spread over its steps (default 24)"
    option(parser, "--groups N", about)
    add_json(parser)


def add_samples(commands: Commands) -> None:
    """`harness samples`."""
    about = "the samples of a run with their scores, the worst first"
    example = "example: harness samples runs/pocket/reason_seg --limit 5"
    parser = command(commands, "samples", about, example)
    option(parser, "run RUN", "a run folder")
    add_data_root(parser, "default: where the run read them")
    about = "worst first, best first, or by id (default %(default)s)"
    option(parser, "--sort", about, default="score", choices=("score", "-score", "id"))
    option(parser, "--metric NAME", "default: the headline")
    option(parser, "--limit N", "at most N samples", count)
    flag(parser, "--failed", "only samples without an answer")
    add_json(parser)


def add_curves(commands: Commands) -> None:
    """`harness curves`."""
    parser = command(
        commands,
        "curves",
        "draw what trainings logged, by step; seeds of one recipe as a line and its range",
        "example: harness curves runs/dr2seg-0 runs/dr2seg-1 runs/base-0 "
        "--y answer_entropy,think_length,rewards/accuracy --out figure.svg",
    )
    option(parser, "runs RUN", "training folders", nargs="+")
    about = "several with commas or repeated; without, those that were logged are listed"
    option(parser, "--y NAMES", f"numbers of curve.jsonl, {about}", repeated=True)
    option(parser, "--out FILE.svg", "the figure", required=True)
    about = "average each value with the N - 1 before it (default 1)"
    option(parser, "--smooth N", about, default=1)
    add_json(parser)
