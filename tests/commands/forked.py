"""`harness` in forks of a process that has imported it: a command of its own, without the start.

Importing takes most of the time of a short command, and hundreds of commands import the same.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from harness.run.processes import die_with, quiet_main

IMPORTED = ["harness.cli.main", "harness.cli.evaluate", "harness.cli.tables", "numpy.random"]


class Forked:
    """A running command, with what tests use of `subprocess.Popen`; it leads its own session."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        largest: int | None = None,
    ) -> None:
        """Start `harness` with these words; no file grows beyond `largest` bytes."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        pipes = [context.Pipe(duplex=False) for _ in range(3)]
        ready, *self._output = [ours for ours, _ in pipes]
        arguments = (*[theirs for _, theirs in pipes], list(words), cwd, dict(env), largest)
        self._process = context.Process(target=_run, args=arguments)
        with quiet_main():
            self._process.start()
        for _, theirs in pipes:
            theirs.close()
        ready.recv()  # now it has a session, whose processes can be killed together
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative if a signal ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("harness", timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end and return what it wrote to standard output and error.

        It waits for ever if it writes more than a pipe holds, 64 KiB.
        """
        self.wait(timeout)
        return _held(self._output[0]), _held(self._output[1])

    def send_signal(self, number: int) -> None:
        """Send a signal to the process alone, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process alone."""
        self._process.kill()


def _held(pipe: Connection) -> str:
    """Return what was written to a pipe, which a worker may still hold open."""
    os.set_blocking(pipe.fileno(), False)
    with suppress(BlockingIOError):
        return os.read(pipe.fileno(), 2**20).decode()
    return ""


def _run(
    ready: Connection,
    output: Connection,
    errors: Connection,
    words: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    largest: int | None,
) -> None:
    die_with(os.getppid())
    os.setsid()
    os.dup2(output.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    output.close()
    errors.close()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    paths = env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path]
    sys.argv = ["harness", *words]
    from harness.cli.main import main

    if largest is not None:  # a write beyond is an error, as on a full disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    ready.send(None)
    sys.exit(main())
