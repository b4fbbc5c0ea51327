"""Convert ground truth and predictions to the JSON that the front end reads.

Input are samples and predictions in the journal's form (plain data); docs/design/site.md has the
output's keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from harness.interchange.journal_form import answer_to_json, as_requested, prediction_from_json
from harness.leaderboards.images import describe_answer
from harness.leaderboards.transcripts import spans_of
from harness.masks import Rle, SoftMask
from harness.store.journal import Journal
from harness.types import Sample, query_id

QUESTION = "\ufffc"
"""Stands for the sample's own question in the texts of requests."""
FAILURE_LETTERS = {"parse": "p", "model": "m", "infrastructure": "i"}
"""Letter of each kind of failure."""
ANSWERED, MISSING = ".", "-"  # in place of such a letter


def target(sample: Sample) -> dict[str, Any]:
    """Return a sample's question, options and ground truth as plain data."""
    query = sample.query
    plain: dict[str, Any] = {"text": query.text}
    if query.options:
        plain["options"] = list(query.options)
    if query.objects:
        plain["objects"] = list(query.objects)
    if sample.target is not None:
        plain["answer"] = _hard(answer_to_json(as_requested(query, sample.target.answer)))
        plain["words"] = describe_answer(sample.target.answer)
    return plain


def predictions_of(journal: Journal, samples: Iterable[str]) -> Iterator[dict[str, Any] | None]:
    """Yield the journal's prediction for each sample id as plain data; None if it has none."""
    names = [query_id(sample) for sample in samples]
    records = journal.records(name for name in names if name in journal.places)
    for name in names:
        yield next(records)["prediction"] if name in journal.places else None


def chunk(
    predictions: Iterable[Mapping[str, Any] | None], questions: Iterable[str]
) -> dict[str, object]:
    """Return a chunk of predictions, in which requests refer to `texts` by index.

    Args:
        predictions: Predictions as plain data; None: the sample has none.
        questions: The samples' questions, which are replaced by `QUESTION` in requests.
    """
    index: dict[str, int] = {}
    samples = [
        None if plain is None else _shortened(plain, question, index)
        for plain, question in zip(predictions, questions, strict=True)
    ]
    return {"texts": list(index), "samples": samples}


def _shortened(plain: Mapping[str, Any], question: str, index: dict[str, int]) -> dict[str, Any]:
    """Return a prediction for a chunk; new texts of requests are added to `index`."""
    shortened = {key: value for key, value in plain.items() if key != "query_id"}
    if "answer" in shortened:
        shortened["answer"] = _hard(shortened["answer"])
    if "calls" in shortened:
        shortened["calls"] = [_call(call, question, index) for call in shortened["calls"]]
        if len(shortened["calls"]) > 1:
            _, spans = spans_of(prediction_from_json(plain))
            if spans:
                shortened["spans"] = spans
    return shortened


def failure_letter(plain: Mapping[str, Any] | None, failed: int | None, samples: int) -> str:
    """Return the letter of a prediction's failure, `ANSWERED`, or `MISSING` without a prediction.

    The protocol decides, as in the run's counts (`scoring.failure_of`). If it counts only some
    samples of the unit as failed, or `failed` is not known, the model's parser decides.

    Args:
        plain: The prediction; None without one.
        failed: Number of the unit's samples without an answer; None: not known.
        samples: Number of the unit's samples.
    """
    if plain is None:
        return MISSING
    if failed == 0 or ("failure" not in plain and failed != samples):
        return ANSWERED
    return FAILURE_LETTERS.get(plain.get("failure", ["parse"])[0], "m")


def is_cut(plain: Mapping[str, Any]) -> bool:
    """Return True if a response ran into its limit of tokens (`ChatResult.with_usage` notes it)."""
    return any(note.startswith("cut off") for note in plain.get("notes", ()))


def _call(call: Mapping[str, Any], question: str, index: dict[str, int]) -> dict[str, Any]:
    """Return a call with the indices of its request's texts in `index` instead of the texts."""
    request = call["request"]
    if not isinstance(request, dict):
        return dict(call)
    shortened = dict(request)
    for name in ("text", "system"):
        if (text := request.get(name)) is not None:
            if question and QUESTION not in text:
                text = text.replace(question, QUESTION)
            shortened[name] = index.setdefault(text, len(index))
    return {**call, "request": shortened}


def _hard(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with soft masks thresholded at 0.5 to masks, which can be drawn."""
    hard = {key: value for key, value in answer.items() if key != "soft_masks"}
    if answer.get("soft_masks") is not None and "masks" not in hard:
        soft = [SoftMask.from_json(mask).to_array() for mask in answer["soft_masks"]]
        hard["masks"] = [Rle.from_array(mask >= np.float32(0.5)).to_json() for mask in soft]
    return hard
