"""A worker process under the interpreter of a model's own environment (`backend=uv(…)`).

`processes` starts it; in the new interpreter `worker_main` runs.
"""

import os
import subprocess
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from harness.uv_environment import REVEALING

WORKER_MODULE = "harness.run.worker_main"


class InterpreterProcess:
    """A worker's process, with the methods of `multiprocessing.Process` that pools use.

    Args:
        python: The interpreter, which finds this copy of harness.
        pipe: The worker's end of its pipe.
    """

    def __init__(self, python: Path, pipe: Connection) -> None:
        self._process = subprocess.Popen(
            [str(python), "-P", "-m", WORKER_MODULE, str(pipe.fileno())],
            pass_fds=(pipe.fileno(),),
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name not in REVEALING},
        )

    @property
    def exitcode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def is_alive(self) -> bool:
        """Return True while it runs."""
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, `timeout` seconds at most."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
