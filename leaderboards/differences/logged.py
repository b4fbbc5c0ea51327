"""Find what `harness diff` compares: two runs of one task, or a run and another program's log."""

import shlex
import tempfile
from pathlib import Path

from harness import plugins
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


def runs_of_a_task(a: Path, b: Path) -> tuple[Path, Path]:
    """Return the folders of two runs of one task, from two runs or from two folders of runs.

    Runs of equal subsets are preferred; otherwise the samples that both have can be compared.

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
    first_runs, second_runs = sides
    shared = [(first_runs[key], second_runs[key]) for key in first_runs if key in second_runs]
    if not shared:  # the same task and split, but other subsets
        shared = [
            (first, second)
            for first_key, first in first_runs.items()
            for second_key, second in second_runs.items()
            if first_key[:2] == second_key[:2]
        ]
    if len(shared) == 1:
        return shared[0]
    listed = [shlex.join(["harness", "diff", *map(str, pair)]) for pair in shared]
    raise UsageError(
        f"{a} and {b}",
        expected="one task with a run in both",
        found="none" if not shared else f"{len(shared)}",
        fix="\n".join(["Give one:", *listed]) if listed else "",
    )


def tasks_of_one(a: Path, b: Path) -> list[str]:
    """Return a line for each folder with the tasks and splits that only this folder has.

    A folder is left out if the other one has no run at all.
    """
    if all((folder / MANIFEST).is_file() for folder in (a, b)):
        return []
    tasks = [dict.fromkeys(" ".join(key[:2]) for key in _runs_by_task(side)) for side in (a, b)]
    sides = ((a, tasks[0], tasks[1]), (b, tasks[1], tasks[0]))
    return [
        f"only in {folder}: {', '.join(name for name in names if name not in other_names)}"
        for folder, names, other_names in sides
        if other_names and names.keys() - other_names.keys()
    ]


def _runs_by_task(folder: Path) -> dict[Key, Path]:
    """Return the finished runs at or below a folder by their task, split and subset."""
    runs = runs_below(folder) if folder.is_dir() else []
    return {task_key(Run.open(run)): run for run in runs}


def diff_log(
    a: Run,
    path: Path,
    format: str,
    *,
    model: str | None = None,
    data_root: Path | None = None,
    level: float = 0.95,
) -> Difference:
    """Compare a run with the responses in another program's log.

    The responses are read into a run of its own, which is thrown away.

    Args:
        a: The run.
        path: The log.
        format: Its format, one of `FORMATS`.
        model: SPEC of the model that parses the responses; None: the run's own.
        data_root: Folder of the benchmarks' data; None: the run's own.
        level: Level of the intervals.

    Raises:
        UsageError: the run's model does not read responses, and no other is named.
    """
    task = task_for(a, data_root)
    text = model or _stored(a.manifest["model"]["spec"])
    reader: RecordedReader = plugins.build("models", parse(text))
    if FORMATS[format] is lmms_eval and model is None:
        reader = Counting(reader, log_task(path))
    subset = a.manifest["subset"]
    matched = read_format(format, path, samples_of(task))
    submission = Submission(
        path=path,
        name=path.stem,
        reader=reader,
        reader_spec=text,
        subset=None if subset is None or subset.startswith("ids-") else subset,
        data_root=a.manifest["data"]["root"],
        format=format,
        allow_extra=True,
    )
    with tempfile.TemporaryDirectory(prefix=temporary_prefix("diff")) as folder:
        run = Path(folder) / "log"
        score_file(task, submission, folder=run, task_spec=a.manifest["task"]["spec"])
        return diff_runs(
            a, Run.open(run), data_root=data_root, level=level, logged=matched.scores or None
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
