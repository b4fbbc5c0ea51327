"""The remote side of a Ray worker: it holds the model, and its records until they are fetched.

`ray_workers` is the driver's side; it calls the methods of `Worker` remotely.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from harness.errors import HarnessError
from harness.run.batching import Batch
from harness.run.pipeline import Predictor
from harness.run.predict import Outcome
from harness.run.worker_pool import READY
from harness.run.workers import WorkerInfo, build_model, worker_error, worker_info
from harness.spec import Spec


class BufferedJournal:
    """A journal that holds records in memory, by batch, until they are fetched."""

    def __init__(self) -> None:
        self._records: dict[int, list[Mapping[str, object]]] = {}
        self._lock = threading.Lock()

    def append(self, records: Sequence[Mapping[str, object]]) -> None:
        """Store records by their batch."""
        with self._lock:
            for record in records:
                batch = record["begin"] if "begin" in record else record["batch"]
                assert type(batch) is int, "records are of a batch"
                self._records.setdefault(batch, []).append(record)

    def fetch(self, batch: int | None = None) -> list[Mapping[str, object]]:
        """Remove and return the records of one batch, or of all batches (None)."""
        with self._lock:
            chosen = list(self._records) if batch is None else [batch]
            return [record for index in chosen for record in self._records.pop(index, ())]


class Worker:
    """The actor. Its errors are returned, not raised, because Ray wraps raised ones."""

    def __init__(self, spec: Spec, seed: int, *, hides_gpus: bool = False) -> None:
        if hides_gpus:
            # Ray leaves the variable unchanged if no GPU is requested: all would be visible.
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._spec, self._seed = spec, seed
        self._journal = BufferedJournal()
        self._predictor: Predictor | None = None
        self._finished: list[Outcome] = []

    async def is_placed(self) -> None:
        """Do nothing; a completed call shows that the actor has a machine."""

    async def info(self) -> WorkerInfo | HarnessError:
        """Build the model and return its `WorkerInfo`, or the HarnessError that this raised."""
        try:
            model = build_model(self._spec, self._seed)
            self._predictor = Predictor(
                model,
                self._journal,
                inline=False,
                on_outcome=lambda outcome: self._finished.append(outcome),
            )
            return worker_info(model)
        except HarnessError as error:
            return error

    async def prepare(self) -> object:
        """Load what the model loads before its first prediction."""
        return await self._call_guarded(self._prepare)

    async def run(self, batch: Batch) -> object:
        """Predict a batch; return its outcome and its journal records.

        Calls may begin and end in another order than they were sent, so only the records of this
        batch are fetched with its outcome.
        """
        return await self._call_guarded(partial(self._run, batch))

    async def fetch(self) -> tuple[list[Outcome], list[Mapping[str, object]]]:
        """Return the samples finished since the last call, and their journal records."""
        finished, self._finished = self._finished, []  # each was journalled before
        return finished, self._journal.fetch()

    async def finish(self) -> list[Mapping[str, object]]:
        """Finish answered samples, drop the others, and return the records not fetched yet."""
        if self._predictor is not None:
            await asyncio.to_thread(self._predictor.drain)
        return self._journal.fetch()

    async def _prepare(self, predictor: Predictor) -> str:
        predictor.prepare()
        return READY

    async def _run(self, batch: Batch, predictor: Predictor) -> object:
        predictor.prefetch(batch)  # it waits behind other batches
        outcome = await asyncio.wrap_future(predictor.submit(batch))
        return outcome, self._journal.fetch(batch.index)

    async def _call_guarded(self, call: Callable[[Predictor], Awaitable[object]]) -> object:
        assert self._predictor is not None, "the pool calls `info` first"
        try:
            return await call(self._predictor)
        except Exception as error:  # noqa: BLE001 - the driver raises it, and ends the run
            return worker_error("an actor", error)
