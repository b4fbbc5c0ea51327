"""Steps before a run: check the benchmark's files, and set an earlier run aside."""

from itertools import count, islice
from pathlib import Path

from harness.errors import DataError
from harness.plugins import plugin_errors
from harness.run.batching import samples_of
from harness.run.options import Progress
from harness.run.problems import problem_line
from harness.run.sample_cache import read_once
from harness.store.atomic import writing
from harness.store.lease import lease
from harness.task import Problem, Task

PROBLEMS_SHOWN = 10


def preflight(task: Task, progress: Progress, *, allow_missing: bool) -> Task:
    """Check every file of the benchmark before any work is done; faults are noted if allowed.

    Returns:
        The task, whose samples are not parsed again.

    Raises:
        DataError: files are missing or damaged, unless `allow_missing`; the first are listed.
    """
    task = read_once(task)
    problems = _problems(task)
    if not problems:
        return task
    listed = [problem_line(problem.path, problem.message) for problem in problems[:PROBLEMS_SHOWN]]
    if (rest := len(problems) - PROBLEMS_SHOWN) > 0:
        listed.append(f"… and {rest} more")
    text = "\n  ".join(listed)
    if not allow_missing:
        raise DataError(
            f"{task.name}, split {task.split}: {len(problems)} file(s) are not as they should "
            f"be\n  {text}\nMend them (`harness data check {task.name}` lists all). Where "
            "images are missing or damaged, --allow-missing counts their samples as failed"
        )
    progress.note(
        f"{len(problems)} faulty file(s); samples without an image count as failed\n  {text}"
    )
    return task


def _problems(task: Task) -> list[Problem]:
    """Return all that is wrong; where reading the samples tells that, `check` only lists it."""
    faults: list[Problem] = []
    if task.check_samples is not None:
        numbers = count()
        walk = (sample for sample, _ in zip(samples_of(task), numbers))  # noqa: B905 - as they come
        try:
            with plugin_errors(f"the check of {task.name}"):
                faults = list(islice(task.check_samples(walk), 1))
        except DataError as error:
            faults = [Problem(task.name, str(error))]
        if next(numbers) > 0 and not faults:
            return []
    with plugin_errors(f"the check of {task.name}"):
        return list(task.check()) or faults


def set_aside(folder: Path) -> None:
    """Rename an earlier run's folder to `<name>.old<number>`, so that nothing is lost."""
    if not folder.exists():
        return
    number = 1
    while (target := folder.with_name(f"{folder.name}.old{number}")).exists():
        number += 1
    with lease(folder), writing(target):
        folder.rename(target)
