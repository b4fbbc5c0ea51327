"""`harness eval --against RUN`: check the options, and open the run to compare with."""

from argparse import Namespace
from pathlib import Path

from harness.errors import DataError, UsageError
from harness.leaderboards.differences.against import Against
from harness.record import Run
from harness.task import Task


def against(arguments: Namespace, task: Task, *, pairs: int) -> Against | None:
    """Return the comparison with the run of `--against`; None without the option.

    `pairs` is the number of models times tasks that are evaluated.

    Raises:
        UsageError: the options do not fit together, or there is more than one pair.
        DataError: the task has no ground truth to decide with.
    """
    path: Path | None = arguments.against
    if path is None:
        if arguments.until_decided:
            raise UsageError("--until-decided", expected="--against RUN beside it", found="none")
        return None
    if pairs != 1:
        raise UsageError("--against", expected="one model and one task", found=f"{pairs} pairs")
    if not 0 < arguments.margin < 1:
        raise UsageError("--margin", expected="between 0 and 1", found=str(arguments.margin))
    comparison = Against(
        Run.open(path), task, subset=arguments.subset, margin=arguments.margin, level=0.95
    )
    if task.submission is not None:
        raise DataError(f"--against on {task.name}", expected="ground truth", found="none")
    return comparison
