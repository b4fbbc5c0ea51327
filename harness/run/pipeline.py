"""Batches on their way through a model, its stages side by side.

    batch ─▶ ask (language) ─▶ begin (segmentation) ─▶ finish (propagation) ─▶ journal

A `StagedModel` is asked for the next batch while the masks of the previous one are made, and the
masks of one sample are propagated through its video while the next sample is segmented. Each stage
works on one thing at a time, except a language stage that takes several batches at once, as a
server does. At most `batches_ahead` batches are in progress, and only as many samples are segmented
and not finished as `MemoryBudget` has room for, so that memory is bounded.

Each sample is journalled when it is finished. If a model answers by the sample, a sample is handed
on as soon as it is answered, and no more are asked for while `MAX_ANSWERED` wait for their masks.
So a kill costs at most those, and the samples that the network works on (`batch_size`).

Answers of the network are expensive: when the run ends early, the masks of those samples are
finished and journalled first, and nothing else is begun; see `Predictor.drain`.

A worker's main thread calls `begin`, `predict_in_steps`, `submit`, `drain` and `close`. `_generate`
runs in that thread (`inline`) or in one of the language stage; `_segment` and `_propagate` each run
in a thread of their stage. `_lock` guards what they share.

No prediction depends on this: every stage gets the same inputs as without a pipeline.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from time import perf_counter

from harness.errors import ModelError
from harness.model import Answered, Model, StagedModel
from harness.plugins import plugin_errors
from harness.run.batching import Batch
from harness.run.inflight import AnsweredSample, InflightBatch, set_error, set_result
from harness.run.pixels import MAX_ANSWERED, MemoryBudget, bytes_needed, shown_pixels
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


class Step(Enum):
    """Request to the caller of `Predictor.predict_in_steps`, before the next step."""

    GO_ON = auto()
    """Take the next step at once."""
    WAIT = auto()
    """Wait until an answered sample is finished, or `done` has an error that ended the run."""


@dataclass(slots=True)
class Predictor:
    """A model, its journal, and the threads in which its stages work.

    Args:
        model: The model; if it is not `StagedModel`, a batch is done when `submit` returns.
        journal: Receives the records.
        inline: True: ask for one batch at a time in the thread that submits it, where an interrupt
            is raised; False: ask in a thread of the language stage.
        on_outcome: Called, from any thread, with an outcome for each journalled sample.
    """

    model: Model
    journal: RecordSink
    inline: bool = True
    on_outcome: Callable[[Outcome], None] = lambda _: None
    prepared: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the journal is written, and while it is closed."""
    ending: bool = False
    """True: no batch is begun any more, and the network gets no more requests."""
    closed: bool = False
    """True: nothing is journalled any more."""
    _halted: bool = False
    """True: the model's `halt` was called."""
    _threads: StageThreads = field(default_factory=StageThreads)
    _prefetcher: Prefetcher = field(init=False)
    _under_way: list[InflightBatch] = field(default_factory=list)
    _awaiting_masks: "set[Future[None]]" = field(default_factory=set)
    """A future for each sample that was answered and is not journalled."""
    _awaiting_changed: threading.Condition = field(init=False)
    """Notified when `_awaiting_masks` shrinks or the run ends."""
    _budget: MemoryBudget = field(default_factory=MemoryBudget)
    _memory: StageMemory = field(default_factory=StageMemory)

    def __post_init__(self) -> None:
        self._awaiting_changed = threading.Condition(self._lock)
        self._prefetcher = Prefetcher(self.model, self._threads, lambda: self.ending)

    @property
    def max_batches(self) -> int:
        """Largest number of batches in progress at once."""
        return batches_ahead(self.model)

    def prefetch(self, batch: Batch) -> None:
        """Start to decode in the background the frames that the model looks at first."""
        self._prefetcher.decode(batch)

    def prepare(self) -> None:
        """Call the model's `prepare`, once.

        Raises:
            ModelError: it raises; no sample is to blame for that.
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
        for step in self.predict_in_steps(inflight):
            if step is Step.WAIT:
                self._wait_for_fewer_answers()
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

    def predict_in_steps(self, inflight: InflightBatch) -> Generator[Step, None, None]:
        """Ask for a batch in steps, between which the caller may handle finished samples.

        There are no steps if a thread of the language stage asks.
        """
        batch, model = inflight.batch, self.model
        decoding = self._prefetcher.take(batch)
        if not isinstance(model, StagedModel):
            set_result(inflight.done, self._predict_whole(inflight))
            return
        inline = self.inline and model.turns == 1
        self._prefetcher.expect_next(decoding, inline=inline)
        pixels = shown_pixels(model, batch.queries)
        self._memory.enter(LANGUAGE, pixels, samples=len(batch.queries))
        if inline:
            yield from self._generate(model, inflight, pixels)
        else:
            self._threads.submit(LANGUAGE, self._ask, model, inflight, pixels, threads=model.turns)

    def drain(self) -> None:
        """End early: finish and journal the answered samples, and drop all others.

        No sample is begun, and the model's `halt` ends its requests. It takes as long as the
        masks of the answered samples; an interrupt ends it at once.
        """
        try:
            with self._lock:
                self.ending = True
                answered = list(self._awaiting_masks)
                self._awaiting_changed.notify_all()
            self._halt()
            wait(answered)
        finally:
            self.close()

    def close(self) -> None:
        """Drop what is not finished; nothing is journalled after this."""
        with self._lock:
            self.ending = self.closed = True
            dropped = list(self._under_way)
            self._awaiting_changed.notify_all()
        self._threads.close()
        self._budget.close()  # wakes the threads that wait for room
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
        readable, lost = split_readable(inflight.batch)
        stage, pixels = Stage(), shown_pixels(self.model, readable)
        self._memory.enter(WHOLE, pixels, samples=len(readable))
        self._memory.begin_alone()
        predictions = [*(predict(self.model, readable, stage) if readable else []), *lost]
        stage.gpu_peak = gpu_peak()
        self._memory.leave(WHOLE, pixels, samples=len(readable))
        inflight.stages = {WHOLE: stage.end(inflight.began)}
        self._append(records(inflight.batch, predictions))
        inflight.batch_outcome.failed = sum(
            prediction.failure is not None and prediction.query_id not in inflight.batch.kept
            for prediction in predictions
        )
        return inflight.outcome(self._memory)

    def _ask(self, model: StagedModel[Answered], inflight: InflightBatch, pixels: int) -> None:
        """Ask for a batch in a thread of the language stage."""
        for step in self._generate(model, inflight, pixels):
            if step is Step.WAIT:
                self._wait_for_fewer_answers()

    def _generate(
        self, model: StagedModel[Answered], inflight: InflightBatch, pixels: int
    ) -> Iterator[Step]:
        """Ask for a batch whose images have so many `pixels`, and hand on each answered sample."""
        batch = self._prefetcher.requested = inflight.batch
        inflight.began = perf_counter()
        inflight.stages = {name: Stage() for name in (LANGUAGE, SEGMENTATION, PROPAGATION)}
        inflight.remaining += len(batch.queries)
        stage, before = inflight.stages[LANGUAGE], self._wait_seconds(model)
        seconds_before = dict(model.part_seconds)
        try:
            readable, lost = split_readable(batch)
            results = responded(
                model, readable, stage, lambda queries: self._responses(model, queries)
            )
            with closing(results):
                while True:
                    is_full = len(self._awaiting_masks) >= MAX_ANSWERED
                    if by_sample(model) and is_full and not self.ending:
                        yield Step.WAIT
                        continue
                    start = perf_counter()
                    answered = next(results, None)
                    stage.end(start)
                    if answered is None:
                        break
                    self._hand_on(AnsweredSample(model, inflight, *answered))
                    yield Step.GO_ON
            after = self._wait_seconds(model)
            stage.wait_seconds = None if before is None or after is None else after - before
            stage.parts = {
                name: seconds - seconds_before.get(name, 0.0)
                for name, seconds in model.part_seconds.items()
            }
            for prediction in lost:
                self._journal(inflight, prediction)
            self._count_down(inflight)
        except BaseException as error:
            set_error(inflight.done, error if isinstance(error, Exception) else CancelledError())
            raise
        finally:
            self._prefetcher.requested = None
            self._memory.leave(LANGUAGE, pixels, samples=len(batch.queries))

    def _wait_for_fewer_answers(self) -> None:
        """Wait until fewer than `MAX_ANSWERED` samples await masks; CancelledError at the end."""
        with self._lock:
            self._awaiting_changed.wait_for(
                lambda: self.ending or len(self._awaiting_masks) < MAX_ANSWERED
            )
            if self.ending:
                raise CancelledError

    def _wait_seconds(self, model: StagedModel[Answered]) -> float | None:
        """Return seconds that the network has waited for images.

        None if it takes several batches at once, because they could not be attributed to one.
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
        """Queue an answered sample for segmentation."""
        with self._lock:
            if self.ending:
                raise CancelledError
            self._awaiting_masks.add(sample.end)
        self._memory.enter(SEGMENTATION, 0)  # it waits, and holds no pixels
        self._threads.submit(SEGMENTATION, self._segment, sample)

    def _segment(self, sample: AnsweredSample) -> None:
        """Segment a sample once the budget has room for it; `_propagate` frees the room."""
        sample.need = bytes_needed(sample.model, sample.query, sample.response)
        self._budget.enter(sample.need)
        self._memory.enter(SEGMENTATION, sample.need, samples=0)
        try:
            if self.closed:
                raise CancelledError
            started = sample.begin()
            self._memory.enter(PROPAGATION, sample.need)
            self._threads.submit(PROPAGATION, self._propagate, sample, started)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._budget.leave(sample.need)
            self._release_sample(sample, error)
        finally:
            self._memory.leave(SEGMENTATION, sample.need)

    def _propagate(
        self, sample: AnsweredSample, started: Prediction | Callable[[], Prediction]
    ) -> None:
        """Propagate a sample's masks, journal its prediction, and free its room."""
        start, stage = perf_counter(), sample.inflight.stages[PROPAGATION]
        crashed_before = stage.crashed
        try:
            try:
                if isinstance(started, Prediction):
                    prediction, failure = started, started.failure
                    crashed = int(failure is not None and failure.kind is FailureKind.MODEL)
                else:
                    (prediction,) = call_guarded(
                        sample.model,
                        [sample.query],
                        stage,
                        lambda chosen: check_predictions(chosen, [started()]),
                    )
                    if prediction.failure is not None:  # a failure has no calls of its own
                        prediction = replace(prediction, calls=sample.response.calls)
                    crashed = stage.crashed - crashed_before
            finally:
                self._memory.leave(PROPAGATION, sample.need)
                self._budget.leave(sample.need)
            stage.end(start)
            self._journal(sample.inflight, prediction, crashed=crashed)
            self._release_sample(sample)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._release_sample(sample, error)

    def _journal(
        self, inflight: InflightBatch, prediction: Prediction, *, crashed: int = 0
    ) -> None:
        """Write a prediction to the journal, unless it has one, and report the outcome."""
        if prediction.query_id in inflight.batch.kept:
            self._count_down(inflight)
            return
        self._append(records(inflight.batch, [prediction]))
        failed = int(prediction.failure is not None)
        with self._lock:
            inflight.batch_outcome.failed += failed
        self.on_outcome(
            Outcome(
                inflight.batch.index,
                (prediction.query_id,),
                failed=failed,
                crashed=crashed,
                is_whole_batch=False,
            )
        )
        self._count_down(inflight)

    def _count_down(self, inflight: InflightBatch) -> None:
        """Lower `remaining` by 1, and settle the batch's outcome when it is 0."""
        with self._lock:
            inflight.remaining -= 1
            is_finished = inflight.remaining == 0
        if is_finished:
            set_result(inflight.done, inflight.outcome(self._memory))

    def _release_sample(self, sample: AnsweredSample, error: BaseException | None = None) -> None:
        """Record that an answered sample is finished, or dropped because of `error`."""
        if error is not None:
            set_error(sample.inflight.done, error)
        with self._lock:
            self._awaiting_masks.discard(sample.end)
            self._awaiting_changed.notify_all()
        set_result(sample.end, None)


def batches_ahead(model: Model) -> int:
    """Return the largest number of a model's batches that are asked for or await masks."""
    return model.turns + 1 if isinstance(model, StagedModel) else 1
