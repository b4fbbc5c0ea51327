"""`harness` in forks of a process that has imported it: a command of its own, without the start.

Importing takes most of the time of a short command, and hundreds of commands import the same.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.run.processes import quiet_main

IMPORTED = ["harness.cli.main", "harness.cli.evaluate", "harness.cli.tables", "numpy.random"]


class Forked:
    """A running command, with what tests use of `subprocess.Popen`; it leads its own session."""

    def __init__(self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._output = TemporaryDirectory()
        files = [Path(self._output.name, name) for name in ("stdout", "stderr")]
        self._files = files
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        ours, theirs = context.Pipe()
        arguments = (theirs, list(words), cwd, dict(env), files)
        self._process = context.Process(target=_run, args=arguments)
        with quiet_main():
            self._process.start()
        ours.recv()  # now it has a session, whose processes can be killed together
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
        """Wait for the end and return what it wrote to standard output and error."""
        self.wait(timeout)
        written, errors = (path.read_text() for path in self._files)
        return written, errors

    def send_signal(self, number: int) -> None:
        """Send a signal to the process alone, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process alone."""
        self._process.kill()


def _run(
    ready: Connection,
    words: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    files: Sequence[Path],
) -> None:
    os.setsid()
    for number, path in enumerate(files, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    paths = env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path]
    sys.argv = ["harness", *words]
    from harness.cli.main import main

    ready.send(None)
    sys.exit(main())
