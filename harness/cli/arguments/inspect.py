"""Arguments of the commands that change nothing: `list`, `explain`, `curves` and `doctor`."""

from pathlib import Path

from harness.cli.arguments.shared import Commands, add_data_root, add_json, command, flag
from harness.spec import KINDS


def add_list(commands: Commands) -> None:
    """`harness list`."""
    parser = command(
        commands, "list", "the plugins that are installed", function="show:list_plugins"
    )
    parser.add_argument(
        "kind",
        nargs="?",
        choices=KINDS,
        metavar="KIND",
        help=f"{', '.join(KINDS)}; without, how many there are of each",
    )
    parser.add_argument("name", nargs="?", help="show all there is to say about this one")
    add_json(parser)


def add_explain(commands: Commands) -> None:
    """`harness explain`."""
    parser = command(
        commands,
        "explain",
        "one sample of a run: prompt, pixels, response, what was read, masks, score; "
        "or a training's rollouts",
        epilog="examples: harness explain runs/saliency/reason_seg SAMPLE --image sample.png\n"
        "          harness explain TRAINING --out rollouts.html",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a training's")
    parser.add_argument(
        "sample",
        nargs="?",
        metavar="SAMPLE",
        help="its official id; of a training, only this one's rollouts",
    )
    add_data_root(parser, "default: where the run read them")
    parser.add_argument(
        "--image",
        type=Path,
        metavar="FILE.png",
        help="write ground truth and prediction over the image",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.html",
        help="of a training: its page (default: RUN/rollouts.html)",
    )
    parser.add_argument(
        "--groups",
        type=int,
        metavar="N",
        help="of a training: prompts that are shown, spread over its steps (default 24)",
    )
    add_json(parser)


def add_completion(commands: Commands) -> None:
    """`harness completion`."""
    parser = command(
        commands,
        "completion",
        "print a script that completes commands and options in a shell",
        epilog="bash: harness completion bash > "
        "~/.local/share/bash-completion/completions/harness\n"
        "zsh:  harness completion zsh > ~/.zfunc/_harness   (fpath+=~/.zfunc before compinit)\n"
        "fish: harness completion fish > ~/.config/fish/completions/harness.fish",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def add_curves(commands: Commands) -> None:
    """`harness curves`."""
    parser = command(
        commands,
        "curves",
        "draw what trainings logged, by step; seeds of one recipe as a line and its range",
        epilog="example: harness curves runs/dr2seg-0 runs/dr2seg-1 runs/base-0 "
        "--y answer_entropy,think_length,rewards/accuracy --out figure.svg",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="training folders")
    parser.add_argument(
        "--y",
        action="append",
        metavar="NAMES",
        help="numbers of curve.jsonl, several with commas or repeated; without, "
        "those that were logged are listed",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.svg", help="the figure")
    parser.add_argument(
        "--smooth",
        type=int,
        default=1,
        metavar="N",
        help="average each value with the N - 1 before it (default 1)",
    )
    add_json(parser)


def add_doctor(commands: Commands) -> None:
    """`harness doctor`."""
    parser = command(commands, "doctor", "what this machine has and lacks")
    flag(
        parser,
        "--sandbox",
        "test the sandbox for code that models write, tier by tier, and nothing else",
    )
    add_json(parser)
