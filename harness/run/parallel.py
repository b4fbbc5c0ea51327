"""Score a finished run's predictions in several processes.

Every process walks over the task's units and scores every n-th unit, with predictions that it reads
from the journal: nothing large travels between processes, and none holds more than one unit. The
parent puts the scores into the task's order, so that the result does not depend on the number of
processes.
"""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path

from harness.errors import StoreError, raised_as
from harness.interchange.journal_form import stored_prediction
from harness.record import Run
from harness.run.batching import Selection, units
from harness.run.judging import TaskSource
from harness.run.processes import die_with, quiet_main
from harness.run.scoring import Tally, score_unit, tally
from harness.scores import UnitScore
from harness.store.journal import Journal


def score_journal(
    source: TaskSource, run: Run, *, selection: Selection, processes: int
) -> Iterator[tuple[UnitScore, Tally]]:
    """Yield every unit's score and tally, in the task's order.

    Raises:
        StoreError: a prediction is missing, or a process died.
    """
    processes = max(1, min(processes, len(run.journal.places)))  # more would have no unit
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=die_with, initargs=(os.getpid(),))
    arguments = (source, run.folder, selection)
    with pool, raised_as(StoreError, "a scoring process", "to end its work", BrokenProcessPool):
        with quiet_main():
            parts = [
                pool.submit(_score_units, *arguments, index, processes)
                for index in range(processes)
            ]
        shares = [part.result() for part in parts]
    for unit_index in range(sum(map(len, shares))):  # each process scored every `processes`-th unit
        yield shares[unit_index % processes][unit_index // processes]


def _score_units(
    source: TaskSource, folder: Path, selection: Selection, index: int, count: int
) -> list[tuple[UnitScore, Tally]]:
    """Return the scores and tallies of each `count`-th unit, from number `index` on."""
    task, journal = source.build(), Journal(folder)
    done = []
    for unit in islice(units(selection.samples(task)), index, None, count):
        records = journal.records(sample.query.id for sample in unit)
        predictions = [stored_prediction(record, folder) for record in records]
        done.append((score_unit(task, unit, predictions), tally(task, unit, predictions)))
    return done
