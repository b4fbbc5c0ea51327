"""Arguments of `harness twin`: build, show."""

from pathlib import Path

from harness.cli.arguments.shared import Commands, actions_of, add_json, add_tasks_and_data, command


def add_twin(commands: Commands) -> None:
    """`harness twin`."""
    actions = actions_of(commands, "twin", "build digital twins ahead, and look at one")
    build = command(
        actions,
        "build",
        "run perception nodes over the images and videos of tasks, and keep what they saw",
        epilog="example: harness twin build --tasks shapes_referring --data data --out twins\n"
        "The same command goes on where it was stopped.",
    )
    add_tasks_and_data(build)
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="a folder for them")
    build.add_argument("--subset", help="first<N>, seed<S>-<N>, or a file with one id a line")
    show = command(
        actions,
        "show",
        "draw the twin of one image or video: a page and a picture",
        epilog="example: harness twin show --media photo.jpg --out twin.html",
    )
    show.add_argument(
        "--media",
        type=Path,
        required=True,
        metavar="FILE",
        help="an image, a video, or a folder of a video's frames",
    )
    show.add_argument(
        "--out",
        type=Path,
        default=Path("twin.html"),
        metavar="FILE.html",
        help="the page; a picture lies beside it (default twin.html)",
    )
    show.add_argument(
        "--tokens",
        type=int,
        default=2048,
        metavar="N",
        help="limit of the text for a language model (default 2048; 4 characters a token)",
    )
    for action in (build, show):
        action.add_argument(
            "--plan",
            action="append",
            type=Path,
            metavar="PLAN.json",
            help="a plan; may be repeated (default: the paper's, with all that is assigned)"
            if action is build
            else "a plan (default: the paper's, with all that is assigned)",
        )
        action.add_argument(
            "--nodes",
            default="local",
            metavar="SPEC",
            help="the node behind each name: local (default), paper, or changes such as "
            "'local(SAM2=pocket_sam)'",
        )
        action.add_argument(
            "--frames", type=int, default=8, metavar="N", help="frames of a video (default 8)"
        )
        action.add_argument(
            "--timeout",
            type=float,
            default=120.0,
            metavar="SECONDS",
            help="a node's limit for one image or video (default 120)",
        )
        add_json(action)
