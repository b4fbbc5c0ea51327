"""Where batches are predicted: in this process, or in several that each hold the model.

A worker process gets queries through a pipe and writes its own journal file. It is told nothing
else: not the data root, not the targets. With `isolate` it is not even given handles to files:
pictures arrive decoded, so that a process which may not read the data root predicts the same.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from harness import plugins
from harness.errors import HarnessError, ModelError
from harness.media import Media, pixels
from harness.model import Model
from harness.run.plan import Batch
from harness.run.predict import Outcome, Predictor
from harness.spec import Spec
from harness.store.journal import Writer

AHEAD = 2  # batches that a worker holds: one in work, one being decoded


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker says of its model once it is loaded."""

    name: str
    batch_size: int
    sort: bool
    description: Mapping[str, Any]


def hello(model: Model) -> Hello:
    """The model's own account of itself."""
    sort = bool(getattr(model, "sorts_by_length", False))
    return Hello(model.name, model.batch_size, sort, model.describe())


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
    busy: int = 0


class Processes:
    """Several worker processes, each with the model that `spec` names."""

    def __init__(
        self, spec: Spec, folder: Path, *, attempt: int, count: int, seed: int, isolate: bool
    ) -> None:
        self.folder = folder
        self.isolate = isolate
        context = multiprocessing.get_context("spawn")
        self._workers: list[_Process] = []
        try:
            for index in range(count):
                ours, theirs = context.Pipe()
                arguments = (
                    theirs,
                    spec,
                    folder.resolve(),
                    index,
                    attempt,
                    seed,
                    isolate,
                    os.getpid(),
                )
                process = context.Process(target=serve, args=arguments, daemon=True)
                with quiet_main():
                    process.start()
                theirs.close()
                self._workers.append(_Process(ours, process))
            greetings = [self._receive(worker) for worker in self._workers]
        except BaseException:
            self.close()
            raise
        self.hello: Hello = greetings[0]
        if any(greeting != self.hello for greeting in greetings):
            self.close()
            raise ModelError(f"model {spec}", expected="the same model in every worker",
                             found="models that describe themselves differently")  # fmt: skip

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Give each worker the next batch as it becomes free."""
        stream = iter(batches)
        more = True
        while more or any(worker.busy for worker in self._workers):
            for worker in sorted(self._workers, key=lambda worker: worker.busy):
                while more and worker.busy < AHEAD:
                    batch = next(stream, None)
                    if batch is None:
                        more = False
                        break
                    worker.pipe.send(carried(batch) if self.isolate else batch)
                    worker.busy += 1
                    if not _all_fed(self._workers):
                        break  # the others first
            for worker in self._ready():
                outcome = self._receive(worker)
                worker.busy -= 1
                yield outcome
        self.close()

    def _ready(self) -> list[_Process]:
        pipes = {worker.pipe: worker for worker in self._workers if worker.busy}
        return [pipes[pipe] for pipe in wait(list(pipes), timeout=0.2) if pipe in pipes]

    def _receive(self, worker: _Process) -> Any:
        try:
            message = worker.pipe.recv()
        except (EOFError, ConnectionError) as error:
            worker.process.join(5)
            raise ModelError(
                "a worker process", expected="to go on", found="it ended with exit code "
                f"{worker.process.exitcode}", fix="What was finished is kept: run the same "
                "command again, perhaps with fewer --workers.",
            ) from error  # fmt: skip
        if isinstance(message, HarnessError):
            raise message
        return message

    def close(self) -> None:
        """Let the workers end."""
        for worker in self._workers:
            with suppress(OSError):
                worker.pipe.close()
        for worker in self._workers:
            if worker.process.pid is not None:
                worker.process.join(10)
                if worker.process.is_alive():
                    worker.process.kill()
        self._workers = []


def _all_fed(workers: list[_Process]) -> bool:
    return all(worker.busy for worker in workers)


@contextmanager
def quiet_main() -> Iterator[None]:
    """Keep multiprocessing from running the caller's main module again in the child.

    The child needs `serve` and nothing of the caller; a script without an `if __name__` guard
    would start itself over and over.
    """
    main = sys.modules["__main__"]
    saved = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        for name in saved:
            setattr(main, name, None)
        yield
    finally:
        for name, value in saved.items():
            setattr(main, name, value)


def carried(batch: Batch) -> Batch:
    """The same batch with pictures decoded, for a process that may not read files.

    A picture that cannot be decoded is left as it is: the worker meets the same error.
    """
    queries = []
    for query in batch.queries:
        with suppress(HarnessError):
            query = replace(query, media=tuple(_decoded(media) for media in query.media))
        queries.append(query)
    return Batch(batch.index, tuple(queries))


def _decoded(media: Media) -> Media:
    return pixels(media.frames(), times=media.times(), is_video=media.is_video, id=media.id)


def serve(
    pipe: Connection,
    spec: Spec,
    folder: Path,
    index: int,
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
        with Writer(folder, index, attempt) as journal, tempfile.TemporaryDirectory() as empty:
            if isolate:
                os.chdir(empty)
            _serve(pipe, build_model(spec, seed), journal)
    except HarnessError as error:
        with suppress(OSError):
            pipe.send(error)
    except (EOFError, ConnectionError):
        return  # the parent has closed the pipe: nothing is left to do


def _serve(pipe: Connection, model: Model, journal: Writer) -> None:
    pipe.send(hello(model))
    predictor = Predictor(model, journal)
    waiting: list[Batch] = []
    try:
        while True:
            while not waiting or (len(waiting) < AHEAD and pipe.poll()):
                waiting.append(pipe.recv())
                predictor.prefetch(waiting[-1])
            pipe.send(predictor.run(waiting.pop(0)))
    finally:
        predictor.decoders.shutdown(wait=False, cancel_futures=True)


def build_model(spec: Spec, seed: int) -> Model:
    """Build a model; one that samples takes the run's seed unless its spec names one."""
    import inspect

    function = plugins.load("models", spec.name)
    if "seed" in inspect.signature(function).parameters:
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
