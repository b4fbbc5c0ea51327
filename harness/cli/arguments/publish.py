"""Arguments of `harness runs`, `publish`, `server`, `hub` and `lmms`: runs indexed and shared."""

from pathlib import Path

from harness.cli.arguments.shared import WHERE_READ, Commands, Options, actions_of, command, count

FORMATS = (
    "csv",
    "json",
    "parquet",
    "every-eval-ever",
    "inspect",
    "vlmevalkit",
    "fiftyone",
    "huggingface",
    "eval-yaml",
    "model-card",
    "wandb",
    "mlflow",
)
"""Formats that `harness runs export` writes."""


def add_runs(commands: Commands) -> None:
    """Add `harness runs` and its actions."""
    actions = actions_of(
        commands, "runs", "list samples; index, search, export and clean up runs; average repeats"
    )
    _add_samples(actions)
    index = command(actions, "index", "write runs into the index")
    index.option("runs DIR", "folders with runs", nargs="+")
    index.database()
    example = "example: harness runs query --task reason_seg --model pocket --csv"
    query = command(actions, "query", "runs of the index, the newest first", example)
    query.option("--task NAME", "only runs of this task")
    query.option("--model TEXT", "only models whose name or SPEC contains TEXT")
    query.option("--commit HASH", "only runs of code whose commit begins with HASH")
    query.option("--since DATE", "only runs finished on DATE or later")
    query.option("--metric NAME", "the metric (default: the headline)")
    query.option("--limit N", "print at most N runs", count)
    query.flag("--csv", "print CSV")
    query.json()
    query.database()
    about = "summarise runs that differ only in seeds: mean, best of k, sources of variance"
    repeats = command(actions, "repeats", about, "example: harness runs repeats runs/seed*")
    repeats.option("runs DIR", "folders with runs of one model on one task", nargs="+")
    repeats.option("--metric NAME", "the metric (default: the headline)")
    repeats.data(f"the data root, for derived and corpus metrics ({WHERE_READ})")
    repeats.json()
    about = "list runs that --restart renamed, and index rows of missing folders"
    gc = command(actions, "gc", about)
    gc.flag("--delete", "delete them")
    gc.option("runs DIR", "folders with runs", nargs="*")
    gc.database()
    formats = f"formats: {', '.join(FORMATS)}; see docs/runs.md"
    export = command(actions, "export", "write runs in the format of another program", formats)
    export.option("runs DIR", "folders with runs", nargs="+")
    export.option("--to FORMAT", "a format of the list below", required=True, choices=FORMATS)
    export.option("--out PATH", "file or folder; for mlflow a tracking URI", required=True)
    about = "the hub's data set of a task, for the three hub formats; may be repeated"
    export.option("--dataset TASK=ORG/NAME[:TASK_ID]", about, repeated=True)
    export.data("the data root, for logs and datasets with samples (default: that of the runs)")
    export.option("--source URL", "a public address of the runs")


def _add_samples(actions: Commands) -> None:
    """Add `harness runs samples`."""
    about = "list the samples of a run with their scores, the worst first"
    example = "example: harness runs samples runs/pocket/reason_seg --limit 5"
    parser = command(actions, "samples", about, example, function="cli.samples:samples")
    parser.option("run RUN", "a run folder")
    parser.data("the data root (default: that of the run)")
    about = "worst first, best first, or by id (default %(default)s)"
    parser.option("--sort", about, default="score", choices=("score", "-score", "id"))
    parser.option("--metric NAME", "the metric (default: the headline)")
    parser.option("--limit N", "print at most N samples", count)
    parser.flag("--failed", "only samples without an answer")
    parser.json()


def add_publish(commands: Commands) -> None:
    """Add `harness publish`."""
    parser = command(
        commands,
        "publish",
        "bundle runs, so that others can score them again without the model; check bundles",
        "examples: harness publish runs/pocket --out submissions/pocket\n"
        "          harness publish --check submissions --data ROOT",
    )
    parser.option("runs RUN", "folders with runs", nargs="*")
    parser.option("--out DIR", "the folder for the bundles")
    about = "check the hash chain of the bundles in DIR, and score them again"
    parser.option("--check DIR", about, repeated=True)
    parser.data()
    parser.option("--head HASH", "with --check: refuse other heads", repeated=True)
    about = "check a test server's receipt; with --check: refuse predictions without one"
    parser.option("--receipt FILE", about, repeated=True)
    parser.option("--key FILE", "the server's public key, for --receipt")
    about = "write a GitHub workflow that checks the submissions of a pull request"
    parser.option("--workflow FILE", about)
    parser.json()


def add_server(commands: Commands) -> None:
    """Add `harness server` and its actions."""
    about = "score uploaded predictions against labels that nobody else has; give out tokens"
    actions = actions_of(commands, "server", about)
    about = "serve tasks until Ctrl-C: uploads, a queue, receipts, a board"
    example = "example: harness server start --tasks counting --labels ROOT --state server"
    start = command(actions, "start", about, example)
    start.option("--tasks SPECS", "NAME or NAME(split=…,protocol=…)", repeated=True)
    start.option("--labels ROOT", "the benchmarks' folder with ground truth; it stays here")
    _add_state(start)
    start.option(
        "--host ADDRESS", "the address to listen on (default %(default)s)", default="127.0.0.1"
    )
    start.option("--port N", "the port (default: any free port)", default=0)
    start.option("--title TEXT", "the board's heading", default="Test server")
    about = "uploads of an account to a task in a day of UTC (default %(default)s)"
    start.option("--per-day N", about, count, default=5)
    about = "size limit of an upload in MiB (default %(default)s)"
    start.option("--max-mib N", about, count, default=256)
    about = (
        "ladder: a score moves when it is better by a step (default); exact: the best exact score; "
        "samples: also the scores by sample, which give labels away"
    )
    start.option("--release HOW", about, default="ladder", choices=("ladder", "exact", "samples"))
    about = "step of the ladder, in the score's unit (default: 1 / (2 √n) for n scored units)"
    start.option("--step X", about)
    about = "print a new token of an account, which is made if it is new"
    token = command(
        actions, "token", about, "example: harness server token lisa-team --state server"
    )
    token.option("name NAME", "the account: a-z, 0-9, _ and -")
    _add_state(token)
    token.flag("--revoke", "void the account's token instead")


def _add_state(parser: Options) -> None:
    parser.option(
        "--state DIR", "the server's folder (default %(default)s)", default=Path("server")
    )
    parser.option(
        "--db URL", "sqlite:///FILE or postgresql+psycopg://… (default: DIR/server.sqlite)"
    )


def add_hub(commands: Commands) -> None:
    """Add `harness hub` and its actions."""
    about = "push and pull runs, checkpoints and data sets; write a checkpoint's card"
    actions = actions_of(commands, "hub", about)
    about = "upload a checkpoint, runs or a data set in one commit; private unless --public"
    example = "example: HF_TOKEN=… harness hub push runs/pocket ORG/NAME"
    push = command(actions, "push", about, example)
    push.option("path PATH", "a training, runs, or another folder", Path)
    push.option("repository ORG/NAME", "the target repository; created if it does not exist")
    push.flag("--public", "make the repository public")
    push.flag(
        "--replace", "replace the content of the repository; its history keeps the old content"
    )
    about = "download a repository into a new folder, and check every file"
    example = "example: harness hub pull datasets/ORG/NAME runs/theirs"
    pull = command(actions, "pull", about, example)
    pull.option("repository REPO", "ORG/NAME for a model, datasets/ORG/NAME for data sets and runs")
    pull.option("out DIR", "a new or empty folder")
    pull.option("--revision NAME", "branch, tag or commit", default="main")
    pull.option(
        "--max-gb N", "refuse a larger repository (default %(default)s)", count, default=200
    )
    for action in (push, pull):
        action.flag("--quiet", "no progress bars")
        action.json()
    about = "write a checkpoint's card again, with the scores of further runs"
    card = command(actions, "card", about, "example: harness hub card runs/sft --runs runs/eval")
    card.option("training DIR", "a training folder")
    about = "a folder with runs of the checkpoint; may be repeated (default: DIR/eval)"
    card.option("--runs DIR", about, repeated=True)


def add_lmms(commands: Commands) -> None:
    """Add `harness lmms` and its action."""
    actions = actions_of(commands, "lmms", "run our tasks inside lmms-eval")
    export = command(
        actions,
        "export",
        "write tasks as a folder for `lmms-eval --include_path`",
        "example: harness lmms export --data data --out lmms --tasks reason_seg,mevis "
        '--pipeline "qwen_vl(segmenter=sam2(checkpoint=facebook/sam2.1-hiera-large))"\n'
        "         lmms-eval --include_path lmms --model qwen2_5_vl --tasks harness_reason_seg",
        function="lmms.export:export",
    )
    export.tasks_and_data()
    export.option("--out DIR", "a folder for the tasks")
    about = (
        "the model whose prompts, grammar, segmenter and propagator are used; lmms-eval's "
        "model replaces its network (default: qwen_vl)"
    )
    export.option("--pipeline SPEC", about, default="qwen_vl")
    about = (
        "how several frames of a video are shown: as images (default), or as a video file of "
        "them, for models that open one"
    )
    export.option("--clips", about, default="images", choices=("images", "file"))
    export.json()
