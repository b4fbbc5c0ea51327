"""Score a finished run's predictions in several processes.

Every process walks over the task's units and scores each n-th of them, reading its predictions from
the journal: nothing large travels between processes, and none holds more than one unit. The parent
takes the scores in the task's order, so that the result does not depend on the number of
processes.
"""

import multiprocessing
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from harness import plugins
from harness.errors import HarnessError, StoreError
from harness.interchange import prediction_from_json
from harness.record import Run
from harness.run.batching import Selection, units
from harness.run.processes import quiet_main
from harness.run.scoring import Tally, score_unit, tally
from harness.scores import UnitScore
from harness.spec import parse
from harness.store.journal import Journal
from harness.task import Task, with_metrics
from harness.types import Prediction

CHUNK = 8  # units that are sent together


@dataclass(frozen=True, slots=True)
class TaskSource:
    """The SPECs and data root from which a process builds a task for itself."""

    spec: str
    data: Path
    metrics: tuple[str, ...] = ()

    def build(self) -> Task:
        """Build the task, with the further metrics."""
        extras = [plugins.build("metrics", parse(one)) for one in self.metrics]
        return with_metrics(plugins.build("tasks", parse(self.spec), self.data), extras)


def score_journal(
    source: TaskSource, run: Run, *, selection: Selection, processes: int
) -> Iterator[tuple[UnitScore, Tally]]:
    """Yield every unit's score and tally, in the task's order.

    Raises:
        StoreError: a prediction is missing, or a process died.
    """
    context = multiprocessing.get_context("spawn")
    workers = []
    for index in range(processes):
        ours, theirs = context.Pipe(duplex=False)
        arguments = (theirs, source, run.folder, selection, index, processes)
        process = context.Process(target=_serve, args=arguments, daemon=True)
        with quiet_main():
            process.start()
        theirs.close()
        workers.append((ours, process))
    try:
        streams = [_received(pipe) for pipe, _ in workers]
        while (item := next(streams[0], None)) is not None:
            yield item
            streams.append(streams.pop(0))
    finally:
        for pipe, process in workers:
            pipe.close()
            process.join(10)


def _received(pipe: Connection) -> Iterator[tuple[UnitScore, Tally]]:
    while True:
        try:
            chunk = pipe.recv()
        except EOFError as error:
            raise StoreError(
                "a scoring process", expected="to end its work", found="it died"
            ) from error
        if isinstance(chunk, HarnessError):
            raise chunk
        if chunk is None:
            return
        yield from chunk


def _serve(
    pipe: Connection, source: TaskSource, folder: Path, selection: Selection, index: int, count: int
) -> None:
    with suppress(BrokenPipeError):
        try:
            chunk: list[tuple[UnitScore, Tally]] = []
            for item in _score_units(source, folder, selection, index, count):
                chunk.append(item)
                if len(chunk) == CHUNK:
                    pipe.send(chunk)
                    chunk = []
            pipe.send(chunk)
            pipe.send(None)
        except HarnessError as error:
            pipe.send(error)


def _score_units(
    source: TaskSource, folder: Path, selection: Selection, index: int, count: int
) -> Iterator[tuple[UnitScore, Tally]]:
    task, journal = source.build(), Journal(folder)

    def prediction_of(query: str) -> Prediction:
        return prediction_from_json(journal.record(query)["prediction"])

    for number, unit in enumerate(units(selection.samples(task))):
        if number % count == index:
            predictions = [prediction_of(sample.query.id) for sample in unit]
            yield score_unit(task, unit, predictions), tally(task, unit, predictions)
