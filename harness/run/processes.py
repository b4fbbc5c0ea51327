"""Worker processes on this machine, each with its own model and its own journal file.

`Processes` is the parent's side (see `Pool`); `serve` runs in the child. They exchange messages by
a pipe: batches to the child; `WorkerInfo`, `READY`, outcomes and errors to the parent.
"""

import ctypes
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

from harness.errors import HarnessError
from harness.files import temporary_prefix
from harness.model import Model
from harness.run.batching import Batch
from harness.run.interpreter import InterpreterProcess
from harness.run.pipeline import Predictor
from harness.run.predict import Outcome
from harness.run.worker_pool import READY, Member, Pool
from harness.run.workers import WorkerInfo, build_model, worker_error, worker_info
from harness.spec import Spec
from harness.store.journal import Writer
from harness.uv_environment import without_environment

FINISH_SECONDS = 60.0  # seconds for workers to finish answered samples when a run ends early
LEAVE_SECONDS = 10.0  # seconds for a worker to end if it has nothing to finish


@dataclass(kw_only=True)
class Process(Member):
    """A worker process, and our end of the pipe to it."""

    pipe: Connection
    process: BaseProcess | InterpreterProcess

    def send(self, batch: Batch) -> None:
        """Send a batch."""
        with suppress(OSError):  # it is dead, which `receive` finds
            self.pipe.send(batch)

    def receive(self) -> object:
        """Wait for the next message and return it; None if the process is dead."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            return None

    def kill(self) -> None:
        """Kill the process: its end of the pipe closes."""
        self.process.kill()

    def close(self) -> None:
        """Close the pipe, which ends the process, and wait for its end."""
        self.hang_up()
        self.wait_until(monotonic() + LEAVE_SECONDS)

    def hang_up(self) -> None:
        """Close the pipe: the process finishes its answered samples, and ends."""
        with suppress(OSError):
            self.pipe.close()

    def wait_until(self, moment: float) -> None:
        """Wait for the process to end; kill it if it has not by `moment`, or at an interrupt."""
        try:
            self.process.join(max(0.0, moment - monotonic()))
        finally:
            if self.process.is_alive():
                self.process.kill()

    def exit_reason(self) -> str:
        """Return the exit code, such as `exit code 1`."""
        return f"exit code {self.process.exitcode}"


class Processes(Pool):
    """Several worker processes; see `Pool`."""

    def _start(self, index: int) -> Process:
        """Start a worker in a new process, or in the interpreter of its model's own environment."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        spec, environment = without_environment(self.spec)
        run = (index, spec, self.folder.resolve(), self._attempt, self.seed, self.isolate)
        process: BaseProcess | InterpreterProcess
        if environment is not None:
            process = InterpreterProcess(environment.programs / "python", theirs)
            with suppress(OSError):  # it is dead, which `receive` finds
                ours.send((*run, os.getpid()))
        else:
            process = context.Process(target=serve, args=(theirs, *run, os.getpid()), daemon=True)
            with quiet_main():
                process.start()
        theirs.close()
        return Process(pipe=ours, process=process)

    def _greeting(self, member: Member) -> WorkerInfo:
        greeting = super()._greeting(member)
        _, environment = without_environment(self.spec)
        if environment is None:
            return greeting
        description = {**greeting.description, "environment": environment.describe()}
        return replace(greeting, description=description)

    def _wait_for_message(self, busy: Sequence[Member], seconds: float) -> list[Member]:
        members = {id(member.pipe): member for member in busy if isinstance(member, Process)}
        readable_pipes = wait(
            [member.pipe for member in busy if isinstance(member, Process)], timeout=seconds
        )
        return [members[id(pipe)] for pipe in readable_pipes]

    def close(self) -> None:
        """Close all pipes, and wait for all together.

        Workers that have work may finish what they have answered within `FINISH_SECONDS`. An
        interrupt meanwhile ends all at once.
        """
        members = [member for member in self._members if isinstance(member, Process)]
        began = monotonic()
        for member in members:
            member.hang_up()
        try:
            for member in members:
                works = member.batches and member.ready
                member.wait_until(began + (FINISH_SECONDS if works else LEAVE_SECONDS))
        except BaseException:
            for member in members:
                member.kill()
            raise
        finally:
            super().close()


@contextmanager
def quiet_main() -> Iterator[None]:
    """Start children in the block without the caller's main module, folder and command line.

    A child would run the main module (a script without an `if __name__` guard would start itself
    again and again), and import modules from the current folder, such as a multiprocessing.py
    beside the data. The command line would reveal the data's paths.
    """
    main = sys.modules["__main__"]
    saved = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    safe, line = os.environ.get("PYTHONSAFEPATH"), sys.argv
    os.environ["PYTHONSAFEPATH"] = "1"
    sys.argv = line[:1]
    try:
        for name in saved:
            setattr(main, name, None)
        yield
    finally:
        sys.argv = line
        for name, value in saved.items():
            setattr(main, name, value)
        if safe is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe


def serve(
    pipe: Connection,
    index: int,
    spec: Spec,
    folder: Path,
    attempt: int,
    seed: int,
    isolate: bool,
    parent: int,
) -> None:
    """Run a worker process: build the model, and predict the batches from the pipe.

    Args:
        pipe: The child's end of the pipe.
        index: Number of the worker, for its journal file.
        spec: The model.
        folder: The run folder.
        attempt: Number of the attempt, for the journal.
        seed: Seed of the run.
        isolate: Work in an empty folder.
        parent: Process id of the parent.
    """
    die_with(parent)
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides what an interrupt means
        signal.signal(number, signal.SIG_IGN)
    try:
        # The journal is opened first: model code may give up the right to open files.
        with Writer(folder, index, attempt) as journal, _empty_folder() as empty:
            model = build_model(spec, seed)  # in the folder where its SPEC's paths are right
            if isolate:
                os.chdir(empty)
            _predict_batches(pipe, model, journal)
    except (EOFError, ConnectionError):
        return  # the parent has closed the pipe: nothing is left to do
    except Exception as error:  # noqa: BLE001 - the parent raises it, and ends the run
        with suppress(OSError):
            pipe.send(worker_error("a worker process", error))


@contextmanager
def _empty_folder() -> Iterator[str]:
    """Make an empty folder; it stays behind if model code gives up the right to remove it."""
    folder = tempfile.mkdtemp(prefix=temporary_prefix("worker"))
    Path(folder).chmod(0o755)  # model code that gives up its user must still enter it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _predict_batches(pipe: Connection, model: Model, journal: Writer) -> None:
    """Greet the parent, then predict batches until the pipe is closed."""
    pipe.send(worker_info(model))
    news: SimpleQueue[Outcome | Future[Outcome] | None] = SimpleQueue()
    received: SimpleQueue[Batch | Exception] = SimpleQueue()
    predictor = Predictor(model, journal, on_outcome=news.put)
    # Threads send and receive, so that neither side waits for the other one while it is busy.
    telling = threading.Thread(target=_send_outcomes, args=(pipe, news, predictor), daemon=True)
    threading.Thread(target=_receive_batches, args=(pipe, received), daemon=True).start()
    waiting: list[Batch] = []
    try:
        while True:
            # The pool sends no more batches than may be in progress, and one to decode meanwhile.
            # So all are taken at once; the end of the pipe raises before a batch is begun.
            while not waiting or not received.empty():
                message = received.get()
                if isinstance(message, Exception):
                    raise message
                waiting.append(message)
                predictor.prefetch(message)
            if not predictor.prepared:
                predictor.prepare()
                pipe.send(READY)
                telling.start()
            predictor.submit(waiting.pop(0)).add_done_callback(news.put)
    finally:
        predictor.drain()
        if telling.is_alive():
            news.put(None)
            telling.join(LEAVE_SECONDS)


def _receive_batches(pipe: Connection, received: "SimpleQueue[Batch | Exception]") -> None:
    """Put the pipe's batches into a queue, and the error that ends the pipe after them."""
    try:
        while True:
            received.put(pipe.recv())
    except Exception as error:  # noqa: BLE001 - the worker's main thread raises it
        received.put(error)


def _send_outcomes(
    pipe: Connection, news: "SimpleQueue[Outcome | Future[Outcome] | None]", predictor: Predictor
) -> None:
    """Send outcomes to the parent until None comes; none once the worker is ending."""
    while (item := news.get()) is not None:
        with suppress(OSError):  # the parent is gone, which `pipe.recv` finds
            if not predictor.ending:
                pipe.send(item if isinstance(item, Outcome) else _result_of(item))


def _result_of(done: "Future[Outcome]") -> Outcome | HarnessError:
    """Return a future's outcome, or its error as a HarnessError, which can be pickled."""
    error = done.exception()
    return done.result() if error is None else worker_error("a worker process", error)


def die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent ends, so that there are no orphans."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
