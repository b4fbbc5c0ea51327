"""Arguments of `harness list`, `harness view` and `harness explain`."""

from pathlib import Path

from harness.cli.arguments.shared import WHERE_READ, Commands, command
from harness.spec import KINDS


def add_list(commands: Commands) -> None:
    """Add `harness list`."""
    about = "list the installed plugins"
    parser = command(commands, "list", about, function="cli.show:list_plugins")
    about = f"{', '.join(KINDS)}; without KIND: how many of each kind are installed"
    parser.option("kind KIND", about, nargs="?", choices=KINDS)
    parser.option("name", "show this plugin with its main settings", nargs="?")
    parser.flag("--all", "every setting of NAME")
    parser.json()


def add_view(commands: Commands) -> None:
    """Add `harness view`."""
    about = "show every sample of runs in a browser, also while they run; on this machine only"
    parser = command(commands, "view", about)
    parser.option("runs RUN|DIR", "a run, or a folder with runs", Path, nargs="+")
    parser.data(WHERE_READ)
    parser.option("--title", "the heading", default="Runs")
    parser.option("--port N", "the port (default: any free port)", default=0)


def add_explain(commands: Commands) -> None:
    """Add `harness explain`."""
    parser = command(
        commands,
        "explain",
        "show one sample of a run: prompt, pixels, response, parsed answer, masks, score; "
        "or a training's rollouts",
        "examples: harness explain runs/saliency/reason_seg SAMPLE --image sample.png\n"
        "          harness explain TRAINING --out rollouts.html",
    )
    parser.option("run RUN", "a run folder, or a training's")
    about = "its official id; for a training: show only this sample's rollouts"
    parser.option("sample SAMPLE", about, nargs="?")
    parser.data("the data root (default: that of the run)")
    parser.option("--image FILE.png", "draw the ground truth and the prediction on the image")
    parser.option("--out FILE.html", "for a training: the page (default: RUN/rollouts.html)")
    about = "for a training: number of prompts shown, spread over its steps (default 24)"
    parser.option("--groups N", about)
    parser.json()
