"""Child processes that read uploads: each reads one, under limits, and writes to one folder alone.

No code of participants runs. If a flaw in a decoder let an upload run code, that code would have no
network and no files but Python's and the labels, and could only send JSON to the server. Children
are forked from a process that has imported all modules and holds no data (`forkserver`).
"""

import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

from harness.errors import DataError, HarnessError, ParseError, UsageError, raised_as
from harness.leaderboards.server.hosted import Hosted, Settings, check, score
from harness.run.processes import die_with, quiet_main
from harness.sandbox import kernel
from harness.sandbox.tiers import SYSTEM_LIBRARIES
from harness.task import Task

Result: TypeAlias = str | float | None
Work: TypeAlias = Callable[[Task], Result]
OK, REFUSED, FAULT = "ok", "refused", "fault"  # outcomes that a child reports
MAX_ANSWER = 1 << 20
"""Largest size in bytes of a child's answer."""
MAX_TEXT = 4000
"""Largest number of characters of an error in an answer."""
PRELOADED = ("pyarrow.parquet",)
"""Modules that the fork server imports once; each child would need half a second."""
DEVICES = ("/dev/null", "/dev/urandom")


class Refused(DataError):
    """An upload is invalid; the message is for the participant."""


class ChildFault(HarnessError):
    """A child failed, but not because of the upload; the message is for the server's owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resources that reading an upload may take."""

    seconds: int = 600
    """CPU time; the server waits for twice as long by the clock."""
    memory: int = 4 * 2**30
    """Bytes of address space."""
    max_bytes: int = 4 * 2**30
    """Bytes of each file that is written."""
    unpacked: int = 256 * 2**20
    """Bytes of all files of a zip together."""


class Children:
    """Starts child processes and returns their results."""

    def __init__(
        self, tasks: Iterable[Hosted], private: Path, limits: Limits | None = None
    ) -> None:
        """Start the fork server.

        Args:
            tasks: The tasks whose uploads are read.
            private: The server's folder, which no child can read, wherever it lies.
            limits: Limits of a child.
        """
        self.limits, self._private = limits or Limits(), private.resolve()
        self._context = multiprocessing.get_context("forkserver")
        modules = {hosted.module for hosted in tasks}
        self._context.set_forkserver_preload([__name__, *PRELOADED, *sorted(modules)])
        self._starting = threading.Lock()
        with quiet_main():
            forkserver.ensure_running()

    def check(self, folder: Path, hosted: Hosted, settings: Settings) -> str:
        """Return the hash of the predictions in a working folder.

        Raises:
            Refused: the predictions are invalid, or reading them exceeds the limits.
            ChildFault: they could not be checked.
        """
        work = partial(check, hosted=hosted, settings=settings, max_bytes=self.limits.unpacked)
        return str(self._run(work, folder, hosted))

    def score(self, folder: Path, hosted: Hosted, settings: Settings, name: str) -> float | None:
        """Return the score of the predictions in a working folder; the run folder lies in it.

        Raises:
            ChildFault: they could not be scored.
        """
        limit = self.limits.unpacked
        work = partial(score, hosted=hosted, settings=settings, name=name, max_bytes=limit)
        try:
            value = self._run(work, folder, hosted)
        except Refused as error:  # it passed the check
            raise ChildFault(str(error)) from error
        return None if value is None else float(value)

    def _run(self, work: Work, folder: Path, hosted: Hosted) -> Result:
        """Read an upload in a child process with limits of time and memory; return its result."""
        ours, theirs = self._context.Pipe(duplex=False)
        arguments = (theirs, work, folder.resolve(), self._private, hosted, self.limits)
        with self._starting, quiet_main():
            process = self._context.Process(target=serve, args=arguments, daemon=True)
            process.start()
        theirs.close()
        answer = b""
        try:
            if ours.poll(2 * self.limits.seconds):  # of the clock, which other processes share
                answer = ours.recv_bytes(MAX_ANSWER)
        except (EOFError, OSError):
            pass
        finally:
            ours.close()
            process.kill()
            process.join()
        if not answer:
            raise Refused(
                "upload",
                expected=f"a file that is read in {self.limits.seconds} s and "
                f"{self.limits.memory // 2**20:,} MiB of memory",
                found=f"one that takes more, or ends the reader ({process.exitcode})",
            )
        outcome, value = json.loads(answer)
        if outcome == REFUSED:
            raise Refused(value)
        if outcome == FAULT:
            raise ChildFault(value)
        return value  # type: ignore[no-any-return]


def serve(
    answers: Connection, work: Work, folder: Path, private: Path, hosted: Hosted, limits: Limits
) -> None:
    """Run in a child: build the task, give up rights, do the work, and send the result as JSON.

    The result is not pickled, because a child that an upload has taken over could send any pickle.
    """
    die_with(os.getppid())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        task = hosted.build()
        os.chdir(folder)
        confine(folder, private, hosted.labels, limits)
        outcome, value = _outcome(work, task, hosted, limits)
    except Exception as error:  # noqa: BLE001 - the server says it to the owner
        outcome, value = FAULT, f"{type(error).__name__}: {error}"
    answers.send_bytes(json.dumps((outcome, value)).encode())


def _outcome(work: Work, task: Task, hosted: Hosted, limits: Limits) -> tuple[str, Result]:
    """Do the work; return OK and its result, or REFUSED and the message for the participant."""
    try:
        return OK, work(task)
    except (DataError, ParseError, UsageError) as error:
        return REFUSED, str(error).replace(str(hosted.labels), "LABELS")[:MAX_TEXT]
    except MemoryError:
        return REFUSED, f"upload: it takes more than {limits.memory // 2**20:,} MiB to read"


def confine(folder: Path, private: Path, labels: Path, limits: Limits) -> None:
    """Give up all rights except to read Python and the labels and to write into the folder.

    `private` cannot be read even if it lies among Python's packages or the labels. Without Landlock
    in the kernel, only the resource limits hold.

    Raises:
        ChildFault: the kernel refuses.
    """
    tempfile.tempdir = str(folder)
    for limited, limit in (
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_CPU, limits.seconds),
        (resource.RLIMIT_FSIZE, limits.max_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        resource.setrlimit(limited, (limit, limit))
    with raised_as(ChildFault, "a child", "to give up its rights", OSError):
        kernel.no_new_privileges()
        if kernel.landlock_version():
            python = [sys.prefix, sys.base_prefix, *filter(None, sys.path)]
            allowed: list[str | Path] = [*SYSTEM_LIBRARIES, *DEVICES, *python, labels]
            paths = {Path(path).resolve() for path in allowed}
            readable = {str(entry) for path in paths for entry in _without(path, private)}
            kernel.landlock(kernel.landlock_ruleset(sorted(readable), [str(folder)]))


def _without(path: Path, private: Path) -> Iterator[Path]:
    """Yield a path or, if the private folder lies in it, the largest parts of it without that.

    >>> [*_without(Path("/nowhere"), Path("/home/server"))]
    []
    """
    if not private.is_relative_to(path):
        yield from [path] if path.exists() else []
    elif path != private:
        for entry in path.iterdir():
            if not entry.is_symlink():  # one could lead there
                yield from _without(entry, private)
