"""Batches on their way through a model, its stages side by side.

    batch ─▶ ask (language) ─▶ begin (segmentation) ─▶ finish (propagation) ─▶ journal

A model that is `Staged` is asked for the next batch while the masks of the previous one are made,
and the masks of one sample are carried through its video while the next sample is segmented. Each
stage works on one thing at a time, but for a language stage that takes several batches at once, as
a server does. At most `ahead` batches are on their way, and few samples are segmented and not
finished: as many as `Room` has room for, so that memory is bounded.

Each sample is journalled when it is finished. Where a model answers by the sample, it is handed on
as soon as it is answered, and no more are asked for while `ANSWERED` wait for their masks: what a
kill can cost is those, and the samples that the network works on (`batch_size`).

Answers of the network are expensive: when the run ends early, the masks of those samples are
finished and journalled first, and nothing else is begun; see `Predictor.finish`.

No prediction depends on any of this: every stage is given what it would be given otherwise.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, TypeVar

from harness.errors import ModelError
from harness.model import Answered, Model, Staged
from harness.plugins import blamed
from harness.run.memory import Memory, gpu_peak
from harness.run.plan import Batch
from harness.run.predict import (
    Appends,
    Outcome,
    begin,
    by_sample,
    checked,
    contained,
    predict,
    readable,
    records,
    responded,
)
from harness.run.prefetch import decode, parts, shown_pixels
from harness.run.room import ANSWERED, Room, needed
from harness.run.stages import LANGUAGE, PROPAGATION, SEGMENTATION, WHOLE, Stage
from harness.run.underway import fail, settle
from harness.types import FailureKind, Prediction, Query
from harness.video.decoder import MAX_OPEN

T = TypeVar("T")

STAGES = 4
"""Readers of videos beside the decoders: segmentation, propagation, `expect`, tensors."""


def decoders() -> int:
    """Return the number of decoding threads; a network on the CPU needs the other cores.

    Every one of them has a video open, and none is closed for another's.
    """
    own = getattr(os, "sched_getaffinity", None)  # a job may have a part of the machine
    cores = (os.cpu_count() or 1) if own is None else len(own(0))
    return max(2, min(MAX_OPEN - STAGES, cores // 4))


@dataclass(frozen=True, slots=True)
class _Met:
    """A batch that is being decoded and will be submitted."""

    batch: Batch
    parts: "Sequence[Future[None]]" = ()


@dataclass(slots=True, eq=False)
class UnderWay:
    """A batch in work, with the cost of its stages and the future of its outcome."""

    batch: Batch
    done: "Future[Outcome]" = field(default_factory=Future)
    began: float = field(default_factory=perf_counter)
    stages: dict[str, Stage] = field(default_factory=dict)
    whole: Outcome = field(init=False)
    left: int = 1
    """Number of samples that are not journalled, plus 1 while the batch is being asked for."""

    def __post_init__(self) -> None:
        self.whole = Outcome(self.batch.index, tuple(one.id for one in self.batch.queries), 0.0)


@dataclass(slots=True)
class Predictor:
    """A model, its journal, and the threads that its stages work in.

    Args:
        model: The model; if it is not `Staged`, a batch is done when `submit` returns.
        journal: Receives the records.
        inline: Ask for one batch at a time in the thread that submits it, which an interrupt can
            reach; else in a thread of its own.
        told: Called, from any thread, with an outcome for each sample journalled of a batch.
    """

    model: Model
    journal: Appends
    inline: bool = True
    told: Callable[[Outcome], None] = lambda _: None
    prepared: bool = False
    _lock: Any = field(default_factory=threading.Lock)
    """Held while the journal is written, and while it is closed."""
    ending: bool = False
    """True: no batch is begun any more, and the network is asked nothing."""
    closed: bool = False
    """True: nothing is journalled any more."""
    _halted: bool = False
    _met: list[_Met] = field(default_factory=list)
    """Batches that are prefetched, and not submitted yet."""
    _asked_now: Batch | None = None
    """The batch that the network is answering; None if there is none."""
    _threads: dict[str, ThreadPoolExecutor] = field(default_factory=dict)
    _under_way: list[UnderWay] = field(default_factory=list)
    _ends: "set[Future[None]]" = field(default_factory=set)
    """A future for each sample that was answered and is not journalled."""
    _fewer: Any = field(init=False)
    _room: Room = field(default_factory=Room)
    _memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self._fewer = threading.Condition(self._lock)

    @property
    def ahead(self) -> int:
        """The number of batches that may be in work at once."""
        return batches_ahead(self.model)

    def prefetch(self, batch: Batch) -> None:
        """Begin to decode in the background the frames that the model looks at first."""
        threads = decoders()
        self._met.append(
            _Met(
                batch,
                [
                    self._in("decode", decode, part, lambda: self.ending, threads=threads)
                    for part in parts(self.model, batch)
                ],
            )
        )

    def prepare(self) -> None:
        """Load what the model loads before its first prediction.

        Raises:
            ModelError: the model's `prepare` fails: no sample is to blame for it.
        """
        if not self.prepared:
            with blamed(f"model {self.model.name}", ModelError):
                self.model.prepare()
            self.prepared = True

    def submit(self, batch: Batch) -> "Future[Outcome]":
        """Predict a batch, and append each of its samples to the journal when it is finished.

        An error that ends the run is raised here or by the future's result.
        """
        under_way = self.begin(batch)
        for waits in self.asked(under_way):
            if waits:
                self._wait_for_room()
        return under_way.done

    def begin(self, batch: Batch) -> UnderWay:
        """Begin a batch in the journal; the model is not asked yet."""
        self.prepare()
        if self.ending:
            raise CancelledError
        self._append([begin(batch)])
        under_way = UnderWay(batch)
        with self._lock:
            self._under_way.append(under_way)
        under_way.done.add_done_callback(lambda _: self._over(under_way))
        return under_way

    def asked(self, under_way: UnderWay) -> Generator[bool, None, None]:
        """Ask for a batch in steps, between which the caller may do other things.

        A step yields True if no more is asked for before an answered sample is finished, or `done`
        has the error that ended the run. Where threads ask, there are no steps.
        """
        batch, model = under_way.batch, self.model
        met = next((one for one in self._met if one.batch is batch), _Met(batch))
        self._met = [one for one in self._met if one is not met]
        if not isinstance(model, Staged):
            settle(under_way.done, self._whole(under_way))
            return
        inline = self.inline and model.turns == 1
        if inline:  # it is asked at once, and the next one after it
            likely = self._met[0] if self._met else None
        else:  # it waits for the one that is asked now
            likely = met if self._asked_now is not None else None
        if likely is not None:
            self._expect_decoded(likely)
        shown = shown_pixels(model, batch.queries)
        self._memory.enter(LANGUAGE, shown, samples=len(batch.queries))
        if inline:
            yield from self._asking(model, under_way, shown)
        else:
            self._in(LANGUAGE, self._ask, model, under_way, shown, threads=model.turns)

    def finish(self) -> None:
        """End early: finish and journal the samples that were answered, and drop all others.

        No sample is begun, and the model is told to give up what it is asked. It takes as long as
        the masks of those samples; an interrupt meanwhile ends it at once.
        """
        try:
            with self._lock:
                self.ending = True
                answered = list(self._ends)
                self._fewer.notify_all()
            self._halt()
            wait(answered)
        finally:
            self.close()

    def close(self) -> None:
        """Drop what is not finished; nothing is journalled after this."""
        with self._lock:
            self.ending = self.closed = True
            dropped = list(self._under_way)
            self._fewer.notify_all()
        for threads in list(self._threads.values()):
            threads.shutdown(wait=False, cancel_futures=True)
        self._room.close()  # whoever waits for it finds that all is over
        if sum(fail(one.done, CancelledError()) for one in dropped) > 0:
            self._halt()

    def _over(self, under_way: UnderWay) -> None:
        with self._lock:
            self._under_way.remove(under_way)

    def _halt(self) -> None:
        if not self._halted and isinstance(self.model, Staged):
            self._halted = True
            self.model.halt()

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

    def _whole(self, under_way: UnderWay) -> Outcome:
        """Predict a batch with a model that has no stages."""
        whole, lost = readable(under_way.batch)
        stage, shown = Stage(), shown_pixels(self.model, whole)
        self._memory.enter(WHOLE, shown, samples=len(whole))
        self._memory.begin_alone()
        predictions = [*(predict(self.model, whole, stage) if whole else []), *lost]
        stage.gpu_peak = gpu_peak()
        self._memory.leave(WHOLE, shown, samples=len(whole))
        under_way.stages = {WHOLE: stage.end(under_way.began)}
        self._append(records(under_way.batch, predictions))
        under_way.whole.failed = sum(
            one.failure is not None and one.query_id not in under_way.batch.kept
            for one in predictions
        )
        return self._came(under_way)

    def _came(self, under_way: UnderWay) -> Outcome:
        """Complete and return the outcome of a batch whose samples are all journalled."""
        whole = under_way.whole
        for name, stage in under_way.stages.items():
            stage.held(self._memory.most(name), self._memory.of_process())
        whole.seconds = perf_counter() - under_way.began
        whole.crashed = sum(one.crashed for one in under_way.stages.values())
        whole.halvings = sum(one.halvings for one in under_way.stages.values())
        whole.stages = under_way.stages
        return whole

    def _expect_decoded(self, met: _Met) -> None:
        """Call `_expect` once a batch is decoded: sooner, frames would be decoded twice."""
        for part in met.parts:
            if not part.done():  # no thread waits for it: it may be cancelled
                part.add_done_callback(lambda _: self._expect_decoded(met))
                return
        if not self.ending:
            with suppress(RuntimeError):  # it is ending now
                self._in("expect", self._expect, met.batch)

    def _expect(self, batch: Batch) -> None:
        """Let the model prepare its inputs for the next batch."""
        if self.ending or self._asked_now is batch or not isinstance(self.model, Staged):
            return
        with suppress(Exception):  # what is wrong shows when the model is asked
            self.model.expect(batch.queries)

    def _ask(self, model: Staged[Any], under_way: UnderWay, shown: int) -> None:
        """Ask for a batch in a thread of the language stage."""
        for waits in self._asking(model, under_way, shown):
            if waits:
                self._wait_for_room()

    def _asking(self, model: Staged[Any], under_way: UnderWay, shown: int) -> Iterator[bool]:
        """Ask for a batch, and hand each sample on as it is answered, unless the run ends."""
        batch, self._asked_now = under_way.batch, under_way.batch
        under_way.began = perf_counter()
        under_way.stages = {name: Stage() for name in (LANGUAGE, SEGMENTATION, PROPAGATION)}
        under_way.left += len(batch.queries)
        stage, before = under_way.stages[LANGUAGE], self._waited(model)
        try:
            whole, lost = readable(batch)
            said = responded(model, whole, stage, lambda some: self._responses(model, some))
            with closing(said):
                while True:
                    if by_sample(model) and len(self._ends) >= ANSWERED and not self.ending:
                        yield True
                        continue
                    start = perf_counter()
                    one = next(said, None)
                    stage.end(start)
                    if one is None:
                        break
                    self._hand_on(model, under_way, *one)
                    yield False
            after = self._waited(model)
            stage.waited = None if before is None or after is None else after - before
            for prediction in lost:
                self._journalled(under_way, prediction)
            self._leave(under_way)
        except BaseException as error:
            fail(under_way.done, error if isinstance(error, Exception) else CancelledError())
            raise
        finally:
            self._asked_now = None
            self._memory.leave(LANGUAGE, shown, samples=len(batch.queries))

    def _wait_for_room(self) -> None:
        """Wait until fewer than `ANSWERED` samples await masks; raise CancelledError at the end."""
        with self._lock:
            self._fewer.wait_for(lambda: self.ending or len(self._ends) < ANSWERED)
            if self.ending:
                raise CancelledError

    def _waited(self, model: Staged[Any]) -> float | None:
        """Seconds that the network has waited for images; None if it takes several batches at once.

        Seconds of several batches at once could not be attributed to one of them.
        """
        return model.waited if model.turns == 1 else None

    def _responses(self, model: Staged[Any], queries: Sequence[Query]) -> Sequence[Answered]:
        if self.ending:
            raise CancelledError
        responses = model.ask(queries) if queries else ()
        if len(responses) != len(queries):
            raise ValueError(f"{len(responses)} responses for {len(queries)} queries")
        return responses

    def _hand_on(
        self, model: Staged[Any], under_way: UnderWay, query: Query, response: Answered
    ) -> None:
        end: Future[None] = Future()
        with self._lock:
            if self.ending:
                raise CancelledError
            self._ends.add(end)
        self._memory.enter(SEGMENTATION, 0)  # it waits, and holds no pixels
        self._in(SEGMENTATION, self._segment, model, under_way, query, response, end)

    def _segment(
        self,
        model: Staged[Any],
        under_way: UnderWay,
        query: Query,
        response: Answered,
        end: "Future[None]",
    ) -> None:
        """Segment a sample once there is room for it; its last stage makes room for another."""
        need = needed(model, query, response)
        self._room.enter(need)
        self._memory.enter(SEGMENTATION, need, samples=0)
        try:
            begun = self._begin(model, under_way, query, response)
            self._memory.enter(PROPAGATION, need)
            self._in(PROPAGATION, self._finish, under_way, query, response, need, begun, end)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._room.leave(need)
            self._gone(under_way, end, error)
        finally:
            self._memory.leave(SEGMENTATION, need)

    def _begin(
        self, model: Staged[Any], under_way: UnderWay, query: Query, response: Answered
    ) -> Prediction | Callable[[], Prediction]:
        """Return the call that finishes a sample, or the Prediction of a sample that failed."""
        if self.closed:
            raise CancelledError
        if isinstance(response, Prediction):
            return response
        start, stage = perf_counter(), under_way.stages[SEGMENTATION]
        (begun,) = contained(self.model, [query], stage, lambda _: [model.begin(query, response)])
        stage.end(start)
        return replace(begun, calls=response.calls) if isinstance(begun, Prediction) else begun

    def _finish(
        self,
        under_way: UnderWay,
        query: Query,
        response: Answered,
        need: int,
        begun: Prediction | Callable[[], Prediction],
        end: "Future[None]",
    ) -> None:
        start, stage = perf_counter(), under_way.stages[PROPAGATION]
        crashed = stage.crashed
        try:
            try:
                if isinstance(begun, Prediction):
                    prediction = begun
                    crashed -= prediction.failure is not None and (
                        prediction.failure.kind is FailureKind.MODEL
                    )
                else:
                    (prediction,) = contained(
                        self.model, [query], stage, lambda chosen: checked(chosen, [begun()])
                    )
                    if prediction.failure is not None:  # what raised has none of its own
                        prediction = replace(prediction, calls=response.calls)
            finally:
                self._memory.leave(PROPAGATION, need)
                self._room.leave(need)
            stage.end(start)
            self._journalled(under_way, prediction, crashed=stage.crashed - crashed)
            self._gone(under_way, end)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._gone(under_way, end, error)

    def _journalled(self, under_way: UnderWay, prediction: Prediction, *, crashed: int = 0) -> None:
        if prediction.query_id in under_way.batch.kept:
            self._leave(under_way)
            return
        self._append(records(under_way.batch, [prediction]))
        failed = int(prediction.failure is not None)
        with self._lock:
            under_way.whole.failed += failed
        self.told(
            Outcome(
                under_way.batch.index,
                (prediction.query_id,),
                0.0,
                failed=failed,
                crashed=crashed,
                whole=False,
            )
        )
        self._leave(under_way)

    def _leave(self, under_way: UnderWay) -> None:
        """Lower `left` by 1, and settle the batch's outcome when it is 0."""
        with self._lock:
            under_way.left -= 1
            last = under_way.left == 0
        if last:
            settle(under_way.done, self._came(under_way))

    def _gone(
        self, under_way: UnderWay, end: "Future[None]", error: BaseException | None = None
    ) -> None:
        """Record that an answered sample is finished, or never will be because of `error`."""
        if error is not None:
            fail(under_way.done, error)
        with self._lock:
            self._ends.discard(end)
            self._fewer.notify_all()
        settle(end, None)


def batches_ahead(model: Model) -> int:
    """Return the number of a model's batches that may be in work: asked for, or awaiting masks."""
    return model.turns + 1 if isinstance(model, Staged) else 1
