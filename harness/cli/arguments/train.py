"""Arguments of `harness train`, `harness twin` and `harness env`."""

from pathlib import Path

from harness.cli.arguments.shared import SUBSET, Commands, actions_of, command


def add_train(commands: Commands) -> None:
    """Add `harness train`."""
    parser = command(
        commands,
        "train",
        "train a model, and evaluate it",
        "example: harness train --method sft --config pocket_cpu --model pocket "
        '--train-tasks "reason_seg(split=train)" --data ROOT --out DIR --eval-tasks reason_seg',
    )
    parser.option("--method SPEC", "a trainer; see `harness list trainers`")
    parser.option("--model SPEC", "the model to start from")
    about = "NAME or NAME(split=…), several with commas or repeated"
    parser.option("--train-tasks SPECS", about, repeated=True)
    parser.data()
    parser.option("--out DIR", "a new folder for the training")
    # Not `config`: a name is looked up beside the method, and its keys are settings as well.
    parser.parser.add_argument(
        "--config",
        dest="configuration",
        metavar="FILE|NAME",
        help="a TOML file with settings and options, or the name of a configuration of the method",
    )
    parser.option("--set KEY=VALUE", "a setting of the trainer; may be repeated", repeated=True)
    parser.option("--eval-tasks SPECS", "evaluate the checkpoint on these tasks", repeated=True)
    about = "further metrics of --eval-tasks, such as reasoning_tokens"
    parser.option("--eval-metrics SPECS", about, repeated=True)
    about = "the model that evaluates the checkpoint, written as {checkpoint} "
    parser.option("--eval-model SPEC", f"{about}(default: --model with the checkpoint)")
    parser.option("--every N", "also evaluate every N steps")
    parser.flag("--strict-split", "refuse to train on samples of --eval-tasks")
    parser.judge()
    parser.flag(
        "--resume",
        "no effect, kept for old scripts: the same command always resumes the training in DIR",
    )
    parser.flag("--accept-code", "go on although the code of plugins has changed")
    parser.option("--seed", "seed of all random draws (default 0)", int)
    about = "check all that needs no network, print settings, data, hours and memory; write nothing"
    parser.flag("--dry-run", about)
    about = "the device for the estimate of --dry-run, such as H100 (default: this machine's)"
    parser.option("--device NAME", about)
    parser.flag("--keep-state", "keep the optimiser's state after the end")
    parser.rehearse()
    parser.flag("--quiet", "print no progress")
    parser.json()


def add_twin(commands: Commands) -> None:
    """Add `harness twin` and its actions."""
    actions = actions_of(commands, "twin", "build digital twins in advance, and show one")
    build = command(
        actions,
        "build",
        "run perception nodes on the images and videos of tasks, and store their output",
        "example: harness twin build --tasks shapes_referring --data data --out twins\n"
        "The same command resumes after an interruption.",
    )
    build.tasks_and_data()
    build.option("--out DIR", "the folder for the twins", required=True)
    build.option("--subset", SUBSET)
    about = "draw the twin of one image or video: a page and a picture"
    example = "example: harness twin show --media photo.jpg --out twin.html"
    show = command(actions, "show", about, example)
    about = "an image, a video, or a folder of a video's frames"
    show.option("--media FILE", about, required=True)
    about = "a question, for nodes that use its phrases, such as those of paper (default: none)"
    show.option("--question TEXT", about, default="")
    about = "the page; an image is written beside it (default twin.html)"
    show.option("--out FILE.html", about, default=Path("twin.html"))
    about = "token limit of the text for a language model (default 2048; 4 characters per token)"
    show.option("--tokens N", about, default=2048)
    for action, several in ((build, "; may be repeated"), (show, "")):
        about = f"a plan{several} (default: the paper's, with all available nodes)"
        action.option("--plan PLAN.json", about, repeated=True)
        about = "local (default), paper, or changes such as 'local(SAM2=pocket_sam)'"
        action.option("--nodes SPEC", f"the nodes: {about}", default="local")
        action.option("--frames N", "frames of a video (default 8)", default=8)
        about = "time limit of a node for one image or video (default 120)"
        action.option("--timeout SECONDS", about, default=120.0)
        action.json()


def add_env(commands: Commands) -> None:
    """Add `harness env` and its actions."""
    actions = actions_of(commands, "env", "tasks as environments of reinforcement learning")
    export = command(
        actions,
        "export",
        "write each task as a package that verifiers loads",
        'example: harness env export --tasks "reason_seg(split=train)" --data data --out envs \\\n'
        '             --model "qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,segmenter=box)"\n'
        "         pip install -e envs/harness_reason_seg_split_train",
        function="environments.export:export",
    )
    export.tasks_and_data()
    export.option("--out DIR", "a folder for the packages")
    about = "the model whose prompts, grammar, tools and perception are used; the policy replaces "
    export.option("--model SPEC", f"{about}its network")
    about = "a metric of the protocol, or a trainer whose reward and prompt are used, such as "
    export.option("--reward NAME", f"{about}visionreasoner (default: the headline)")
    export.judge()
    export.option("--subset", SUBSET)
    export.json()
    prepare = command(
        actions,
        "prepare",
        "make the environments that models name by uv(…), which downloads their packages",
        'example: harness env prepare --model "vlm(checkpoint=DIR,'
        "backend=uv(requirements='transformers==5.17.0'))\"",
    )
    prepare.option("--model SPEC", "a model; may be repeated", repeated=True, required=True)
    prepare.json()
