"""`--submitit`: the same command as a job of Slurm, through the package submitit.

Each task of the job is one process of a launch (`harness.run.distributed`): the first scores, and
all journal into the run folder. What a job leaves unfinished, another job continues.
"""

import os
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from time import sleep
from types import FrameType, ModuleType
from typing import Any

from harness.errors import MissingDependency, Unavailable, UsageError, printable
from harness.spec import parse

JOBS = 3
"""Jobs that one command submits, where the earlier ones ended without a result."""
FOLDER = ".submitit"
LATE = 60  # seconds after a job's end until its state is known
SIGNAL_DELAY = 120  # seconds before the time limit, for what is under way to be journalled
INTERRUPTED = 130
LISTS = ("setup", "teardown", "srun_args")
"""Parameters that are lists: the value that is typed is their only one."""
INTERNAL = frozenset({"map_count", "array_parallelism", "additional_parameters"})
"""Parameters of arrays of jobs, which are not submitted here, and one that is a dictionary."""


def submit(arguments: Namespace, check: Callable[[int], None]) -> int:
    """Submit the command that was typed, wait for it, and print what its first task printed.

    Returns the exit code of the first task that failed, else 0. `check` raises an error if the
    command cannot run in a number of tasks.

    Raises:
        MissingDependency: submitit or Slurm is not there.
        UsageError: a parameter is not one of submitit's, or Slurm refuses the job.
        Unavailable: a job was cancelled, or `JOBS` jobs ended without a result.
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
    executor = _executor(submitit, arguments, check)
    for number in range(1, JOBS + 1):
        try:
            job = executor.submit(Command(tuple(arguments.typed)))
        except submitit.core.utils.FailedJobError as error:
            raise UsageError(
                f"--submitit {arguments.submitit}",
                expected="a job that Slurm accepts",
                found=str(error),
            ) from error
        print(f"job {job.job_id}, logs in {job.paths.folder}", file=sys.stderr)
        tasks = [job.task(rank) for rank in range(job.num_tasks)]
        try:
            failed = [(task, fault) for task in tasks if (fault := task.exception()) is not None]
        except KeyboardInterrupt:
            job.cancel()
            raise
        if not failed:
            print(job.results()[0], end="")
            return 0
        codes = [_find_code(fault) for _, fault in failed]
        lost = {None, INTERRUPTED}
        if None in codes:
            lost.add(Unavailable.exit_code)  # of a task that waited for one that was killed
        for (task, fault), code in zip(failed, codes, strict=True):
            if code is not None and code not in lost:
                print(printable(task.stderr() or str(fault)), end="", file=sys.stderr)
                return code
        state = _find_state(job)
        if state.startswith("CANCELLED"):
            break
        if number < JOBS:
            print(f"job {job.job_id} ended; another job resumes it", file=sys.stderr)
    raise Unavailable(
        f"job {job.job_id}, number {number} of at most {JOBS}",
        expected="a result",
        found=f"none: {state or 'it was ended'}",
        fix=f"See {job.paths.stderr}; finished work is kept; run the same command again to resume.",
    )


def _find_state(job: Any) -> str:
    """Return how Slurm says that a job ended, which it may tell late; "" if it does not say."""
    for _ in range(LATE):
        state = str(job.get_info().get("State", ""))
        if state not in ("RUNNING", "COMPLETING"):
            break
        sleep(1)
    return state


def _find_code(error: Exception) -> int | None:
    """Return the exit code that ended a task; None where it was killed."""
    match = re.search(r"^RuntimeError: exit code (\d+)$", str(error), re.MULTILINE)
    return match and int(match[1])


def _executor(submitit: ModuleType, arguments: Namespace, check: Callable[[int], None]) -> Any:
    """Return the executor with the parameters of `--submitit`."""
    typed = parse(f"submitit({arguments.submitit})").arguments
    given = {name.removeprefix("slurm_"): value for name, value in typed.items()}
    shared = submitit.AutoExecutor._valid_parameters()  # no public way leads to the names
    known = {"cluster", "folder", *shared, *submitit.SlurmExecutor._valid_parameters()} - INTERNAL
    if unknown := [name for name in given if name not in known]:
        raise UsageError(
            f"--submitit {unknown[0]}=…",
            expected=f"parameters of submitit: {', '.join(sorted(known))}",
            found="none of that name",
        )
    chosen = {
        "signal_delay_s": SIGNAL_DELAY,
        "srun_args": "--kill-on-bad-exit=1",
        "tasks_per_node": given.pop("ntasks_per_node", given.get("gpus_per_node", 1)),
        **given,
    }
    folder = chosen.pop("folder", None) or arguments.out / FOLDER
    cluster = chosen.pop("cluster", None)
    try:
        executor = submitit.AutoExecutor(Path(str(folder)), cluster=cluster or "slurm")
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
        raise UsageError(f"--submitit {arguments.submitit}", found=str(error)) from error
    check(size)
    return executor


@dataclass(frozen=True)
class Command:
    """Command that each task of a job runs, as one process of a launch."""

    typed: Sequence[str]
    """The command line."""

    def __call__(self) -> str:
        """Return what the command prints; raise RuntimeError if it fails, which srun has to see."""
        from harness.cli.main import main

        job = import_module("submitit").JobEnvironment()
        ranks = {"WORLD_SIZE": job.num_tasks, "RANK": job.global_rank, "LOCAL_RANK": job.local_rank}
        os.environ |= {name: str(value) for name, value in ranks.items()}
        stopped: list[int] = []

        def stop(number: int, frame: FrameType | None) -> None:
            stopped.append(number)
            raise KeyboardInterrupt

        # The handler of submitit raises SystemExit, which inside a model's call would count as its
        # failure: it is called after the command has ended.
        preempted = getattr(signal, f"SIG{job.USR_SIG}")
        requeue = signal.signal(preempted, stop)
        with redirect_stdout(StringIO()) as printed:
            code = main([*self.typed, "--submitit="])
        if stopped and callable(requeue):
            requeue(preempted, None)
        elif code:
            raise RuntimeError(f"exit code {code}")
        return printed.getvalue()

    def checkpoint(self, *arguments: object) -> Any:
        """Return what submitit queues again after a time limit or a preemption: the same."""
        return import_module("submitit.helpers").DelayedSubmission(self, *arguments)
