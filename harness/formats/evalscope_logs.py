"""Logs of EvalScope, the JSON lines in `reviews/` and `predictions/` of an output folder.

The fields are those of `ReviewResult` and `ModelResult` in `evalscope/api/evaluator/cache.py` of
EvalScope 1.14.1. A message is as inspect_ai has it; reasoning is a part of its own, which no answer
is read from. Both files number the samples of a subset from 0.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.formats.entries import VIDEO_KEYS, Entry, ids_in, number_in, text_in
from harness.formats.inspect_logs import question_of, responses_of
from harness.formats.logs import lines_of
from harness.layout import field


def evalscope(path: Path) -> Iterator[Entry]:
    """EvalScope's responses of one subset; a review has the ground truth and a score as well."""
    if path.suffix == ".json":
        raise DataError(
            f"predictions {path}",
            expected="a file of reviews/ or predictions/, MODEL/DATASET_SUBSET.jsonl",
            found="a report, which has no responses",
        )
    for number, record in enumerate(lines_of(path), start=1):
        where = f"{path}, line {number}"
        read = _review if "sample_score" in record else _prediction
        if (entry := read(record, where)) is not None:
            yield entry


def _prediction(record: Mapping[str, Any], where: str) -> Entry | None:
    """Return a model's output; None where the request ended with an error."""
    output = field(record, "model_output", dict, where)
    if not output.get("choices") and output.get("error") is not None:
        return None
    messages = record.get("messages")
    return _entry(record, record.get("metadata"), responses_of(messages, output), where)


def _review(record: Mapping[str, Any], where: str) -> Entry:
    """Return a scored response, whose text is that before EvalScope extracted an answer."""
    sample = field(record, "sample_score", dict, where)
    index, group = field(record, "index", int, where), sample.get("group_id")
    if group not in (None, index):
        raise DataError(
            where,
            expected="one response a question",
            found=f"sample {index} of group {group}",
            fix="Evaluate with `repeats=1`, or keep the first line of each group.",
        )
    score = field(sample, "score", dict, where)
    values = score.get("value")
    if not isinstance(values, dict) or score.get("status", "success") != "success":
        values = {}
    text = field(score, "prediction", str, where)
    return _entry(
        record,
        sample.get("sample_metadata"),
        (text,),
        where,
        ground_truth=_only_text(record.get("target")),
        score=number_in(values, values),
    )


def _only_text(target: object) -> str:
    """Return a target, which releases write as a text or as a list; empty if there are several."""
    texts = target if isinstance(target, list) else [target]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else ""


def _entry(
    record: Mapping[str, Any],
    metadata: object,
    responses: tuple[str, ...],
    where: str,
    *,
    ground_truth: str = "",
    score: float | None = None,
) -> Entry:
    objects = [metadata] if isinstance(metadata, dict) else []
    return Entry(
        where=where,
        response=responses,
        ids=ids_in(objects),
        video=text_in(objects, *VIDEO_KEYS),
        question=question_of(record.get("messages")),
        row=field(record, "index", int, where),
        ground_truth=ground_truth,
        score=score,
    )
