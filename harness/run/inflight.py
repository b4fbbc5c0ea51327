"""Batches and samples in progress, with the futures of their outcomes.

`pipeline` hands them from one stage's thread to the next.
"""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import TypeVar

from harness.model import Answered, StagedModel
from harness.run.batching import Batch
from harness.run.predict import Outcome, call_guarded
from harness.run.timing import SEGMENTATION, Stage, StageMemory
from harness.types import Prediction, Query

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class InflightBatch:
    """A batch in progress, with the cost of its stages and the future of its outcome."""

    batch: Batch
    done: "Future[Outcome]" = field(default_factory=Future)
    began: float = field(default_factory=perf_counter)
    stages: dict[str, Stage] = field(default_factory=dict)
    batch_outcome: Outcome = field(init=False)
    """The outcome of all samples; complete when `outcome` returns it."""
    remaining: int = 1
    """Number of samples that are not journalled, plus 1 while the VLM answers the batch."""

    def __post_init__(self) -> None:
        self.batch_outcome = Outcome(
            self.batch.index, tuple(query.id for query in self.batch.queries)
        )

    def outcome(self, memory: StageMemory) -> Outcome:
        """Complete and return the outcome of a batch whose samples are all journalled."""
        for name, stage in self.stages.items():
            stage.record_peak(memory.maximum(name), memory.of_process())
        self.batch_outcome.crashed = sum(stage.crashed for stage in self.stages.values())
        self.batch_outcome.halvings = sum(stage.halvings for stage in self.stages.values())
        self.batch_outcome.stages = self.stages
        self.batch_outcome.ended = time()
        return self.batch_outcome


@dataclass(slots=True, eq=False)
class AnsweredSample:
    """A sample between the language stage and the journal."""

    model: StagedModel[Answered]
    inflight: InflightBatch
    query: Query
    response: Answered
    end: "Future[None]" = field(default_factory=Future)
    """Settled when the sample is journalled or dropped."""
    need: int = 0
    """Bytes of its image and masks."""

    def begin(self) -> Prediction | Callable[[], Prediction]:
        """Segment the sample; return the call that finishes it, or its failed Prediction."""
        if isinstance(self.response, Prediction):
            return self.response
        model, query, response = self.model, self.query, self.response
        start, stage = perf_counter(), self.inflight.stages[SEGMENTATION]
        (started,) = call_guarded(model, [query], stage, lambda _: [model.begin(query, response)])
        stage.end(start)
        if isinstance(started, Prediction):
            return replace(started, calls=response.calls)
        return started


def set_result(future: "Future[T]", value: T) -> None:
    """Give a future its result, unless it is settled already."""
    with suppress(InvalidStateError):
        future.set_result(value)


def set_error(future: "Future[T]", error: BaseException) -> bool:
    """Give a future its error, unless it is settled already; return True if it was given."""
    with suppress(InvalidStateError):
        future.set_exception(error)
        return True
    return False
