"""Where batches are predicted: in this process, or in several that each hold the model.

A worker process gets queries through a pipe and writes its own journal file. It is told nothing
else: not the data root, not the targets. With `isolate` it is not even given handles to files:
pictures arrive decoded, so that a process which may not read the data root predicts the same.
"""

import ctypes
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from harness import plugins
from harness.errors import HarnessError, MediaError, ModelError
from harness.media import Media, lost, pixels
from harness.model import Model
from harness.provenance import device
from harness.run.plan import Batch
from harness.run.predict import Outcome, Predictor, begin, records
from harness.spec import Spec
from harness.store.journal import Writer
from harness.types import FailureKind, failed

MAX_CARRIED = 2**31  # bytes of one video's pixels that are sent to a worker
READY = "ready"  # what a worker says once its model is loaded
TRIES = 2  # worker processes that one batch may cost
AHEAD = 2  # batches that a worker holds: one in work, one being decoded


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker says of its model once it is loaded."""

    name: str
    batch_size: int
    sort: bool
    description: Mapping[str, Any]
    device: str = "cpu"
    """Where the model computes, told by the process that holds it."""


def hello(model: Model) -> Hello:
    """The model's own account of itself.

    Raises:
        ModelError: it raises, or says what is no plain data or no batch size.
    """
    with plugins.blamed(f"model {type(model).__name__}", ModelError):
        sort = bool(getattr(model, "sorts_by_length", False))
        description = json.loads(json.dumps(dict(model.describe()), allow_nan=False))
        said = Hello(str(model.name), model.batch_size, sort, description, device())
    if type(said.batch_size) is not int or said.batch_size < 1:
        raise ModelError(f"batch_size of model {said.name}", expected="a whole number ≥ 1",
                         found=repr(said.batch_size))  # fmt: skip
    return said


class Workers(Protocol):
    """Something that predicts batches."""

    @property
    def hello(self) -> Hello:
        """What the model says of itself."""

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict batches; outcomes come as they are done."""


@dataclass(frozen=True)
class Here:
    """One worker: this process."""

    model: Model
    folder: Path
    attempt: int

    @property
    def hello(self) -> Hello:
        """What the model says of itself."""
        return hello(self.model)

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict batches one after the other, decoding the next one meanwhile."""
        with Writer(self.folder, 0, self.attempt) as journal:
            predictor = Predictor(self.model, journal)
            waiting: Batch | None = None
            try:
                for batch in batches:
                    predictor.prefetch(batch)
                    if waiting is not None:
                        yield predictor.run(waiting)
                    waiting = batch
                if waiting is not None:
                    yield predictor.run(waiting)
            finally:
                predictor.decoders.shutdown(wait=False, cancel_futures=True)


@dataclass
class _Process:
    pipe: Connection
    process: Any
    held: list[Batch] = field(default_factory=list)
    """Batches that it was given and has not finished; the first one is in work."""
    ready: bool = False
    """It has loaded the model; the time that this takes is not held against it."""
    since: float = 0.0
    """When it was last heard of, or was given work after having none."""


class Processes:
    """Several worker processes, each with the model that `spec` names.

    A worker that dies, or is silent for `timeout` seconds while it has work, is replaced. The batch
    that it was working on is tried again, `TRIES` times in all; then its samples are failures of
    the infrastructure.
    """

    def __init__(
        self,
        spec: Spec,
        folder: Path,
        *,
        attempt: int,
        count: int,
        seed: int,
        isolate: bool,
        timeout: float | None,
    ) -> None:
        self.folder = folder
        self.isolate = isolate
        self.timeout = timeout
        self._arguments = (spec, folder.resolve(), attempt, seed, isolate, os.getpid())
        self._attempt = attempt
        self._started = 0
        self._losses: Counter[int] = Counter()
        self._workers: list[_Process] = []
        try:
            self._workers = [self._start() for _ in range(count)]
            greetings = [self._greeting(worker) for worker in self._workers]
        except BaseException:
            self.close()
            raise
        self.hello: Hello = greetings[0]
        if any(greeting != self.hello for greeting in greetings):
            self.close()
            raise ModelError(f"model {spec}", expected="the same model in every worker",
                             found="models that describe themselves differently")  # fmt: skip

    def _start(self) -> _Process:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, self._started, *self._arguments)
        self._started += 1  # a replacement writes a journal file of its own
        process = context.Process(target=serve, args=arguments, daemon=True)
        with quiet_main():
            process.start()
        theirs.close()
        return _Process(ours, process)

    def _greeting(self, worker: _Process) -> Hello:
        message = self._receive(worker)
        if message is None:
            raise ModelError(
                "a worker process", expected="to load the model",
                found=f"it ended with exit code {worker.process.exitcode}",
                fix="With less memory to share, try fewer --workers.",
            )  # fmt: skip
        assert isinstance(message, Hello), "the first message of a worker is its greeting"
        return message

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Give each worker the next batch as it becomes free."""
        stream = iter(batches)
        waiting: list[Batch] = []  # lost by a worker, to be tried again
        more = True
        while more or waiting or any(worker.held for worker in self._workers):
            while (worker := self._free()) is not None and (more or waiting):
                batch = waiting.pop() if waiting else next(stream, None)
                if batch is None:
                    more = False
                    break
                self._give(worker, batch)
            for worker in self._heard():
                outcome = self._receive(worker)
                worker.since = monotonic()
                if outcome is None:
                    yield from self._replace(worker, waiting)
                elif outcome == READY:
                    worker.ready = True
                else:
                    worker.held.pop(0)
                    yield outcome
        self.close()

    def _free(self) -> _Process | None:
        """The worker with the least to do, if it takes more."""
        least = min(self._workers, key=lambda worker: len(worker.held))
        # Decoded pictures are large: an isolated worker holds those of one batch. And where silence
        # is watched, nothing more is sent to a worker that may hang, for sending would wait for it.
        most = 1 if self.isolate or self.timeout is not None else AHEAD
        return least if len(least.held) < most else None

    def _give(self, worker: _Process, batch: Batch) -> None:
        message = carried(batch) if self.isolate else batch  # decoding is not the worker's time
        if not worker.held:
            worker.since = monotonic()
        worker.held.append(batch)
        with suppress(OSError):  # it is dead: that is found where it is listened to
            worker.pipe.send(message)

    def _heard(self) -> list[_Process]:
        """Workers that have something to say, are dead, or were silent for too long."""
        busy = [worker for worker in self._workers if worker.held]
        pipes = {id(worker.pipe): worker for worker in busy}
        ready = [pipes[id(pipe)] for pipe in wait([worker.pipe for worker in busy], timeout=0.2)]
        for worker in busy:
            silent = monotonic() - worker.since
            late = self.timeout is not None and worker.ready and silent > self.timeout
            if late and worker not in ready:
                worker.process.kill()  # its end of the pipe closes, and it is heard of as dead
        return ready

    def _replace(self, worker: _Process, waiting: list[Batch]) -> Iterator[Outcome]:
        """Start another worker in the place of a dead one, and give its batches back."""
        first, *others = worker.held
        waiting.extend(others)
        self._losses[first.index] += 1
        if self._losses[first.index] < TRIES:
            waiting.append(first)
        else:
            yield self._give_up(first, worker.process.exitcode)
        replacement = self._start()
        self._workers[self._workers.index(worker)] = replacement
        if self._greeting(replacement) != self.hello:
            raise ModelError("a replaced worker", expected="the same model", found="another")

    def _give_up(self, batch: Batch, exitcode: int | None) -> Outcome:
        """Journal a batch that no worker survives."""
        message = (
            f"{TRIES} worker processes ended on this batch, the last with exit code {exitcode}"
        )
        self._started += 1
        with Writer(self.folder, self._started - 1, self._attempt) as journal:
            predictions = [
                failed(query, FailureKind.INFRASTRUCTURE, message) for query in batch.queries
            ]
            journal.append([begin(batch), *records(batch, predictions)])
        ids = tuple(query.id for query in batch.queries)
        # Counted like crashes of the model, so that one which never survives ends the run.
        return Outcome(batch.index, ids, 0.0, failed=len(ids), crashed=len(ids))

    def _receive(self, worker: _Process) -> Any:
        """The next message; None if the worker is dead."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(5)
            return None
        if isinstance(message, HarnessError):
            raise message
        return message

    def close(self) -> None:
        """Let the workers end."""
        for worker in self._workers:
            with suppress(OSError):
                worker.pipe.close()
        for worker in self._workers:
            worker.process.join(10)
            if worker.process.is_alive():
                worker.process.kill()
        self._workers = []


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


def carried(batch: Batch) -> Batch:
    """The same batch with pictures decoded, for a process that may not read files.

    A picture that cannot be decoded becomes one that says so, in the words of the error.
    """
    made: dict[int, Media] = {}  # queries of one video share it, also on the way
    queries = []
    for query in batch.queries:
        for media in query.media:
            if id(media) not in made:
                made[id(media)] = _decoded(media)
        queries.append(replace(query, media=tuple(made[id(media)] for media in query.media)))
    return replace(batch, queries=tuple(queries))


def _decoded(media: Media) -> Media:
    size = 3 * media.size[0] * media.size[1] * len(media)
    if size > MAX_CARRIED:
        error = MediaError(
            repr(media), expected=f"at most {MAX_CARRIED} bytes of pixels for a process that may "
            "not read files", found=str(size),
            fix="Give the task a rule for frames, such as frames=32, or leave out --isolate.",
        )  # fmt: skip
        return lost(error, size=media.size, frames=len(media))
    try:
        frames = media.frames()
    except MediaError as error:
        return lost(error, size=media.size, frames=len(media))
    return pixels(frames, times=media.times(), is_video=media.is_video, id=media.id)


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
    """The main function of a worker process."""
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    try:
        # The journal is opened first: model code may give up the right to open files.
        with Writer(folder, index, attempt) as journal, _empty_folder() as empty:
            model = build_model(spec, seed)  # in the folder where its SPEC's paths are right
            if isolate:
                os.chdir(empty)
            _serve(pipe, model, journal)
    except HarnessError as error:
        with suppress(OSError):
            pipe.send(error)
    except (EOFError, ConnectionError):
        return  # the parent has closed the pipe: nothing is left to do
    except Exception as error:  # noqa: BLE001 - the parent says it, and ends the run
        fault = ModelError("a worker process", expected="to go on", found=plugins.told(error))
        with suppress(OSError):
            pipe.send(fault)


@contextmanager
def _empty_folder() -> Iterator[str]:
    """A folder of the process's own, left behind if model code gave up the right to remove it."""
    folder = tempfile.mkdtemp()
    Path(folder).chmod(0o755)  # to be entered after that as well
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(pipe: Connection, model: Model, journal: Writer) -> None:
    pipe.send(hello(model))
    predictor = Predictor(model, journal)
    waiting: list[Batch] = []
    try:
        while True:
            while not waiting or (len(waiting) < AHEAD and pipe.poll()):
                waiting.append(pipe.recv())
                predictor.prefetch(waiting[-1])
            if not predictor.prepared:
                predictor.prepare()
                pipe.send(READY)
            pipe.send(predictor.run(waiting.pop(0)))
    finally:
        predictor.decoders.shutdown(wait=False, cancel_futures=True)


def build_model(spec: Spec, seed: int) -> Model:
    """Build a model; one that samples takes the run's seed unless its spec names one."""
    if plugins.accepts("models", spec.name, "seed"):
        spec = spec.with_defaults(seed=seed)
    model: Model = plugins.build("models", spec)
    return model


def _die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent is killed, so that no orphan goes on."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
