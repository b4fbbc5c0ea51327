"""Arguments of `harness lmms`: tasks for lmms-eval."""

from pathlib import Path

from harness.cli.arguments.shared import Commands, actions_of, add_json, add_tasks_and_data, command


def add_lmms(commands: Commands) -> None:
    """`harness lmms`."""
    actions = actions_of(commands, "lmms", "run our tasks inside lmms-eval")
    export = command(
        actions,
        "export",
        "write tasks as a folder for `lmms-eval --include_path`",
        epilog="example: harness lmms export --data data --out lmms --tasks reason_seg,mevis "
        '--pipeline "qwen_vl(segmenter=sam2(checkpoint=facebook/sam2.1-hiera-large))"\n'
        "         lmms-eval --include_path lmms --model qwen2_5_vl --tasks harness_reason_seg",
    )
    add_tasks_and_data(export)
    export.add_argument("--out", type=Path, metavar="DIR", help="a folder for the tasks")
    export.add_argument(
        "--pipeline",
        default="qwen_vl",
        metavar="SPEC",
        help="the model whose prompts, grammar, segmenter and propagator are used; lmms-eval's "
        "model takes its network's place (default: qwen_vl)",
    )
    export.add_argument(
        "--clips",
        choices=("images", "file"),
        default="images",
        help="how several frames of a video are shown: as images (default), or as a video file of "
        "them, for models that open one",
    )
    add_json(export)
