"""Arguments of `harness train`."""

from pathlib import Path

from harness.cli.arguments.shared import Commands, add_data_root, add_json, add_judge, command, flag


def add_train(commands: Commands) -> None:
    """`harness train`."""
    parser = command(
        commands,
        "train",
        "train a model, and evaluate it",
        epilog="example: harness train --method sft --config pocket_cpu --model "
        'pocket --train-tasks "reason_seg(split=train)" --data ROOT --out DIR '
        "--eval-tasks reason_seg",
    )
    parser.add_argument("--method", metavar="SPEC", help="a trainer; see `harness list trainers`")
    parser.add_argument("--model", metavar="SPEC", help="what to start from")
    parser.add_argument(
        "--train-tasks",
        action="append",
        metavar="SPECS",
        help="NAME or NAME(split=…), several with commas or repeated",
    )
    add_data_root(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder for the training")
    # Not `config`: a name is looked up beside the method, and its keys are settings as well.
    parser.add_argument(
        "--config",
        dest="configuration",
        metavar="FILE|NAME",
        help="a TOML file with settings and options, or one that the method brings",
    )
    parser.add_argument(
        "--set",
        action="append",
        metavar="KEY=VALUE",
        help="a setting of the trainer; may be repeated",
    )
    parser.add_argument(
        "--eval-tasks", action="append", metavar="SPECS", help="evaluate the checkpoint on these"
    )
    parser.add_argument(
        "--eval-metrics",
        action="append",
        metavar="SPECS",
        help="further metrics of --eval-tasks, such as reasoning_tokens",
    )
    parser.add_argument(
        "--eval-model",
        metavar="SPEC",
        help="what evaluates the checkpoint, which "
        "stands in it as {checkpoint}, where it is not --model with another "
        "checkpoint",
    )
    parser.add_argument(
        "--every", type=int, metavar="N", help="evaluate while training too, every N steps"
    )
    flag(parser, "--strict-split", "refuse if some of --eval-tasks would be trained on")
    add_judge(parser)
    flag(parser, "--resume", "go on with the training in DIR")
    parser.add_argument("--seed", type=int, help="of everything that is drawn (default 0)")
    flag(parser, "--keep-state", "keep the optimiser's state when finished")
    flag(parser, "--quiet", "no progress")
    add_json(parser)
