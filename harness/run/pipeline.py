"""Batches on their way through a model, its stages side by side.

    batch ─▶ ask (language) ─▶ begin (segmentation) ─▶ finish (propagation) ─▶ journal

A model that is `StagedModel` is asked for the next batch while the masks of the previous one are
made, and the masks of one sample are carried through its video while the next sample is segmented.
Each stage works on one thing at a time, but for a language stage that takes several batches at
once, as a server does. At most `batches_ahead` of them are on their way, and few samples are
segmented and not finished: as many as `MemoryBudget` has room for, so that memory is bounded.

Each sample is journalled when it is finished. Where a model answers by the sample, it is handed on
as soon as it is answered, and no more are asked for while `ANSWERED` wait for their masks: what a
kill can cost is those, and the samples that the network works on (`batch_size`).

Answers of the network are expensive: when the run ends early, the masks of those samples are
finished and journalled first, and nothing else is begun; see `Predictor.finish`.

No prediction depends on any of this: every stage is given what it would be given otherwise.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import perf_counter

from harness.errors import ModelError
from harness.model import Answered, Model, StagedModel
from harness.plugins import plugin_errors
from harness.run.batching import Batch
from harness.run.inflight import AnsweredSample, InflightBatch, set_error, set_result
from harness.run.pixels import ANSWERED, MemoryBudget, bytes_needed, shown_pixels
from harness.run.predict import (
    Outcome,
    RecordSink,
    begin,
    by_sample,
    call_guarded,
    check_predictions,
    predict,
    records,
    responded,
    split_readable,
)
from harness.run.prefetch import Prefetcher
from harness.run.stage_threads import StageThreads
from harness.run.timing import (
    LANGUAGE,
    PROPAGATION,
    SEGMENTATION,
    WHOLE,
    Stage,
    StageMemory,
    gpu_peak,
)
from harness.types import FailureKind, Prediction, Query


@dataclass(slots=True)
class Predictor:
    """A model, its journal, and the threads that its stages work in.

    Args:
        model: The model; if it is not `StagedModel`, a batch is done when `submit` returns.
        journal: Receives the records.
        inline: Ask for one batch at a time in the thread that submits it, which an interrupt can
            reach; else in a thread of its own.
        on_outcome: Called, from any thread, with an outcome for each sample journalled of a batch.
    """

    model: Model
    journal: RecordSink
    inline: bool = True
    on_outcome: Callable[[Outcome], None] = lambda _: None
    prepared: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the journal is written, and while it is closed."""
    ending: bool = False
    """True: no batch is begun any more, and the network is asked nothing."""
    closed: bool = False
    """True: nothing is journalled any more."""
    _halted: bool = False
    _threads: StageThreads = field(default_factory=StageThreads)
    _prefetcher: Prefetcher = field(init=False)
    _under_way: list[InflightBatch] = field(default_factory=list)
    _ends: "set[Future[None]]" = field(default_factory=set)
    """A future for each sample that was answered and is not journalled."""
    _fewer: threading.Condition = field(init=False)
    _room: MemoryBudget = field(default_factory=MemoryBudget)
    _memory: StageMemory = field(default_factory=StageMemory)

    def __post_init__(self) -> None:
        self._fewer = threading.Condition(self._lock)
        self._prefetcher = Prefetcher(self.model, self._threads, lambda: self.ending)

    @property
    def max_batches(self) -> int:
        """The number of batches that may be in work at once."""
        return batches_ahead(self.model)

    def prefetch(self, batch: Batch) -> None:
        """Begin to decode in the background the frames that the model looks at first."""
        self._prefetcher.decode(batch)

    def prepare(self) -> None:
        """Load what the model loads before its first prediction.

        Raises:
            ModelError: the model's `prepare` fails: no sample is to blame for it.
        """
        if not self.prepared:
            with plugin_errors(f"model {self.model.name}", ModelError):
                self.model.prepare()
            self.prepared = True

    def submit(self, batch: Batch) -> "Future[Outcome]":
        """Predict a batch, and append each of its samples to the journal when it is finished.

        An error that ends the run is raised here or by the future's result.
        """
        inflight = self.begin(batch)
        for waits in self.predict_in_steps(inflight):
            if waits:
                self._wait_for_room()
        return inflight.done

    def begin(self, batch: Batch) -> InflightBatch:
        """Begin a batch in the journal; the model is not asked yet."""
        self.prepare()
        if self.ending:
            raise CancelledError
        self._append([begin(batch)])
        inflight = InflightBatch(batch)
        with self._lock:
            self._under_way.append(inflight)
        inflight.done.add_done_callback(lambda _: self._close_batch(inflight))
        return inflight

    def predict_in_steps(self, inflight: InflightBatch) -> Generator[bool, None, None]:
        """Ask for a batch in steps, between which the caller may do other things.

        A step yields True if no more is asked for before an answered sample is finished, or `done`
        has the error that ended the run. Where threads ask, there are no steps.
        """
        batch, model = inflight.batch, self.model
        taken = self._prefetcher.take(batch)
        if not isinstance(model, StagedModel):
            set_result(inflight.done, self._predict_whole(inflight))
            return
        inline = self.inline and model.turns == 1
        self._prefetcher.expect_next(taken, inline=inline)
        shown = shown_pixels(model, batch.queries)
        self._memory.enter(LANGUAGE, shown, samples=len(batch.queries))
        if inline:
            yield from self._iter_answers(model, inflight, shown)
        else:
            self._threads.submit(LANGUAGE, self._ask, model, inflight, shown, threads=model.turns)

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
        self._threads.close()
        self._room.close()  # whoever waits for it finds that all is over
        if sum(set_error(inflight.done, CancelledError()) for inflight in dropped) > 0:
            self._halt()

    def _close_batch(self, inflight: InflightBatch) -> None:
        with self._lock:
            self._under_way.remove(inflight)

    def _halt(self) -> None:
        if not self._halted and isinstance(self.model, StagedModel):
            self._halted = True
            self.model.halt()

    def _append(self, lines: Sequence[Mapping[str, object]]) -> None:
        with self._lock:
            if self.closed:
                raise CancelledError
            self.journal.append(lines)

    def _predict_whole(self, inflight: InflightBatch) -> Outcome:
        """Predict a batch with a model that has no stages."""
        whole, lost = split_readable(inflight.batch)
        stage, shown = Stage(), shown_pixels(self.model, whole)
        self._memory.enter(WHOLE, shown, samples=len(whole))
        self._memory.begin_alone()
        predictions = [*(predict(self.model, whole, stage) if whole else []), *lost]
        stage.gpu_peak = gpu_peak()
        self._memory.leave(WHOLE, shown, samples=len(whole))
        inflight.stages = {WHOLE: stage.end(inflight.began)}
        self._append(records(inflight.batch, predictions))
        inflight.whole.failed = sum(
            prediction.failure is not None and prediction.query_id not in inflight.batch.kept
            for prediction in predictions
        )
        return inflight.outcome(self._memory)

    def _ask(self, model: StagedModel[Answered], inflight: InflightBatch, shown: int) -> None:
        """Ask for a batch in a thread of the language stage."""
        for waits in self._iter_answers(model, inflight, shown):
            if waits:
                self._wait_for_room()

    def _iter_answers(
        self, model: StagedModel[Answered], inflight: InflightBatch, shown: int
    ) -> Iterator[bool]:
        """Ask for a batch, and hand each sample on as it is answered, unless the run ends."""
        batch = self._prefetcher.requested = inflight.batch
        inflight.began = perf_counter()
        inflight.stages = {name: Stage() for name in (LANGUAGE, SEGMENTATION, PROPAGATION)}
        inflight.remaining += len(batch.queries)
        stage, before = inflight.stages[LANGUAGE], self._wait_seconds(model)
        parts = dict(model.part_seconds)
        try:
            whole, lost = split_readable(batch)
            results = responded(
                model, whole, stage, lambda queries: self._responses(model, queries)
            )
            with closing(results):
                while True:
                    if by_sample(model) and len(self._ends) >= ANSWERED and not self.ending:
                        yield True
                        continue
                    start = perf_counter()
                    answered = next(results, None)
                    stage.end(start)
                    if answered is None:
                        break
                    self._hand_on(AnsweredSample(model, inflight, *answered))
                    yield False
            after = self._wait_seconds(model)
            stage.wait_seconds = None if before is None or after is None else after - before
            stage.parts = {
                name: seconds - parts.get(name, 0.0) for name, seconds in model.part_seconds.items()
            }
            for prediction in lost:
                self._journal(inflight, prediction)
            self._leave(inflight)
        except BaseException as error:
            set_error(inflight.done, error if isinstance(error, Exception) else CancelledError())
            raise
        finally:
            self._prefetcher.requested = None
            self._memory.leave(LANGUAGE, shown, samples=len(batch.queries))

    def _wait_for_room(self) -> None:
        """Wait until fewer than `ANSWERED` samples await masks; raise CancelledError at the end."""
        with self._lock:
            self._fewer.wait_for(lambda: self.ending or len(self._ends) < ANSWERED)
            if self.ending:
                raise CancelledError

    def _wait_seconds(self, model: StagedModel[Answered]) -> float | None:
        """Seconds that the network has waited for images; None if it takes several batches at once.

        Seconds of several batches at once could not be attributed to one of them.
        """
        return model.wait_seconds if model.turns == 1 else None

    def _responses(
        self, model: StagedModel[Answered], queries: Sequence[Query]
    ) -> Sequence[Answered]:
        if self.ending:
            raise CancelledError
        responses = model.generate(queries) if queries else ()
        if len(responses) != len(queries):
            raise ValueError(f"{len(responses)} responses for {len(queries)} queries")
        return responses

    def _hand_on(self, sample: AnsweredSample) -> None:
        with self._lock:
            if self.ending:
                raise CancelledError
            self._ends.add(sample.end)
        self._memory.enter(SEGMENTATION, 0)  # it waits, and holds no pixels
        self._threads.submit(SEGMENTATION, self._segment, sample)

    def _segment(self, sample: AnsweredSample) -> None:
        """Segment a sample once there is room for it; its last stage makes room for another."""
        sample.need = bytes_needed(sample.model, sample.query, sample.response)
        self._room.enter(sample.need)
        self._memory.enter(SEGMENTATION, sample.need, samples=0)
        try:
            if self.closed:
                raise CancelledError
            started = sample.begin()
            self._memory.enter(PROPAGATION, sample.need)
            self._threads.submit(PROPAGATION, self._finish, sample, started)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._room.leave(sample.need)
            self._finish_sample(sample, error)
        finally:
            self._memory.leave(SEGMENTATION, sample.need)

    def _finish(
        self, sample: AnsweredSample, started: Prediction | Callable[[], Prediction]
    ) -> None:
        start, stage = perf_counter(), sample.inflight.stages[PROPAGATION]
        crashed = stage.crashed
        try:
            try:
                if isinstance(started, Prediction):
                    prediction = started
                    crashed -= prediction.failure is not None and (
                        prediction.failure.kind is FailureKind.MODEL
                    )
                else:
                    (prediction,) = call_guarded(
                        sample.model,
                        [sample.query],
                        stage,
                        lambda chosen: check_predictions(chosen, [started()]),
                    )
                    if prediction.failure is not None:  # what raised has none of its own
                        prediction = replace(prediction, calls=sample.response.calls)
            finally:
                self._memory.leave(PROPAGATION, sample.need)
                self._room.leave(sample.need)
            stage.end(start)
            self._journal(sample.inflight, prediction, crashed=stage.crashed - crashed)
            self._finish_sample(sample)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._finish_sample(sample, error)

    def _journal(
        self, inflight: InflightBatch, prediction: Prediction, *, crashed: int = 0
    ) -> None:
        if prediction.query_id in inflight.batch.kept:
            self._leave(inflight)
            return
        self._append(records(inflight.batch, [prediction]))
        failed = int(prediction.failure is not None)
        with self._lock:
            inflight.whole.failed += failed
        self.on_outcome(
            Outcome(
                inflight.batch.index,
                (prediction.query_id,),
                failed=failed,
                crashed=crashed,
                whole=False,
            )
        )
        self._leave(inflight)

    def _leave(self, inflight: InflightBatch) -> None:
        """Lower `remaining` by 1, and settle the batch's outcome when it is 0."""
        with self._lock:
            inflight.remaining -= 1
            last = inflight.remaining == 0
        if last:
            set_result(inflight.done, inflight.outcome(self._memory))

    def _finish_sample(self, sample: AnsweredSample, error: BaseException | None = None) -> None:
        """Record that an answered sample is finished, or never will be because of `error`."""
        if error is not None:
            set_error(sample.inflight.done, error)
        with self._lock:
            self._ends.discard(sample.end)
            self._fewer.notify_all()
        set_result(sample.end, None)


def batches_ahead(model: Model) -> int:
    """Return the number of a model's batches that may be in work: asked for, or awaiting masks."""
    return model.turns + 1 if isinstance(model, StagedModel) else 1
