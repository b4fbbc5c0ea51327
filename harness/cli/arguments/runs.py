"""Arguments of `harness runs`: index, query, gc, export."""

from argparse import ArgumentParser
from pathlib import Path

from harness.cli.arguments.shared import (
    Commands,
    actions_of,
    add_data_root,
    add_json,
    command,
    count,
    flag,
)

FORMATS = (
    *("csv", "json", "parquet", "every-eval-ever", "inspect", "vlmevalkit"),
    *("huggingface", "eval-yaml", "model-card", "wandb", "mlflow"),
)


def add_runs(commands: Commands) -> None:
    """`harness runs`."""
    actions = actions_of(commands, "runs", "index, query, export and clear run folders")
    index = command(actions, "index", "write runs into the index")
    _add_database(index, "+")
    query = command(
        actions,
        "query",
        "runs of the index, the newest first",
        epilog="example: harness runs query --task reason_seg --model pocket --csv",
    )
    query.add_argument("--task", metavar="NAME", help="of this task")
    query.add_argument("--model", metavar="TEXT", help="whose name or SPEC holds TEXT")
    query.add_argument("--commit", metavar="HASH", help="of code whose commit begins with HASH")
    query.add_argument("--since", metavar="DATE", help="finished on DATE or later")
    query.add_argument("--metric", metavar="NAME", help="the number (default: the headline)")
    query.add_argument("--limit", type=count, metavar="N", help="at most N runs")
    flag(query, "--csv", "print CSV")
    add_json(query)
    _add_database(query)
    gc = command(
        actions, "gc", "list runs that --restart set aside, and rows of folders that are gone"
    )
    flag(gc, "--delete", "delete them")
    _add_database(gc, "*")

    export = command(
        actions,
        "export",
        "write runs in the format of another program",
        epilog=f"formats: {', '.join(FORMATS)}; see docs/runs.md",
    )
    export.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="folders with runs")
    export.add_argument(
        "--to", required=True, choices=FORMATS, metavar="FORMAT", help="one of those below"
    )
    export.add_argument(
        "--out", required=True, metavar="PATH", help="file or folder; of mlflow a tracking URI"
    )
    export.add_argument(
        "--dataset",
        action="append",
        metavar="TASK=ORG/NAME[:TASK_ID]",
        help="the hub's dataset of a task, of the three formats of the hub; may be repeated",
    )
    add_data_root(export, "of logs with samples (default: where the runs read them)")
    export.add_argument("--source", metavar="URL", help="where the runs can be seen")


def _add_database(parser: ArgumentParser, places: str = "") -> None:
    if places:
        parser.add_argument(
            "runs", nargs=places, type=Path, metavar="DIR", help="folders with runs below them"
        )
    parser.add_argument(
        "--db",
        metavar="URL",
        help="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME (default: $HARNESS_DB, else "
        "runs.sqlite in harness's cache)",
    )


def add_publish(commands: Commands) -> None:
    """`harness publish`."""
    parser = command(
        commands,
        "publish",
        "bundle runs so that anybody can score them again without the model, or check bundles",
        epilog="examples: harness publish runs/pocket --out submissions/pocket\n"
        "          harness publish --check submissions --data ROOT",
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders with runs")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the bundles go")
    parser.add_argument(
        "--check",
        action="append",
        type=Path,
        metavar="DIR",
        help="check the hash chain of the bundles below DIR, and score them again",
    )
    add_data_root(parser)
    parser.add_argument(
        "--head",
        action="append",
        metavar="HASH",
        help="with --check: refuse other heads",
    )
    parser.add_argument(
        "--workflow",
        type=Path,
        metavar="FILE",
        help="write a GitHub workflow that checks the submissions of a pull request",
    )
    add_json(parser)


def add_samples(commands: Commands) -> None:
    """`harness samples`."""
    parser = command(
        commands,
        "samples",
        "the samples of a run with their scores, the worst first",
        epilog="example: harness samples runs/pocket/reason_seg --limit 5",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    add_data_root(parser, "default: where the run read them")
    parser.add_argument(
        "--sort",
        choices=("score", "-score", "id"),
        default="score",
        help="worst first, best first, or by id (default %(default)s)",
    )
    parser.add_argument("--metric", metavar="NAME", help="default: the headline")
    parser.add_argument("--limit", type=count, metavar="N", help="at most N samples")
    flag(parser, "--failed", "only samples without an answer")
    add_json(parser)
