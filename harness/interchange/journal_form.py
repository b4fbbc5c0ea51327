"""Answers and predictions to and from plain JSON, the form in a run's journal and on sites.

A prediction's equal requests and responses are stored once; later ones are the number of a call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from harness.errors import StoreError, raised_as
from harness.plain import from_plain, to_plain
from harness.responses import storable
from harness.types import (
    Adaptation,
    Answer,
    Call,
    Failure,
    FailureKind,
    Parsed,
    Prediction,
    Query,
    Request,
    Usage,
)

USAGE_FIELDS = tuple(field.name for field in fields(Usage))
"""Fields of `Usage`: the journal holds their numbers as a list in this order."""


def as_requested(query: Query, answer: Answer) -> Answer:
    """Return a ground truth as a perfect answer: `instances` only if the query asks for them."""
    return answer if query.instances else replace(answer, instances=None)


def answer_to_json(answer: Answer) -> dict[str, object]:
    """Return an answer as plain data, without fields that are not set."""
    plain: dict[str, object] = to_plain(answer)
    return plain


def prediction_to_json(prediction: Prediction) -> dict[str, object]:
    """Return a prediction as plain data for the journal; texts are made storable.

    The number of a call replaces a request that equals this call's, and a response that is this
    call's. `responses` is left out if it equals the calls' responses.
    """
    plain: dict[str, object] = {"query_id": prediction.query_id}
    if prediction.answer is not None:
        plain["answer"] = answer_to_json(prediction.answer)
    if prediction.failure is not None:
        plain["failure"] = [prediction.failure.kind, storable(prediction.failure.message, 2000)]
    if prediction.calls:
        plain["calls"] = _calls_to_json(prediction.calls)
    if prediction.responses != tuple(call.response for call in prediction.calls):
        plain["responses"] = _responses_to_json(prediction)
    if prediction.parsed:
        plain["parsed"] = [to_plain(parsed) for parsed in prediction.parsed]
    plain["usage"] = [getattr(prediction.usage, name) for name in USAGE_FIELDS]
    if prediction.notes:
        plain["notes"] = list(map(storable, prediction.notes))
    if prediction.adaptation is not None:
        plain["adaptation"] = to_plain(prediction.adaptation)
    return plain


def prediction_from_json(plain: Mapping[str, Any]) -> Prediction:
    """Return the prediction of plain data: the inverse of `prediction_to_json`."""
    calls = _calls_from_json(plain.get("calls", ()))
    return Prediction(
        query_id=plain["query_id"],
        answer=from_plain(Answer, plain["answer"]) if "answer" in plain else None,
        failure=(
            Failure(FailureKind(plain["failure"][0]), plain["failure"][1])
            if "failure" in plain
            else None
        ),
        responses=tuple(
            calls[response].response or "" if isinstance(response, int) else response
            for response in plain.get("responses", range(len(calls)))
        ),
        calls=calls,
        parsed=tuple(from_plain(Parsed, parsed) for parsed in plain.get("parsed", ())),
        usage=Usage(**dict(zip(USAGE_FIELDS, plain["usage"], strict=True))),
        notes=tuple(plain.get("notes", ())),
        adaptation=from_plain(Adaptation, plain["adaptation"]) if "adaptation" in plain else None,
    )


def stored_prediction(record: Mapping[str, Any], folder: Path) -> Prediction:
    """Return the prediction of a journal's record; `folder` is the run's, for messages.

    Raises:
        StoreError: this version cannot read it; a later version may have written it.
    """
    unfit = AttributeError, IndexError, KeyError, TypeError, ValueError
    with raised_as(StoreError, f"journal in {folder}", "predictions of this version", *unfit):
        return prediction_from_json(record["prediction"])


def _calls_to_json(calls: Sequence[Call]) -> list[dict[str, object]]:
    """Return calls as plain data; a request equal to an earlier one is that call's number."""
    numbers: dict[Request, int] = {}
    plain = []
    for number, call in enumerate(calls):
        first = numbers.setdefault(call.request, number)
        entry: dict[str, object] = {"request": to_plain(call.request) if first == number else first}
        if call.key:
            entry["key"] = call.key
        if call.response is not None:
            entry["response"] = storable(call.response)
        if call.model:
            entry["model"] = storable(call.model)
        plain.append(entry)
    return plain


def _calls_from_json(plain: Sequence[Mapping[str, Any]]) -> tuple[Call, ...]:
    """Return the calls of plain data: the inverse of `_calls_to_json`."""
    requests: list[Request] = []
    for entry in plain:
        request = entry["request"]
        requests.append(
            requests[request] if isinstance(request, int) else from_plain(Request, request)
        )
    return tuple(
        Call(
            request=request,
            key=entry.get("key", ""),
            response=entry.get("response"),
            model=entry.get("model", ""),
        )
        for request, entry in zip(requests, plain, strict=True)
    )


def _responses_to_json(prediction: Prediction) -> list[int | str]:
    """Return each response as the number of the call whose response it is, or as text."""
    responses = [call.response for call in prediction.calls]
    plain: list[int | str] = []
    start = 0
    for response in prediction.responses:
        if response in responses[start:]:
            plain.append(responses.index(response, start))
            start = responses.index(response, start) + 1
        else:  # a text that differs from the call's, such as by a frame named before it
            plain.append(storable(response))
    return plain
