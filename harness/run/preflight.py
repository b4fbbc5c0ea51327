"""Before a run: are the benchmark's files there, and does an earlier run give way?"""

from pathlib import Path

from harness.errors import DataError
from harness.plugins import blamed
from harness.run.options import Progress
from harness.run.problems import told
from harness.store.atomic import cannot_write
from harness.store.lease import lease
from harness.task import Task

PROBLEMS_SHOWN = 10


def preflight(task: Task, progress: Progress, *, allow_missing: bool) -> None:
    """Look at every file of the benchmark before any work is done."""
    with blamed(f"the check of {task.name}"):
        problems = list(task.check())
    if not problems:
        return
    listed = [told(problem.path, problem.message) for problem in problems[:PROBLEMS_SHOWN]]
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


def set_aside(folder: Path) -> None:
    """Rename an earlier run, so that nothing is lost."""
    if not folder.exists():
        return
    number = 1
    while (target := folder.with_name(f"{folder.name}.old{number}")).exists():
        number += 1
    with lease(folder):
        try:
            folder.rename(target)
        except OSError as error:
            raise cannot_write(target, error) from error
