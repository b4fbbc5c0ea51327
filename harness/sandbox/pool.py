"""Sandboxes: a few workers that run untrusted code, each one execution at a time.

    with open_sandbox() as sandbox:
        done = sandbox.run("emit(sum(data))", data=[1, 2, 3])
        assert done.value == 6

Nodes and methods that execute a model's code call it. Every tier has isolation: if none works on a
machine, `open_sandbox` raises SandboxUnavailable, and no code is run.
"""

import json
import math
import platform
from collections.abc import Callable, Mapping
from functools import partial
from queue import LifoQueue
from subprocess import SubprocessError
from typing import Any, Self, TypeAlias

from harness.errors import SandboxFault, SandboxUnavailable, UsageError
from harness.sandbox.execution import Execution
from harness.sandbox.probes import Leaks, Run, answers, self_test
from harness.sandbox.process import Worker, WorkerLost
from harness.sandbox.protocol import Limits
from harness.sandbox.remote import Remote
from harness.sandbox.tiers import ENVIRONMENT, TIERS, launch

Runner: TypeAlias = Worker | Remote
Test: TypeAlias = Callable[[Run], Mapping[str, str]]
"""Tests a worker: returns the outcome of each probe by its name, or raises Leaks."""


class Sandbox:
    """Runs code in a few workers; safe to use from several threads.

    `_free` holds the workers that wait for a request; None stands for one not started yet.
    """

    def __init__(
        self, tier: str, start: Callable[[], Runner], test: Test, *, workers: int = 2
    ) -> None:
        """Start one worker and test it; others start when they are needed.

        Raises:
            WorkerLost: the worker does not start.
            Leaks: the worker's code can do something forbidden.
        """
        if workers < 1:
            raise UsageError("workers of a sandbox", expected="1 or more", found=str(workers))
        self.tier = tier
        self._start = start
        self._free: LifoQueue[Runner | None] = LifoQueue()
        for _ in range(workers - 1):
            self._free.put(None)
        self._workers = workers
        self._closed = False
        first = start()
        self._free.put(first)
        try:
            self._self_test = test(
                lambda code, data, seconds: first.run(_request(code, data, ""), seconds)
            )
        except BaseException:
            first.close()
            raise
        self._hello = first.hello

    def run(
        self, code: str, data: object = None, *, prelude: str = "", timeout: float = 10.0
    ) -> Execution:
        """Run code in a fresh namespace that holds `data` and `emit`.

        Args:
            code: Python, of which nothing is trusted.
            data: Plain JSON that the code sees as `data`.
            prelude: The caller's code, run first in the same namespace with the same rights.
            timeout: Seconds that prelude and code may take together.

        Raises:
            SandboxFault: two workers were lost in a row; this is not the code's fault.
            UsageError: the sandbox is closed.
        """
        if not (math.isfinite(timeout) and timeout > 0):
            raise UsageError("timeout", expected="seconds above 0", found=str(timeout))
        request = _request(code, data, prelude)
        worker = self._free.get()
        if self._closed:
            self._free.put(worker)
            raise UsageError("sandbox", expected="an open one", found="one that was closed")
        try:
            for last in (False, True):
                try:
                    if worker is None or worker.spent:
                        if worker is not None:
                            worker.close()
                        worker = self._start()
                    return worker.run(request, timeout)
                except WorkerLost as lost:
                    if worker is not None:
                        worker.close()
                        worker = None
                    if last:
                        raise SandboxFault(
                            f"the sandbox {self.tier}",
                            expected="an answer",
                            found=f"two workers lost ({lost})",
                            fix="`harness doctor --sandbox` tests it",
                        ) from lost
            raise AssertionError("the second try returns or raises")
        except BaseException:
            # The worker's answer may still come, and must not be read as that to another request.
            if worker is not None:
                worker.close()
                worker = None
            raise
        finally:
            self._free.put(worker)

    def describe(self) -> dict[str, Any]:
        """Return plain data for the record: the tier, and the outcomes of its self-test."""
        return {
            "tier": self.tier,
            "machine": platform.machine(),
            **self._hello,
            "self_test": dict(self._self_test),
        }

    def close(self) -> None:
        """End the workers once their executions are done; later calls of `run` raise UsageError."""
        if self._closed:
            return
        self._closed = True
        for _ in range(self._workers):
            worker = self._free.get()
            if worker is not None:
                worker.close()
        self._free.put(None)

    def __enter__(self) -> Self:
        """Return the sandbox itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def open_sandbox(tier: str = "auto", workers: int = 2, limits: Limits | None = None) -> Sandbox:
    """Return a sandbox that has passed its self-test.

    Args:
        tier: A name of `TIERS`; "auto": the first of them that works here; or the URL of a server
            of SandboxFusion.
        workers: Executions that it runs at the same time.
        limits: Limits of an execution; None: the defaults.

    Raises:
        SandboxUnavailable: no tier works; the message says what each one lacks.
    """
    is_remote = tier.startswith(("http://", "https://"))
    if tier != "auto" and tier not in TIERS and not is_remote:
        raise UsageError("tier", expected=f"auto, {', '.join(TIERS)} or a URL", found=tier)
    limits = limits or Limits()
    lacking = []
    for name in TIERS if tier == "auto" else (tier,):
        start = partial(Remote, tier, limits) if is_remote else partial(_start, name, limits)
        test = answers if is_remote else partial(self_test, environment=ENVIRONMENT)
        try:
            return Sandbox(name, start, test, workers=workers)
        except SandboxUnavailable as error:  # it names what is missing
            if name == tier:
                raise
            lacking.append(str(error))
        except (WorkerLost, Leaks, OSError) as error:
            lacking.append(f"{name}: {error}")
    raise SandboxUnavailable(
        "a sandbox for code that a model writes",
        expected="one that works",
        found="; ".join(lacking),
        fix="No code is run without one",
    )


def _start(tier: str, limits: Limits) -> Worker:
    """Start a worker of a tier; raise WorkerLost if it does not start."""
    try:
        return Worker(launch(tier, limits), limits)
    except (OSError, SubprocessError) as error:  # the machine has no free processes or memory
        raise WorkerLost(f"it does not start: {error}") from error


def _request(code: str, data: object, prelude: str) -> bytes:
    return json.dumps({"code": code, "data": data, "prelude": prelude}).encode()
