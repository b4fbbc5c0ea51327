"""Turn a batch of queries into valid predictions or failures, whatever the model does.

`pipeline` calls a model's parts through `call_guarded`, which attributes an exception to the query
that causes it, and writes the journal's records. An answer that does not fit its query (`fault_of`)
becomes a failure.
"""

import json
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from time import time
from typing import Protocol, TypeVar

from harness.errors import (
    DataError,
    MaskError,
    MissingDependency,
    NotRestored,
    OutOfMemory,
    Unavailable,
    UsageError,
)
from harness.interchange.answers import MAX_COUNT
from harness.interchange.journal_form import prediction_from_json, prediction_to_json
from harness.model import Answered, Model, StagedModel
from harness.plain import unboxed
from harness.plugins import describe_error, missing_dependency
from harness.run.batching import Batch, lost_image
from harness.run.timing import Stage
from harness.store.journal import JournalPosition, line, with_references
from harness.types import Answer, AnswerForm, FailureKind, Prediction, Query, failed_prediction

T = TypeVar("T")

FIELDS_OF_FORM: Mapping[AnswerForm, tuple[str, ...]] = {
    AnswerForm.MASK: ("masks",),
    AnswerForm.MASK_TRACK: ("masks",),
    AnswerForm.BOXES: ("boxes",),
    AnswerForm.BOX_TRACK: ("box_track",),
    AnswerForm.BOX_3D: ("boxes_3d",),
    AnswerForm.POINTS: ("points",),
    AnswerForm.COUNT: ("count", "boxes", "points"),
    AnswerForm.CHOICE: ("choice",),
    AnswerForm.NUMBER: ("number",),
    AnswerForm.INTERVAL: ("interval",),
    AnswerForm.TEXT: ("text",),
}
"""Fields of an `Answer` of which one must be set, by the form that the query asks for."""
ENDING_ERRORS = (UsageError, MissingDependency, NotRestored, CancelledError)
"""Errors of a model that end the run, instead of failing the sample."""


class RecordSink(Protocol):
    """A receiver of records: a journal's file, or a buffer for the process that writes one."""

    def append(self, records: Sequence[Mapping[str, object]]) -> None: ...  # noqa: D102


@dataclass(slots=True)
class Outcome:
    """The result of predicting a batch or a part of it, without the predictions themselves."""

    batch: int
    samples: tuple[str, ...]
    """Query ids."""
    failed: int = 0
    crashed: int = 0
    """Failures that were exceptions of the model."""
    halvings: int = 0
    """Number of times that a batch was cut in two to fit into memory."""
    stages: Mapping[str, Stage] = field(default_factory=dict)
    """Cost of the model's stages by name; empty if another process made the batch."""
    ended: float = field(default_factory=time)
    """Time at which they were journalled, in seconds since 1970 by the worker's clock."""
    is_whole_batch: bool = True
    """False: other samples of the batch are not journalled yet."""


def journalled_outcome(
    batch: int, places: Mapping[str, JournalPosition], *, is_whole_batch: bool
) -> Outcome:
    """Return the outcome of a batch's samples that another process has journalled."""
    failures = [position.failure for position in places.values() if position.failure is not None]
    crashed = failures.count(FailureKind.MODEL)
    return Outcome(
        batch, tuple(places), failed=len(failures), crashed=crashed, is_whole_batch=is_whole_batch
    )


def begin(batch: Batch) -> dict[str, object]:
    """Return the journal's record of the start of a batch."""
    return {"begin": batch.index, "run": batch.run}


def records(batch: Batch, predictions: Sequence[Prediction]) -> list[dict[str, object]]:
    """Return the journal's records of a batch's predictions, except those that it has already."""
    queries = {query.id: query for query in batch.queries}
    return [
        with_references(
            {
                "sample": prediction.query_id,
                "batch": batch.index,
                "prediction": prediction_to_json(prediction),
            },
            question=queries[prediction.query_id].text,
            options=queries[prediction.query_id].options,
        )
        for prediction in predictions
        if prediction.query_id not in batch.kept
    ]


def split_readable(batch: Batch) -> tuple[list[Query], list[Prediction]]:
    """Return the queries whose images can be read, and failures for the others."""
    faults = {query.id: lost_image(query) for query in batch.queries}
    readable = [query for query in batch.queries if faults[query.id] is None]
    failures = [
        failed_prediction(query, FailureKind.INFRASTRUCTURE, fault)
        for query in batch.queries
        if (fault := faults[query.id]) is not None
    ]
    return readable, failures


def by_sample(model: Model) -> bool:
    """Return True if a model returns each query's response as soon as it is complete."""
    return isinstance(model, StagedModel) and model.by_sample


def responded(
    model: StagedModel[Answered],
    queries: Sequence[Query],
    stage: Stage,
    ask: Callable[[Sequence[Query]], Sequence[Answered]],
) -> Generator[tuple[Query, Answered], None, None]:
    """Yield each query with its response as it is complete, or with the Prediction of its failure.

    If a model that answers by the sample raises, `ask` is called with the remaining queries, to
    find the query that causes the exception; see `call_guarded`.

    Args:
        model: The model.
        queries: The queries.
        stage: Receives the counts of crashes and halvings.
        ask: Returns a response for each of some queries.
    """
    unanswered = dict(enumerate(queries))
    if unanswered and by_sample(model):
        try:
            for index, response in model.generate_as_completed(queries):
                yield unanswered.pop(index), response
        except ENDING_ERRORS:
            raise
        except (Exception, SystemExit):  # noqa: BLE001 - `call_guarded` handles it
            pass
    if unanswered:
        remaining = list(unanswered.values())
        yield from zip(remaining, call_guarded(model, remaining, stage, ask), strict=True)


def predict(model: Model, queries: Sequence[Query], stage: Stage) -> list[Prediction]:
    """Return one valid prediction for each query, whatever the model does; see `call_guarded`."""
    return call_guarded(
        model, queries, stage, lambda chosen: check_predictions(chosen, model.predict(chosen))
    )


def call_guarded(
    model: Model,
    queries: Sequence[Query],
    stage: Stage,
    call: Callable[[Sequence[Query]], Sequence[T]],
) -> list[T | Prediction]:
    """Call a part of the model; return a result for each query, a failed Prediction if it raises.

    A batch that does not fit into memory is halved. `ENDING_ERRORS` (a mistake in the command, a
    missing package, weights that were not put back) end the run. A damaged file and a server that
    does not answer are infrastructure failures of their sample. Any other exception is a model
    failure of the sample that causes it, which is found by trying the model's own batches (of
    `batch_size`), then halves of those that raise, down to one query.

    Args:
        model: The model.
        queries: The queries.
        stage: Receives the counts of crashes and halvings.
        call: Returns a result for each of some queries.
    """
    try:
        return [*call(queries)]
    except ENDING_ERRORS:
        raise
    except ModuleNotFoundError as error:
        raise missing_dependency(f"model {model.name}", error) from error
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to models
        if len(queries) == 1:
            return [_as_failure(queries[0], error, stage)]
        too_large = _too_large(error)
        no_query_is_at_fault = isinstance(error, Unavailable)
    if too_large:
        stage.halvings += 1
    if not too_large and (no_query_is_at_fault or len(queries) > model.batch_size):
        parts = _pieces(queries, model.batch_size)
    else:
        parts = _split_halves(queries)
    return [result for part in parts for result in call_guarded(model, part, stage, call)]


def _split_halves(queries: Sequence[Query]) -> list[Sequence[Query]]:
    half = len(queries) // 2
    return [queries[:half], queries[half:]]


def _pieces(queries: Sequence[Query], limit: int) -> list[Sequence[Query]]:
    """Split queries into parts of at most `limit` queries; `limit` or fewer into single queries.

    Single queries are for a server that did not answer: halving would only repeat the requests.
    """
    size = max(1, limit) if len(queries) > limit else 1
    return [queries[start : start + size] for start in range(0, len(queries), size)]


def _too_large(error: BaseException) -> bool:
    """Return True if memory ran out; torch's error is compared by name, to not import torch."""
    is_memory_error = isinstance(error, (OutOfMemory, MemoryError))
    return is_memory_error or type(error).__name__ == "OutOfMemoryError"


def _as_failure(query: Query, error: BaseException, stage: Stage) -> Prediction:
    """Return the failure of the one sample that raised an exception."""
    if _too_large(error):
        return failed_prediction(query, FailureKind.INFRASTRUCTURE, f"does not fit: {error}")
    if isinstance(error, (DataError, Unavailable)) and not isinstance(error, MaskError):
        return failed_prediction(query, FailureKind.INFRASTRUCTURE, str(error))
    stage.crashed += 1
    return failed_prediction(query, FailureKind.MODEL, describe_error(error))


def check_predictions(
    queries: Sequence[Query], predictions: Sequence[Prediction]
) -> list[Prediction]:
    """Return the predictions; those with answers that do not fit their queries become failures."""
    if len(predictions) != len(queries):
        raise ValueError(f"{len(predictions)} predictions for {len(queries)} queries")
    return [_check_prediction(*pair) for pair in zip(queries, predictions, strict=True)]


def _check_prediction(query: Query, prediction: Prediction) -> Prediction:
    """Return a prediction as the journal gives it back, or a failure if it is invalid.

    Raises:
        ValueError: it is for another query.
    """
    if prediction.query_id != query.id:
        raise ValueError(f"a prediction for {prediction.query_id} in the place of {query.id}")
    fault = prediction.answer and fault_of(query, prediction.answer)
    if fault:
        without = failed_prediction(
            query, FailureKind.MODEL, fault, responses=prediction.responses, usage=prediction.usage
        )
        return replace(without, calls=prediction.calls, parsed=prediction.parsed)
    # Raises, as a fault of the model, if the journal cannot store the prediction.
    plain = json.loads(line({"one": prediction_to_json(prediction)}))["record"]["one"]
    restored = prediction_from_json(plain)
    # A number of NumPy or torch is scored as the journal stores it.
    answer = prediction.answer
    numbers = () if answer is None else (*numbers_in(answer), answer.count or 0)
    return prediction if all(type(number) in (int, float) for number in numbers) else restored


def fault_of(query: Query, answer: Answer) -> str | None:
    """Return why an answer does not fit a query (form, sizes, frames, numbers); None if it does."""
    is_set = any(getattr(answer, name) is not None for name in FIELDS_OF_FORM[query.form])
    if not (answer.no_target or is_set):
        return f"no {query.form} in the answer"
    frames = len(query.media[0])
    tracks = (("masks of an instance", track) for track in answer.instances or ())
    for name, masks in (("masks", answer.masks), ("soft masks", answer.soft_masks), *tracks):
        if masks is None:
            continue
        if len(masks) != frames:
            return f"{len(masks)} {name} for {frames} frame(s)"
        for mask in masks:
            if (mask.width, mask.height) != query.size:
                return (
                    f"a mask of {mask.width} × {mask.height} pixels for an image of "
                    f"{query.size[0]} × {query.size[1]}"
                )
    if answer.box_track is not None and len(answer.box_track) != frames:
        return f"a box track of {len(answer.box_track)} for {frames} frame(s)"
    if not all(map(math.isfinite, numbers_in(answer))):
        return "a number that is not finite"
    if any(box.right <= box.left or box.bottom <= box.top for box in answer.boxes or ()):
        return "a box without area"
    count = unboxed(answer.count)
    if count is not None and not (type(count) is int and 0 <= count <= MAX_COUNT):
        return f"a count that is not a whole number from 0 to {MAX_COUNT}: {repr(count)[:40]}"
    return None


def numbers_in(answer: Answer) -> list[float]:
    """Return the numbers of an answer's boxes, points, interval and confidences, and its number."""
    shapes = [
        *(answer.boxes or ()),
        *(answer.points or ()),
        *(answer.box_track or ()),
        *(answer.boxes_3d or ()),
    ]
    return [
        *(number for shape in shapes if shape is not None for number in shape),
        *(answer.box_scores or ()),
        *(answer.interval or ()),
        *(() if answer.number is None else (answer.number,)),
    ]
