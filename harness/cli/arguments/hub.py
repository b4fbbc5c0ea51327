"""Arguments of `harness hub`: push, pull, card."""

from pathlib import Path

from harness.cli.arguments.shared import Commands, actions_of, add_json, command, count, flag

GIGABYTES = 200
"""Size of a repository from which on `pull` refuses it, without `--max-gb`."""


def add_hub(commands: Commands) -> None:
    """`harness hub`."""
    actions = actions_of(
        commands, "hub", "push and pull runs, checkpoints and data sets; write a checkpoint's card"
    )
    push = command(
        actions,
        "push",
        "upload a checkpoint, runs or a data set in one commit; private unless --public",
        epilog="example: HF_TOKEN=… harness hub push runs/pocket ORG/NAME",
    )
    push.add_argument("path", type=Path, metavar="PATH", help="a training, runs, or another folder")
    push.add_argument("repository", metavar="ORG/NAME", help="where to; made if there is none")
    flag(push, "--public", "everybody may read it")
    flag(push, "--replace", "replace what the repository holds; its history keeps it")
    pull = command(
        actions,
        "pull",
        "download a repository into a new folder, and check every file",
        epilog="example: harness hub pull datasets/ORG/NAME runs/theirs",
    )
    pull.add_argument(
        "repository", metavar="REPO", help="ORG/NAME of a model, datasets/ORG/NAME of others"
    )
    pull.add_argument("out", type=Path, metavar="DIR", help="a new or empty folder")
    pull.add_argument("--revision", metavar="NAME", default="main", help="branch, tag or commit")
    pull.add_argument(
        "--max-gb",
        type=count,
        default=GIGABYTES,
        metavar="N",
        help="refuse a larger repository (default %(default)s)",
    )
    for action in (push, pull):
        flag(action, "--quiet", "no progress bars")
        add_json(action)
    card = command(
        actions,
        "card",
        "write a checkpoint's card again, with the scores of further runs",
        epilog="example: harness hub card runs/sft --runs runs/eval",
    )
    card.add_argument("training", type=Path, metavar="DIR", help="a training folder")
    card.add_argument(
        "--runs",
        type=Path,
        action="append",
        metavar="DIR",
        help="a folder with runs of the checkpoint; may be repeated (default: DIR/eval)",
    )
