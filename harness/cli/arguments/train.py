"""Arguments of `harness train` and `harness twin`."""

from pathlib import Path

from harness.cli.arguments.shared import (
    SUBSET,
    Commands,
    actions_of,
    add_data_root,
    add_json,
    add_judge,
    add_tasks_and_data,
    command,
    flag,
    option,
)


def add_train(commands: Commands) -> None:
    """`harness train`."""
    parser = command(
        commands,
        "train",
        "train a model, and evaluate it",
        "example: harness train --method sft --config pocket_cpu --model pocket "
        '--train-tasks "reason_seg(split=train)" --data ROOT --out DIR --eval-tasks reason_seg',
    )
    option(parser, "--method SPEC", "a trainer; see `harness list trainers`")
    option(parser, "--model SPEC", "what to start from")
    about = "NAME or NAME(split=…), several with commas or repeated"
    option(parser, "--train-tasks SPECS", about, repeated=True)
    add_data_root(parser)
    option(parser, "--out DIR", "a new folder for the training")
    # Not `config`: a name is looked up beside the method, and its keys are settings as well.
    parser.add_argument(
        "--config",
        dest="configuration",
        metavar="FILE|NAME",
        help="a TOML file with settings and options, or one that the method brings",
    )
    option(parser, "--set KEY=VALUE", "a setting of the trainer; may be repeated", repeated=True)
    option(parser, "--eval-tasks SPECS", "evaluate the checkpoint on these", repeated=True)
    about = "further metrics of --eval-tasks, such as reasoning_tokens"
    option(parser, "--eval-metrics SPECS", about, repeated=True)
    about = "what evaluates the checkpoint, which stands in it as {checkpoint}, where it is not "
    option(parser, "--eval-model SPEC", f"{about}--model with another checkpoint")
    option(parser, "--every N", "evaluate while training too, every N steps")
    flag(parser, "--strict-split", "refuse if some of --eval-tasks would be trained on")
    add_judge(parser)
    flag(parser, "--resume", "go on with the training in DIR")
    option(parser, "--seed", "of everything that is drawn (default 0)", int)
    flag(parser, "--keep-state", "keep the optimiser's state when finished")
    flag(parser, "--quiet", "no progress")
    add_json(parser)


def add_twin(commands: Commands) -> None:
    """`harness twin`."""
    actions = actions_of(commands, "twin", "build digital twins ahead, and look at one")
    build = command(
        actions,
        "build",
        "run perception nodes over the images and videos of tasks, and keep what they saw",
        "example: harness twin build --tasks shapes_referring --data data --out twins\n"
        "The same command goes on where it was stopped.",
    )
    add_tasks_and_data(build)
    option(build, "--out DIR", "a folder for them", required=True)
    option(build, "--subset", SUBSET)
    about = "draw the twin of one image or video: a page and a picture"
    example = "example: harness twin show --media photo.jpg --out twin.html"
    show = command(actions, "show", about, example)
    about = "an image, a video, or a folder of a video's frames"
    option(show, "--media FILE", about, required=True)
    about = "the page; a picture lies beside it (default twin.html)"
    option(show, "--out FILE.html", about, default=Path("twin.html"))
    about = "limit of the text for a language model (default 2048; 4 characters a token)"
    option(show, "--tokens N", about, default=2048)
    for action, several in ((build, "; may be repeated"), (show, "")):
        about = f"a plan{several} (default: the paper's, with all that is assigned)"
        option(action, "--plan PLAN.json", about, repeated=True)
        about = "local (default), paper, or changes such as 'local(SAM2=pocket_sam)'"
        option(action, "--nodes SPEC", f"the node behind each name: {about}", default="local")
        option(action, "--frames N", "frames of a video (default 8)", default=8)
        about = "a node's limit for one image or video (default 120)"
        option(action, "--timeout SECONDS", about, default=120.0)
        add_json(action)
