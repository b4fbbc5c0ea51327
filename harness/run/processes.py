"""Worker processes on this machine, each with the model, each writing its own journal file."""

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
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

from harness.errors import HarnessError
from harness.files import temporary_prefix
from harness.model import Model
from harness.run.batching import Batch
from harness.run.pipeline import Predictor
from harness.run.predict import Outcome
from harness.run.worker_pool import READY, Member, Pool
from harness.run.workers import build_model, worker_error, worker_info
from harness.spec import Spec
from harness.store.journal import Writer

FINISH = 60.0  # seconds that workers have, when a run ends early, to finish what was answered
LEAVE = 10.0  # seconds that a worker has to end if it has nothing to finish


@dataclass(kw_only=True)
class Process(Member):
    """A worker process, and our end of the pipe to it."""

    pipe: Connection
    process: BaseProcess

    def send(self, batch: Batch) -> None:
        """Send a batch."""
        with suppress(OSError):  # it is dead: that is found where it is listened to
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
        """Close the pipe, at which the process ends, and wait for that."""
        self.hang_up()
        self.wait_until(monotonic() + LEAVE)

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
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        run = (self.spec, self.folder.resolve(), self._attempt, self.seed, self.isolate)
        process = context.Process(
            target=serve, args=(theirs, index, *run, os.getpid()), daemon=True
        )
        with quiet_main():
            process.start()
        theirs.close()
        return Process(pipe=ours, process=process)

    def _wait_ready(self, busy: Sequence[Member], seconds: float) -> list[Member]:
        members = {id(member.pipe): member for member in busy if isinstance(member, Process)}
        heard = wait(
            [member.pipe for member in busy if isinstance(member, Process)], timeout=seconds
        )
        return [members[id(pipe)] for pipe in heard]

    def close(self) -> None:
        """Close all pipes, and wait for all together.

        Those that have work finish what they have answered, for which they have `FINISH` seconds.
        An interrupt meanwhile ends all at once.
        """
        members = [member for member in self._members if isinstance(member, Process)]
        began = monotonic()
        for member in members:
            member.hang_up()
        try:
            for member in members:
                works = member.batches and member.ready
                member.wait_until(began + (FINISH if works else LEAVE))
        except BaseException:
            for member in members:
                member.kill()
            raise
        finally:
            super().close()


@contextmanager
def quiet_main() -> Iterator[None]:
    """Keep a child that is started from running code which it does not need.

    That is the caller's main module (a script without an `if __name__` guard would start itself
    over and over), whatever lies in the current folder under the name of a module, such as a
    multiprocessing.py beside somebody's data, and the command line, which names the data.
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
    """Run a worker process: build the model, and predict the batches that the pipe brings."""
    die_with(parent)
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides what an interrupt means
        signal.signal(number, signal.SIG_IGN)
    try:
        # The journal is opened first: model code may give up the right to open files.
        with Writer(folder, index, attempt) as journal, _empty_folder() as empty:
            model = build_model(spec, seed)  # in the folder where its SPEC's paths are right
            if isolate:
                os.chdir(empty)
            _serve(pipe, model, journal)
    except (EOFError, ConnectionError):
        return  # the parent has closed the pipe: nothing is left to do
    except Exception as error:  # noqa: BLE001 - the parent says it, and ends the run
        with suppress(OSError):
            pipe.send(worker_error("a worker process", error))


@contextmanager
def _empty_folder() -> Iterator[str]:
    """Make an empty folder, left behind if model code gave up the right to remove it."""
    folder = tempfile.mkdtemp(prefix=temporary_prefix("worker"))
    Path(folder).chmod(0o755)  # to be entered after that as well
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(pipe: Connection, model: Model, journal: Writer) -> None:
    pipe.send(worker_info(model))
    news: SimpleQueue[Outcome | Future[Outcome] | None] = SimpleQueue()
    predictor = Predictor(model, journal, on_outcome=news.put)
    # No stage waits for a parent that is busy, maybe with sending something here.
    telling = threading.Thread(target=_send_outcomes, args=(pipe, news, predictor), daemon=True)
    waiting: list[Batch] = []
    try:
        while True:
            # The pool gives no more than may be under way, and one to decode meanwhile: what else
            # there is to hear is the end, after which no batch is begun.
            while not waiting or pipe.poll():
                waiting.append(pipe.recv())
                predictor.prefetch(waiting[-1])
            if not predictor.prepared:
                predictor.prepare()
                pipe.send(READY)
                telling.start()
            predictor.submit(waiting.pop(0)).add_done_callback(news.put)
    finally:
        predictor.finish()
        if telling.is_alive():
            news.put(None)
            telling.join(LEAVE)


def _send_outcomes(
    pipe: Connection, news: "SimpleQueue[Outcome | Future[Outcome] | None]", predictor: Predictor
) -> None:
    """Send outcomes to the parent; none once the worker ends, whose own error gives the reason."""
    while (item := news.get()) is not None:
        with suppress(OSError):  # the parent is gone, which is found where it is listened to
            if not predictor.ending:
                pipe.send(item if isinstance(item, Outcome) else _came_of(item))


def _came_of(done: "Future[Outcome]") -> Outcome | HarnessError:
    error = done.exception()
    return done.result() if error is None else worker_error("a worker process", error)


def die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent is killed, so that no orphan goes on."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
