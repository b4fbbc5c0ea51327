"""Run a command as a Slurm job through the package submitit (`--submitit`).

Each task of the job is one process of a launch (`harness.run.distributed`). If a job ends without a
result, another job resumes its work.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import sleep
from types import ModuleType
from typing import Any, NamedTuple

from harness.errors import MissingDependency, Unavailable, UsageError
from harness.spec import parse

MAX_JOBS = 3
"""Largest number of jobs that one command submits, if the earlier ones end without a result."""
STATE_SECONDS = 60  # longest time after a job's end until Slurm knows its state
SIGNAL_DELAY = 120  # seconds before the time limit at which Slurm interrupts the command
INTERRUPTED = 130  # exit code of an interrupted command
LISTS = ("setup", "teardown", "srun_args")
"""Parameters that are lists; the typed value is the only item."""
EXCLUDED_PARAMETERS = frozenset({"map_count", "array_parallelism", "additional_parameters"})
"""Parameters that cannot be typed: two of job arrays, and one that is a dictionary."""


class Ended(NamedTuple):
    """Result of a job."""

    code: int
    """Exit code of the first task that failed; 0 if none did."""
    output: str = ""
    """Return value of the first task."""
    errors: str = ""
    """Standard error of the task that failed."""


def run_job(
    command: Callable[[], str],
    parameters: str,
    folder: Path,
    check: Callable[[int], None],
    tell: Callable[[str], None],
) -> Ended:
    """Submit a command as a job, wait for it, and resume it by another job if necessary.

    Args:
        command: The function that each task calls; it raises RuntimeError("exit code N") if it
            fails.
        parameters: Parameters of submitit, `KEY=VALUE,…`.
        folder: Folder of submitit's files, unless a parameter names another.
        check: Raises an error if the command cannot run in a number of tasks.
        tell: Receives a line for each job.

    Raises:
        MissingDependency: submitit or Slurm is not installed.
        UsageError: a parameter is not one of submitit's, or Slurm refuses the job.
        Unavailable: a job was cancelled, or `MAX_JOBS` jobs ended without a result.
    """
    try:
        submitit = import_module("submitit")
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "--submitit",
            expected="the package submitit",
            found="it is not installed",
            fix="pip install submitit",
        ) from error
    executor = _executor(submitit, parameters, folder, check)
    for number in range(1, MAX_JOBS + 1):
        try:
            job = executor.submit(command)
        except submitit.core.utils.FailedJobError as error:
            raise UsageError(
                f"--submitit {parameters}",
                expected="a job that Slurm accepts",
                found=str(error),
            ) from error
        tell(f"job {job.job_id}, logs in {job.paths.folder}")
        tasks = [job.task(rank) for rank in range(job.num_tasks)]
        try:
            failed = [(task, fault) for task in tasks if (fault := task.exception()) is not None]
        except KeyboardInterrupt:
            job.cancel()
            raise
        if not failed:
            return Ended(0, output=job.results()[0])
        codes = [_find_code(fault) for _, fault in failed]
        codes_of_lost_tasks = {None, INTERRUPTED}
        if None in codes:
            # A task that waited for a killed one ends with it.
            codes_of_lost_tasks.add(Unavailable.exit_code)
        for (task, fault), code in zip(failed, codes, strict=True):
            if code is not None and code not in codes_of_lost_tasks:
                return Ended(code, errors=task.stderr() or str(fault))
        state = _find_state(job)
        if state.startswith("CANCELLED"):
            break
        if number < MAX_JOBS:
            tell(f"job {job.job_id} ended; another job resumes it")
    raise Unavailable(
        f"job {job.job_id}, number {number} of at most {MAX_JOBS}",
        expected="a result",
        found=f"none: {state or 'it was ended'}",
        fix=f"See {job.paths.stderr}; finished work is kept; run the same command again to resume.",
    )


def _find_state(job: Any) -> str:
    """Return Slurm's state of an ended job, for which it may need time; "" if it is not known."""
    for _ in range(STATE_SECONDS):
        state = str(job.get_info().get("State", ""))
        if state not in ("RUNNING", "COMPLETING"):
            break
        sleep(1)
    return state


def _find_code(error: Exception) -> int | None:
    """Return the exit code of a failed task; None if it was killed."""
    match = re.search(r"^RuntimeError: exit code (\d+)$", str(error), re.MULTILINE)
    return match and int(match[1])


def _executor(
    submitit: ModuleType, parameters: str, folder: Path, check: Callable[[int], None]
) -> Any:
    """Return the executor with the parameters of `--submitit`; for errors see `run_job`."""
    arguments = parse(f"submitit({parameters})").arguments
    typed = {name.removeprefix("slurm_"): value for name, value in arguments.items()}
    shared = submitit.AutoExecutor._valid_parameters()  # there is no public list of the names
    valid = {
        "cluster",
        "folder",
        *shared,
        *submitit.SlurmExecutor._valid_parameters(),
    } - EXCLUDED_PARAMETERS
    if unknown := [name for name in typed if name not in valid]:
        raise UsageError(
            f"--submitit {unknown[0]}=…",
            expected=f"parameters of submitit: {', '.join(sorted(valid))}",
            found="none of that name",
        )
    chosen = {
        "signal_delay_s": SIGNAL_DELAY,
        "srun_args": "--kill-on-bad-exit=1",
        "tasks_per_node": typed.pop("ntasks_per_node", typed.get("gpus_per_node", 1)),
        **typed,
    }
    logs_folder = chosen.pop("folder", None) or folder
    cluster = chosen.pop("cluster", None)
    try:
        executor = submitit.AutoExecutor(Path(str(logs_folder)), cluster=cluster or "slurm")
        executor.update_parameters(
            **{
                name if name in shared else f"slurm_{name}": [value] if name in LISTS else value
                for name, value in chosen.items()
            }
        )
        size = int(str(chosen.get("nodes", 1))) * int(str(chosen["tasks_per_node"]))
    except RuntimeError as error:
        raise MissingDependency(
            "--submitit", expected="the commands of Slurm", found=str(error)
        ) from error
    except (AssertionError, NameError, TypeError, ValueError) as error:
        raise UsageError(f"--submitit {parameters}", found=str(error)) from error
    check(size)
    return executor
