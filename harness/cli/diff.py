"""`harness diff`: why two numbers differ, stage by stage."""

import shlex
import tempfile
from argparse import Namespace
from pathlib import Path

from harness import plugins
from harness.cli import waterfall
from harness.errors import UsageError
from harness.files import temporary_prefix
from harness.formats import FORMATS, read_format
from harness.formats.logs import lmms_eval
from harness.leaderboards.baseline import Key, task_key
from harness.leaderboards.differences.diff import Difference, diff_runs
from harness.leaderboards.differences.scoring import task_for
from harness.model import RecordedReader
from harness.record import MANIFEST, Run, runs_below
from harness.run.batching import samples_of
from harness.run.counts import Counting
from harness.run.counts import task_of as log_task
from harness.run.external_predictions import Submission
from harness.run.score import score_file
from harness.run.sweep import with_argument
from harness.spec import Spec, parse


def diff(arguments: Namespace) -> int:
    """Print what each stage explains, and draw it."""
    waterfall.check_out(arguments.out)
    if arguments.model is not None and arguments.format is None:
        raise UsageError("--model", expected="--format beside it", found="none")
    if arguments.format is None:
        arguments.a, arguments.b = _pair(arguments.a, arguments.b)
    a = Run.open(arguments.a)
    a.check_files()
    if arguments.format is None:
        b = Run.open(arguments.b)
        b.check_files()
        difference = diff_runs(a, b, data_root=arguments.data, level=arguments.level)
    else:
        difference = _against_log(a, arguments)
    return waterfall.show(difference, arguments, {})


def _pair(a: Path, b: Path) -> tuple[Path, Path]:
    """Return two runs of one task from runs, or from folders of them, such as two models'.

    Raises:
        UsageError: the folders have several tasks in common, or none.
    """
    if all((folder / MANIFEST).is_file() for folder in (a, b)):
        return a, b
    sides = [_runs_by_task(folder) for folder in (a, b)]
    for folder, runs in zip((a, b), sides, strict=True):
        if not runs:
            Run.open(folder)  # raises, and names the runs beside it
            return a, b
    shared = (
        [(sides[0][key], sides[1][key]) for key in sides[0] if key in sides[1]]
        or [
            (first, second)  # of other subsets: the samples that both have are compared
            for key, first in sides[0].items()
            for other, second in sides[1].items()
            if key[:2] == other[:2]
        ]
    )
    if len(shared) == 1:
        return shared[0]
    listed = [shlex.join(["harness", "diff", *map(str, pair)]) for pair in shared]
    raise UsageError(
        f"{a} and {b}",
        expected="one task with a run in both",
        found="none" if not shared else f"{len(shared)}",
        fix="\n".join(["Give one:", *listed]) if listed else "",
    )


def _runs_by_task(folder: Path) -> dict[Key, Path]:
    """Return the finished runs at or below a folder by their task, split and subset."""
    runs = runs_below(folder) if folder.is_dir() else []
    return {task_key(Run.open(run)): run for run in runs}


def _against_log(a: Run, arguments: Namespace) -> Difference:
    """Read a log's responses into a run of its own, which is thrown away, and compare with it."""
    task, path = task_for(a, arguments.data), arguments.b
    text = arguments.model or _stored(a.manifest["model"]["spec"])
    reader: RecordedReader = plugins.build("models", parse(text))
    if FORMATS[arguments.format] is lmms_eval and arguments.model is None:
        reader = Counting(reader, log_task(path))
    subset = a.manifest["subset"]
    matched = read_format(arguments.format, path, samples_of(task))
    submission = Submission(
        path=path,
        name=path.stem,
        reader=reader,
        reader_spec=text,
        subset=None if subset is None or subset.startswith("ids-") else subset,
        data_root=a.manifest["data"]["root"],
        format=arguments.format,
        allow_extra=True,
    )
    with tempfile.TemporaryDirectory(prefix=temporary_prefix("diff")) as folder:
        run = Path(folder) / "log"
        score_file(task, submission, folder=run, task_spec=a.manifest["task"]["spec"])
        return diff_runs(
            a,
            Run.open(run),
            data_root=arguments.data,
            level=arguments.level,
            logged=matched.scores or None,
        )


def _stored(text: str) -> str:
    """Return a model's SPEC with stored responses in the place of its network."""
    spec = parse(text)
    if not plugins.accepts("models", spec.name, "backend"):
        raise UsageError(
            f"the model of RUN, {text}",
            expected="one that reads responses, as the log's are read like its own",
            found="none",
            fix='Name a reader, such as --model "qwen_vl(backend=stored)".',
        )
    return str(with_argument(spec, "backend", Spec("stored")))
