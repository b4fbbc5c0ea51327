"""Batches on their way through a model, its stages side by side.

    batch ─▶ ask (language) ─▶ begin (segmentation) ─▶ finish (propagation) ─▶ journal

A model that is `Staged` is asked for the next batch while the masks of the one before are made,
and the masks of one sample are carried through its video while the next sample is segmented. Each
stage works on one thing at a time, but for a language stage that takes several batches at once, as
a server does. At most `ahead` batches are on their way, so that memory is bounded.

No prediction depends on any of this: every stage is given what it would be given otherwise.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from harness.errors import HarnessError, ModelError
from harness.media import CACHE
from harness.model import Model, Staged
from harness.plugins import blamed
from harness.run.plan import Batch, lost_picture
from harness.run.predict import Appends, Outcome, begin, checked, contained, predict, records
from harness.run.stages import LANGUAGE, PROPAGATION, SEGMENTATION, WHOLE, Stage
from harness.types import FailureKind, Prediction, Query, failed

T = TypeVar("T")

PREFETCH_BYTES = CACHE.max_bytes // 4  # a batch that is larger is decoded as it is used


@dataclass(frozen=True, slots=True)
class _Asked:
    """A batch after the language stage."""

    model: Staged
    batch: Batch
    stages: dict[str, Stage]
    queries: Sequence[Query]
    """Those whose pictures are there."""
    replies: Sequence[Any]
    """What each was answered, or a Prediction that says why it was not."""
    lost: Sequence[Prediction]
    began: float


@dataclass(slots=True)
class Predictor:
    """A model, its journal, and the threads that its stages work in.

    Args:
        model: It need not be staged; then a batch is done when `submit` returns.
        journal: Where records go.
        inline: Ask for one batch at a time in the thread that submits it, which an interrupt can
            reach; else in a thread of its own.
    """

    model: Model
    journal: Appends
    inline: bool = True
    prepared: bool = False
    _lock: Any = field(default_factory=threading.Lock)
    """Held while the journal is written, and while it is decided that it is not any more."""
    closed: bool = False
    _threads: dict[str, ThreadPoolExecutor] = field(default_factory=dict)

    @property
    def ahead(self) -> int:
        """How many batches may be on their way."""
        return batches_ahead(self.model)

    def prefetch(self, batch: Batch) -> None:
        """Begin to decode a batch's pictures in the background."""
        size = 0
        for query in batch.queries:
            for media in query.media:
                size += media.size[0] * media.size[1] * 3 * len(media)
                if size > PREFETCH_BYTES:
                    return
                self._in("decode", _decode, media, threads=2)

    def prepare(self) -> None:
        """Load what the model loads before its first prediction.

        Raises:
            ModelError: the model has a `prepare` and that fails: no sample is to blame for it.
        """
        if not self.prepared:
            with blamed(f"model {self.model.name}", ModelError):
                getattr(self.model, "prepare", _nothing)()
            self.prepared = True

    def submit(self, batch: Batch) -> "Future[Outcome]":
        """Predict a batch and append it to the journal with one write.

        What ends the run is raised here or by the future's result.
        """
        self.prepare()
        self._append([begin(batch)])
        done: Future[Outcome] = Future()
        model = self.model
        if not isinstance(model, Staged):
            done.set_result(self._whole(batch))
            return done
        if self.inline and model.turns == 1:
            asked: Future[_Asked] = Future()
            asked.set_result(self._ask(model, batch))
        else:
            asked = self._in(LANGUAGE, self._ask, model, batch, threads=model.turns)
        self._in(SEGMENTATION, self._segment, asked, done)
        return done

    def close(self) -> None:
        """Let go of what is not finished; nothing is journalled after this."""
        with self._lock:
            self.closed = True
        for threads in list(self._threads.values()):
            threads.shutdown(wait=False, cancel_futures=True)
        getattr(self.model, "halt", _nothing)()

    def _in(self, stage: str, call: Callable[..., T], *given: Any, threads: int = 1) -> "Future[T]":
        if stage not in self._threads:
            self._threads[stage] = ThreadPoolExecutor(threads, thread_name_prefix=stage)
        return self._threads[stage].submit(call, *given)

    def _append(self, lines: Sequence[Any]) -> None:
        with self._lock:
            if self.closed:
                raise CancelledError
            self.journal.append(lines)

    def _whole(self, batch: Batch) -> Outcome:
        """Predict a batch with a model that has no stages."""
        start = perf_counter()
        whole, lost = _readable(batch)
        stage = Stage()
        predictions = [*(predict(self.model, whole, stage) if whole else []), *lost]
        return self._written(batch, predictions, {WHOLE: stage.end(start)}, start)

    def _ask(self, model: Staged, batch: Batch) -> _Asked:
        start = perf_counter()
        whole, lost = _readable(batch)
        stages = {name: Stage() for name in (LANGUAGE, SEGMENTATION, PROPAGATION)}
        stage = stages[LANGUAGE]
        replies = contained(self.model, whole, stage, lambda some: self._replies(model, some))
        stage.end(start)
        return _Asked(model, batch, stages, whole, replies, lost, start)

    def _replies(self, model: Staged, queries: Sequence[Query]) -> Sequence[Any]:
        if self.closed:
            raise CancelledError
        replies = model.ask(queries) if queries else ()
        if len(replies) != len(queries):
            raise ValueError(f"{len(replies)} replies for {len(queries)} queries")
        return replies

    def _segment(self, asking: "Future[_Asked]", done: "Future[Outcome]") -> None:
        """Begin each sample, and hand it on at once; after them all, the batch itself."""
        try:
            asked = asking.result()
            parts = [
                self._in(PROPAGATION, self._finish, asked, query, self._begin(asked, query, reply))
                for query, reply in zip(asked.queries, asked.replies, strict=True)
            ]
            self._in(PROPAGATION, self._collect, asked, parts, done)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            done.set_exception(error)

    def _begin(self, asked: _Asked, query: Query, reply: Any) -> Callable[[], Prediction]:
        if self.closed:
            raise CancelledError
        if isinstance(reply, Prediction):
            return lambda: reply
        start, stage = perf_counter(), asked.stages[SEGMENTATION]
        begin_ = asked.model.begin
        (begun,) = contained(self.model, [query], stage, lambda _: [begin_(query, reply)])
        stage.end(start)
        return (lambda: begun) if isinstance(begun, Prediction) else begun

    def _finish(self, asked: _Asked, query: Query, begun: Callable[[], Prediction]) -> Prediction:
        start, stage = perf_counter(), asked.stages[PROPAGATION]
        (prediction,) = contained(
            self.model, [query], stage, lambda chosen: checked(chosen, [begun()])
        )
        stage.end(start)
        return prediction

    def _collect(
        self,
        asked: _Asked,
        parts: "Sequence[Future[Prediction]]",
        done: "Future[Outcome]",
    ) -> None:
        try:
            predictions = [*(one.result() for one in parts), *asked.lost]
            done.set_result(self._written(asked.batch, predictions, asked.stages, asked.began))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            done.set_exception(error)

    def _written(
        self,
        batch: Batch,
        predictions: Sequence[Prediction],
        stages: dict[str, Stage],
        start: float,
    ) -> Outcome:
        self._append(records(batch, predictions))
        return Outcome(
            batch.index,
            tuple(query.id for query in batch.queries),
            perf_counter() - start,
            failed=sum(one.failure is not None for one in predictions),
            crashed=sum(one.crashed for one in stages.values()),
            halvings=sum(one.halvings for one in stages.values()),
            stages=stages,
        )


def batches_ahead(model: Model) -> int:
    """How many batches of a model may be on their way: asked for, and waiting for their masks."""
    return model.turns + 1 if isinstance(model, Staged) else 1


def _readable(batch: Batch) -> tuple[list[Query], list[Prediction]]:
    """The queries whose pictures are there, and failures for the others."""
    faults = {query.id: lost_picture(query) for query in batch.queries}
    whole = [query for query in batch.queries if faults[query.id] is None]
    lost = [
        failed(query, FailureKind.INFRASTRUCTURE, fault)
        for query in batch.queries
        if (fault := faults[query.id]) is not None
    ]
    return whole, lost


def _nothing() -> None:
    return


def _decode(media: Any) -> None:
    try:
        media.frames()
    except HarnessError:
        return  # the model will meet it and say whose sample it is
