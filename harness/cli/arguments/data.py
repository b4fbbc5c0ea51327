"""Arguments of `harness data`: make, fetch, check, info."""

from pathlib import Path

from harness.cli.arguments.shared import (
    Commands,
    actions_of,
    add_data_root,
    add_json,
    add_tasks_and_data,
    command,
    flag,
)


def add_data(commands: Commands) -> None:
    """`harness data`."""
    actions = actions_of(commands, "data", "make, check and describe benchmarks' files")
    make = command(actions, "make", "write a generated world in official layouts")
    make.add_argument("world", choices=["shapes"], help="which world")
    make.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    make.add_argument("--seed", type=int, default=0, help="of the world (default 0)")
    make.add_argument(
        "--size",
        type=int,
        default=24,
        metavar="N",
        help="samples a split and benchmark (default 24)",
    )
    make.add_argument(
        "--tasks",
        action="append",
        metavar="LIST",
        help="only these benchmarks, by name (default: all)",
    )
    add_json(make)
    fetch = command(
        actions,
        "fetch",
        "fetch a benchmark's files from the Hugging Face hub, at a recorded commit",
        function="fetch:fetch",
    )
    fetch.add_argument("task", metavar="TASK", help="see `harness list tasks`")
    add_data_root(fetch)
    fetch.add_argument(
        "--revision",
        metavar="NAME",
        help="a commit or branch (default: what was fetched before, or else what the card says)",
    )
    fetch.add_argument(
        "--only",
        action="append",
        metavar="FOLDER",
        help="of several repositories, "
        "the one that goes there; may be repeated (`harness list tasks TASK`)",
    )
    flag(fetch, "--quiet", "no progress")
    add_json(fetch)
    for name, about in (
        ("check", "look at every file of a benchmark"),
        ("info", "sizes, splits, licence and one example"),
    ):
        action = command(actions, name, about)
        action.add_argument("task", nargs="?", metavar="TASK", help="one task, or use --tasks")
        add_tasks_and_data(action)
        if name == "check":
            flag(
                action,
                "--strict",
                "other numbers of samples or videos than the published ones are an error",
            )
            action.add_argument(
                "--decode",
                choices=("ends", "all", "none"),
                default="ends",
                help="frames of videos that are decoded: the first and the last "
                "(default), all of them and of images too, or none",
            )
        add_json(action)
