"""Batches on their way through a model, its stages side by side.

    batch ─▶ ask (language) ─▶ begin (segmentation) ─▶ finish (propagation) ─▶ journal

A model that is `Staged` is asked for the next batch while the masks of the one before are made,
and the masks of one sample are carried through its video while the next sample is segmented. Each
stage works on one thing at a time, but for a language stage that takes several batches at once, as
a server does. At most `ahead` batches are on their way, and few samples are segmented and not
finished: as many as `Room` has room for, so that memory is bounded.

What the network has answered was paid for: when the run ends early, the masks of those batches are
finished and journalled first, and nothing else is begun; see `Predictor.finish`.

No prediction depends on any of this: every stage is given what it would be given otherwise.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from harness.errors import ModelError
from harness.model import Model, Staged
from harness.plugins import blamed
from harness.run.memory import Memory, gpu_peak
from harness.run.plan import Batch
from harness.run.predict import (
    Appends,
    Outcome,
    became,
    begin,
    checked,
    contained,
    predict,
    readable,
    records,
)
from harness.run.prefetch import decode, parts, shown_pixels
from harness.run.room import Room, needed
from harness.run.stages import LANGUAGE, PROPAGATION, SEGMENTATION, WHOLE, Stage
from harness.run.underway import UnderWay, fail, settle
from harness.types import Prediction, Query
from harness.video.decoder import MAX_OPEN

T = TypeVar("T")

STAGES = 4
"""Others that read videos at once: masks, their propagation, what is expected, tensors."""


def decoders() -> int:
    """Threads that decode what is shown next; a network on the CPU wants the other cores.

    Every one of them has a video open, and none is closed for another's.
    """
    own = getattr(os, "sched_getaffinity", None)  # a job may have a part of the machine
    cores = (os.cpu_count() or 1) if own is None else len(own(0))
    return max(2, min(MAX_OPEN - STAGES, cores // 4))


@dataclass(frozen=True, slots=True)
class _Met:
    """A batch that will be submitted, and is being decoded."""

    batch: Batch
    parts: "Sequence[Future[None]]" = ()


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
    ending: bool = False
    """No batch is begun, and the network is asked nothing."""
    closed: bool = False
    """Nothing is journalled."""
    _halted: bool = False
    _met: list[_Met] = field(default_factory=list)
    """Prefetched, and not submitted yet."""
    _asked_now: Batch | None = None
    """What the network was given last, and is answering."""
    _threads: dict[str, ThreadPoolExecutor] = field(default_factory=dict)
    _under_way: UnderWay[_Asked, Outcome] = field(default_factory=UnderWay)
    _room: Room = field(default_factory=Room)
    _memory: Memory = field(default_factory=Memory)

    @property
    def ahead(self) -> int:
        """How many batches may be on their way."""
        return batches_ahead(self.model)

    def prefetch(self, batch: Batch) -> None:
        """Begin to decode in the background what the model looks at first in a batch."""
        threads = decoders()
        self._met.append(_Met(batch, [
            self._in("decode", decode, part, lambda: self.ending, threads=threads)
            for part in parts(self.model, batch)
        ]))  # fmt: skip

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
        if self.ending:
            raise CancelledError
        self._append([begin(batch)])
        met = next((one for one in self._met if one.batch is batch), _Met(batch))
        self._met = [one for one in self._met if one is not met]
        model = self.model
        if not isinstance(model, Staged):
            whole: Future[Outcome] = Future()
            whole.set_result(self._whole(batch))
            return whole
        inline = self.inline and model.turns == 1
        if inline:  # it is asked at once, and the next one after it
            likely = self._met[0] if self._met else None
        else:  # it waits for the one that is asked now
            likely = met if self._asked_now is not None else None
        if likely is not None:
            self._expect_decoded(likely)
        asked, done = self._under_way.begin()
        shown = shown_pixels(model, batch.queries)
        self._memory.enter(LANGUAGE, shown, samples=len(batch.queries))
        self._in(SEGMENTATION, self._segment, asked, done)  # first: an interrupt may come any time
        if inline:
            self._answer(model, batch, asked, shown)
            if (fault := asked.exception()) is not None:
                raise fault
        else:
            self._in(LANGUAGE, self._answer, model, batch, asked, shown, threads=model.turns)
        return done

    def finish(self) -> None:
        """End early: finish and journal the batches that were answered, and drop all others.

        No batch is begun, and the model is told to give up what it is asked. It takes as long as
        the masks of at most `ahead` batches; an interrupt meanwhile ends it at once.
        """
        try:
            with self._lock:
                self.ending = True
            answered = self._under_way.cut()
            self._halt()
            wait(answered)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of what is not finished; nothing is journalled after this."""
        with self._lock:
            self.ending = self.closed = True
        for threads in list(self._threads.values()):
            threads.shutdown(wait=False, cancel_futures=True)
        self._room.close()  # whoever waits for it finds that all is over
        if self._under_way.drop():
            self._halt()

    def _halt(self) -> None:
        if not self._halted:
            self._halted = True
            getattr(self.model, "halt", _nothing)()

    def _in(self, stage: str, call: Callable[..., T], *given: Any, threads: int = 1) -> "Future[T]":
        if stage not in self._threads:
            made = ThreadPoolExecutor(threads, thread_name_prefix=stage)
            self._threads.setdefault(stage, made)  # of two threads that come here one is first
        return self._threads[stage].submit(call, *given)

    def _append(self, lines: Sequence[Any]) -> None:
        with self._lock:
            if self.closed:
                raise CancelledError
            self.journal.append(lines)

    def _whole(self, batch: Batch) -> Outcome:
        """Predict a batch with a model that has no stages."""
        start = perf_counter()
        whole, lost = readable(batch)
        stage, shown = Stage(), shown_pixels(self.model, whole)
        self._memory.enter(WHOLE, shown, samples=len(whole))
        self._memory.begin_alone()
        predictions = [*(predict(self.model, whole, stage) if whole else []), *lost]
        stage.gpu_peak = gpu_peak()
        self._memory.leave(WHOLE, shown, samples=len(whole))
        return self._written(batch, predictions, {WHOLE: stage.end(start)}, start)

    def _answer(self, model: Staged, batch: Batch, asked: "Future[_Asked]", shown: int) -> None:
        """Ask, and hand on what was said, unless it comes after the end, or because of it."""
        try:
            settle(asked, self._ask(model, batch))
        except BaseException as error:
            fail(asked, error)
            if not isinstance(error, Exception):
                raise  # an interrupt
        finally:
            self._asked_now = None
            self._memory.leave(LANGUAGE, shown, samples=len(batch.queries))

    def _expect_decoded(self, met: _Met) -> None:
        """Let a batch be expected once it is decoded: sooner, frames would be decoded twice."""
        for part in met.parts:
            if not part.done():  # no thread waits for it: it may be cancelled
                part.add_done_callback(lambda _: self._expect_decoded(met))
                return
        if not self.ending:
            with suppress(RuntimeError):  # it is ending now
                self._in("expect", self._expect, met.batch)

    def _expect(self, batch: Batch) -> None:
        """Let the model make ready what it begins the next batch with."""
        if self.ending or self._asked_now is batch:
            return
        with suppress(Exception):  # what is wrong shows when the model is asked
            getattr(self.model, "expect", _nothing)(batch.queries)

    def _ask(self, model: Staged, batch: Batch) -> _Asked:
        self._asked_now, start = batch, perf_counter()
        whole, lost = readable(batch)
        stages = {name: Stage() for name in (LANGUAGE, SEGMENTATION, PROPAGATION)}
        stage, before = stages[LANGUAGE], self._waited(model)
        replies = contained(self.model, whole, stage, lambda some: self._replies(model, some))
        stage.end(start)
        after = self._waited(model)
        stage.waited = None if before is None or after is None else after - before
        self._memory.enter(SEGMENTATION, 0, samples=len(whole))  # they wait, and hold no pixels
        return _Asked(model, batch, stages, whole, replies, lost, start)

    def _waited(self, model: Staged) -> float | None:
        """Seconds that the network has waited for pictures, where one batch is asked for at once.

        Of several at once it could not be told whose they are.
        """
        seconds: float | None = getattr(model, "waited", None) if model.turns == 1 else None
        return seconds

    def _replies(self, model: Staged, queries: Sequence[Query]) -> Sequence[Any]:
        if self.ending:
            raise CancelledError
        replies = model.ask(queries) if queries else ()
        if len(replies) != len(queries):
            raise ValueError(f"{len(replies)} replies for {len(queries)} queries")
        return replies

    def _segment(self, asking: "Future[_Asked]", done: "Future[Outcome]") -> None:
        """Begin each sample, and hand it on at once; after them all, the batch itself."""
        try:
            asked = asking.result()
            ends = [
                self._handed_on(asked, query, reply)
                for query, reply in zip(asked.queries, asked.replies, strict=True)
            ]
            self._in(PROPAGATION, self._collect, asked, ends, done)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            fail(done, error)

    def _handed_on(self, asked: _Asked, query: Query, reply: Any) -> "Future[Prediction]":
        """Begin a sample once there is room for it; its last stage makes room for another."""
        need = needed(asked.model, query, reply)
        self._room.enter(need)
        self._memory.enter(SEGMENTATION, need, samples=0)
        try:
            begun = self._begin(asked, query, reply)
            self._memory.enter(PROPAGATION, need)
            return self._in(PROPAGATION, self._finish, asked, query, need, begun)
        except BaseException:
            self._room.leave(need)
            raise
        finally:
            self._memory.leave(SEGMENTATION, need)

    def _begin(self, asked: _Asked, query: Query, reply: Any) -> Callable[[], Prediction]:
        if self.closed:
            raise CancelledError
        if isinstance(reply, Prediction):
            return lambda: reply
        start, stage, model = perf_counter(), asked.stages[SEGMENTATION], asked.model
        (begun,) = contained(self.model, [query], stage, lambda _: [model.begin(query, reply)])
        stage.end(start)
        return (lambda: begun) if isinstance(begun, Prediction) else begun

    def _finish(
        self, asked: _Asked, query: Query, need: int, begun: Callable[[], Prediction]
    ) -> Prediction:
        start, stage = perf_counter(), asked.stages[PROPAGATION]
        try:
            (prediction,) = contained(
                self.model, [query], stage, lambda chosen: checked(chosen, [begun()])
            )
        finally:
            self._memory.leave(PROPAGATION, need)
            self._room.leave(need)
        stage.end(start)
        return prediction

    def _collect(
        self, asked: _Asked, ends: "Sequence[Future[Prediction]]", done: "Future[Outcome]"
    ) -> None:
        try:
            predictions = [*(one.result() for one in ends), *asked.lost]
            settle(done, self._written(asked.batch, predictions, asked.stages, asked.began))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            fail(done, error)

    def _written(
        self,
        batch: Batch,
        predictions: Sequence[Prediction],
        stages: dict[str, Stage],
        start: float,
    ) -> Outcome:
        self._append(records(batch, predictions))
        for name, stage in stages.items():
            stage.held(self._memory.most(name), self._memory.of_process())
        return became(batch, predictions, stages, start)


def batches_ahead(model: Model) -> int:
    """How many batches of a model may be on their way: asked for, and waiting for their masks."""
    return model.turns + 1 if isinstance(model, Staged) else 1


def _nothing(*_: object) -> None:
    return
