"""Runs many commands of `harness` in forked processes, and measures their time and memory.

`Children.play` takes stages and returns their outcomes. Packages that every command imports are
imported once, in this process, from which each command is forked: a paper's table is dozens of
commands, and the imports take longer than a rehearsed command.
"""

import io
import os
import shlex
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from harness.run.processes import die_with
from harness.spec import slug

WARM_MODULES = (
    *("torch", "torchvision", "transformers", "accelerate", "peft", "trl"),
    *("harness.cli.sweep", "harness.cli.train", "harness.cli.board", "harness.cli.tables"),
    *("harness.trainers.grpo.loop", "harness.trainers.sft.learner", "scipy.optimize"),
)
"""Modules that most commands import."""
WARM_CLASSES = (
    *("AutoProcessor", "Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLProcessor"),
    *("Qwen2ForCausalLM", "Sam2Model", "Sam2Processor", "Sam2VideoModel"),
)
"""Classes of transformers, which imports each when it is first used."""
TIMEOUT = 900.0
"""Seconds after which a command is killed."""
POLL_INTERVAL = 0.05  # seconds between looks at running processes
TIMED_OUT = 124
"""Exit code of a command that was killed, as `timeout` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One command, and the stages that must have succeeded before it."""

    name: str
    arguments: tuple[str, ...]
    """Arguments of `harness`."""
    processes: int = 1
    after: tuple[str, ...] = ()
    """Names of other stages."""
    alone: str = ""
    """Stages with the same text here write to the same folders, and do not run at once."""

    @property
    def line(self) -> str:
        """The command for a shell."""
        several = f"  # in {self.processes} processes" if self.processes > 1 else ""
        return shlex.join(["harness", *self.arguments]) + several


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a stage."""

    code: int | None
    """Exit code; None: a stage before it failed."""
    seconds: float = 0.0
    peak: int = 0
    """Largest resident memory of one of its processes in bytes."""
    reason: str = ""
    """The last error that the command printed; empty after a success."""
    output: str = ""
    """The command's standard output."""


Run = Callable[[Sequence[str]], int]
"""Runs the command in the forked process, and returns its exit code."""


def warm_up() -> None:
    """Import the modules that most commands import; those that are not installed are skipped."""
    with suppress(ImportError):
        from harness.models.backends.torchvision_cpu import ensure_torchvision

        ensure_torchvision()
    for name in WARM_MODULES:
        with suppress(ImportError):
            import_module(name)
    for name in WARM_CLASSES:
        with suppress(ImportError, AttributeError):
            getattr(import_module("transformers"), name)
    with suppress(ImportError, AttributeError):  # a thousand regular expressions
        import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping(
            "qwen2_vl"
        )


class Children:
    """Runs stages in forked processes, of which at most `at_once` run at the same time."""

    def __init__(
        self,
        run: Run,
        logs: Path,
        *,
        at_once: int,
        began: Callable[[Stage], None] = lambda stage: None,
    ) -> None:
        self.run = run
        self.logs = logs
        self.at_once = at_once
        self.began = began
        self._running: dict[int, tuple[Stage, Path, float]] = {}
        self._codes: dict[str, list[int]] = {}
        self._peaks: dict[str, int] = {}

    def play(
        self, stages: Sequence[Stage], ended: Callable[[Stage, Outcome], None]
    ) -> dict[str, Outcome]:
        """Run every stage once those before it succeeded; return the outcomes by name."""
        outcomes: dict[str, Outcome] = {}
        waiting = list(stages)
        try:
            while waiting or self._running:
                for stage in list(waiting):
                    earlier = {name: outcomes[name] for name in stage.after if name in outcomes}
                    failed = [name for name, outcome in earlier.items() if outcome.code != 0]
                    if failed:
                        waiting.remove(stage)
                        outcomes[stage.name] = Outcome(code=None, reason=f"{failed[0]} failed")
                        ended(stage, outcomes[stage.name])
                    elif earlier.keys() == {*stage.after} and self._may_start(stage):
                        waiting.remove(stage)
                        self._start(stage)
                for stage, outcome in self._reap():
                    outcomes[stage.name] = outcome
                    ended(stage, outcome)
                time.sleep(POLL_INTERVAL)
        finally:
            self._kill(list(self._running))
        return outcomes

    def _may_start(self, stage: Stage) -> bool:
        """Return True if enough processes are free, and no stage writes to the same folders."""
        free = self.at_once - len(self._running)
        beside = {running.alone for running, _, _ in self._running.values() if running.alone}
        return stage.alone not in beside and (not self._running or free >= stage.processes)

    def _start(self, stage: Stage) -> None:
        """Fork the processes of a stage; their output goes to files in `logs`."""
        self.began(stage)
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{slug(stage.name)}.err"
        for path in (log, log.with_suffix(".out")):
            path.unlink(missing_ok=True)
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        for rank in range(stage.processes):
            ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": stage.processes}
            environment = {name: str(value) for name, value in ranks.items()} | shared
            pid = os.fork()
            if pid == 0:
                die_with(parent)
                _become(stage, log, environment if stage.processes > 1 else {}, self.run)
            self._running[pid] = (stage, log, time.monotonic())

    def _reap(self) -> list[tuple[Stage, Outcome]]:
        """Return the stages whose last process has ended since the last call."""
        ended_stages = []
        for pid, (stage, log, began) in list(self._running.items()):
            if pid not in self._running:  # killed below, as another process of its stage failed
                continue
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if not ended:
                if time.monotonic() - began > TIMEOUT:
                    os.killpg(pid, signal.SIGKILL)
                    self._codes.setdefault(stage.name, []).append(TIMED_OUT)
                continue
            del self._running[pid]
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # workers that it started
            codes = self._codes.setdefault(stage.name, [])
            codes.append(_code(status))
            peak = max(self._peaks.get(stage.name, 0), usage.ru_maxrss * 1024)
            self._peaks[stage.name] = peak
            others = [peer for peer, (owner, _, _) in self._running.items() if owner is stage]
            if codes[-1] != 0:
                self._kill(others)
                others = []
            if not others:
                code = next((code for code in codes if code), 0)
                outcome = Outcome(
                    code=code,
                    seconds=time.monotonic() - began,
                    peak=peak,
                    reason="" if code == 0 else _last_error(log, code),
                    output=_text(log.with_suffix(".out")),
                )
                ended_stages.append((stage, outcome))
        return ended_stages

    def _kill(self, pids: Sequence[int]) -> None:
        for pid in pids:
            self._running.pop(pid, None)
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _become(stage: Stage, log: Path, environment: Mapping[str, str], run: Run) -> None:
    """Run a stage's command in this forked process, and end it."""
    code = 70  # of an internal error
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        written = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        output, errors = (os.open(path, written, 0o644) for path in (log.with_suffix(".out"), log))
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((nothing, output, errors)):
            os.dup2(source, target)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(number, "w"), "utf-8", "replace", write_through=True)
            for number in (1, 2)
        )
        os.environ.update(environment)
        code = run(stage.arguments)
        if code == 1 and stage.arguments[0] == "eval":
            code = 0  # no response was read: `harness.rehearsal.report` judges a row as a whole
    except SystemExit as leaving:  # of argparse
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001 - a forked process never returns to its parent's code
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _code(status: int) -> int:
    return os.waitstatus_to_exitcode(status) % 256


def _last_error(log: Path, code: int) -> str:
    """Return the error of a command: the last line of its log that begins with `harness:`."""
    if code == TIMED_OUT:
        return f"still running after {TIMEOUT:.0f} s"
    lines = [line for line in _text(log).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("harness: ")]
    last = (errors or lines or ["nothing printed"])[-1]
    return f"code {code}: {last.removeprefix('harness: ')}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def free_port() -> int:
    """Return a TCP port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
