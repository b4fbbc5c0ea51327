"""A worker seen from harness: a process that is sent code and answers with an execution.

`pool` starts and ends workers; `worker` is the program of the process; `protocol` has the messages
between the two.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from struct import Struct
from typing import Any

from harness.sandbox.execution import Execution, read_execution
from harness.sandbox.protocol import HELLO, REQUEST, RESPONSE, Ended, Limits
from harness.sandbox.syscalls import this_architecture
from harness.sandbox.tiers import ENVIRONMENT, Launch

GRACE_SECONDS = 30.0
"""Seconds after an execution's own time limit in which a worker must answer, if the machine is
busy."""
MAX_EXECUTIONS = 1000
"""Executions after which a worker is replaced."""


OOM_FIRST_COMMAND = (
    "/bin/sh",
    "-c",
    '{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$0" "$@"',
)
"""Starts a command as the first process that the kernel kills when memory is short, with its
children: code that fills the memory does not end harness."""


class WorkerLost(Exception):
    """The worker ended or did not answer; the message has the last line of its error output."""


class Worker:
    """One process, used by one thread at a time."""

    def __init__(self, launch: Launch, limits: Limits) -> None:
        """Start the process and wait until it is ready.

        Raises:
            WorkerLost: it is not ready within `launch.start_seconds`.
        """
        self._limits = limits
        self._executions_left = MAX_EXECUTIONS
        self._folder = launch.folder
        self._owner = os.getpid()
        # The process gets only these descriptors, not harness's environment, and no Ctrl-C of the
        # terminal. Its session is a process group, which is killed as a whole.
        try:
            self._process = subprocess.Popen(
                (*OOM_FIRST_COMMAND, *launch.command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=ENVIRONMENT,
                start_new_session=True,
            )
        except BaseException:
            self._remove_folder()
            raise
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        deadline = time.monotonic() + launch.start_seconds
        try:
            (size,) = self._read_struct(HELLO, deadline)
            self.hello: dict[str, Any] = json.loads(self._read(size, deadline))
        except BaseException:
            self.close()
            raise

    @property
    def spent(self) -> bool:
        """True if the worker has run so many executions that it is to be replaced."""
        return self._executions_left <= 0

    def run(self, request: bytes, timeout: float) -> Execution:
        """Run a request.

        Raises:
            WorkerLost: the process ended, or gave no answer in time.
        """
        self._executions_left -= 1
        deadline = time.monotonic() + timeout + GRACE_SECONDS
        self._write(REQUEST.pack(timeout, len(request)) + request, deadline)
        reason, status, refused, seconds, *sizes = self._read_struct(RESPONSE, deadline)
        printed, emitted = (self._read(size, deadline) for size in sizes)
        architecture = this_architecture()
        return read_execution(
            Ended(reason),
            status,
            printed,
            emitted,
            limits=self._limits,
            timeout=timeout,
            seconds=seconds,
            refused=architecture.name(refused) if architecture and refused >= 0 else None,
        )

    def close(self) -> None:
        """End the process, and everything that it has started."""
        self._kill()
        self._process.wait()
        self._remove_folder()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                stream.close()

    def __del__(self) -> None:
        """End the process if `close` was not called; not in a fork, whose parent may use it."""
        if hasattr(self, "_process") and self._owner == os.getpid():
            self.close()

    def _remove_folder(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> None:
        if self._process.returncode is None:  # its id cannot belong to another process yet
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _lost(self, reason: str) -> WorkerLost:
        """Kill the process; return the error, with the last line that the process wrote."""
        self._kill()
        assert self._process.stderr
        lines = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return WorkerLost(f"{reason}: {lines[-1]}" if lines else reason)

    def _write(self, content: bytes, deadline: float) -> None:
        rest = memoryview(content)
        while rest:
            self._wait(self._input, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._input, rest) :]
            except BrokenPipeError as error:
                raise self._lost("it ended") from error

    def _read_struct(self, form: Struct, deadline: float) -> tuple[Any, ...]:
        return form.unpack(self._read(form.size, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        content = bytearray()
        while len(content) < size:
            self._wait(self._output, select.POLLIN, deadline)
            if not (part := os.read(self._output, size - len(content))):
                raise self._lost("it ended")
            content += part
        return bytes(content)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        """Wait until a descriptor is ready; raise WorkerLost at the deadline."""
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, 1e3 * (deadline - time.monotonic()))):
            raise self._lost("it gave no answer in time")
