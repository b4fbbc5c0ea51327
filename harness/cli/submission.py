"""`harness eval --submitit`: run the typed command as a Slurm job, one process per GPU."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from types import FrameType
from typing import Any

from harness.errors import printable
from harness.run.slurm_job import run_job

FOLDER = ".submitit"  # in `--out`, for the job's files


def submit(arguments: Namespace, check: Callable[[int], None]) -> int:
    """Submit the typed command, wait, print the output of its first task, and return its code.

    `check` is called with the number of processes before the submission; it may raise UsageError.
    """
    result = run_job(
        Command(tuple(arguments.typed)),
        arguments.submitit,
        arguments.out / FOLDER,
        check,
        tell=lambda line: print(line, file=sys.stderr),
    )
    print(result.output, end="")
    print(printable(result.errors), end="", file=sys.stderr)
    return result.code


@dataclass(frozen=True)
class Command:
    """The command that each task of a Slurm job runs, as one process of a launch."""

    typed: Sequence[str]
    """The command line."""

    def __call__(self) -> str:
        """Return what the command prints; raise RuntimeError if it fails, so that srun sees it."""
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
        """Return the job that submitit queues after a time limit or a preemption: the same."""
        return import_module("submitit.helpers").DelayedSubmission(self, *arguments)
