"""Read responses from JSON logs of lmms-eval, of Every Eval Ever and of benchmarks' own scripts.

Each function reads one form of file, as a value of `--format` names it, and yields an `Entry` per
response; a file of another form raises DataError.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import DataError, raised_as
from harness.foreign_lines import command
from harness.formats.entries import VIDEO_KEYS, Entry, ids_in, number_in, objects_in, text_in
from harness.formats.misread import SPANS
from harness.interchange.rows import json_lines
from harness.layout import field, read_json
from harness.responses import refuse_duplicate_keys

LMMS_FIELDS = frozenset(
    {"doc_id", "doc", "target", "arguments", "input", "prompt", "resps", "filtered_resps"}
    | {"filter", "metrics", "doc_hash", "prompt_hash", "target_hash", "token_counts"}
)
"""Fields of a sample that are not metrics; every other field of it is a metric."""
NONE = type(None)
FAILED = ("ERROR_CALL_API", "None")
"""Texts that STI-Bench's script writes if the server gave no answer, or null."""
ANSWER_FORMATS = ("multi-choice", "yes_no", "caption_matching", "captioning")
"""TempCompass' formats of question, after which its files are named."""
SEVERAL = "entries with several responses, of which the first counts"
MARKED = re.compile(r"\([A-Z]\)")


def lmms_eval(path: Path) -> Iterator[Entry]:
    """Yield lmms-eval's samples: one JSON object per line, or the older file's list "logs"."""
    if path.suffix == ".jsonl":
        for number, line in enumerate(lines_of(path), start=1):
            yield _lmms_entry(line, f"{path}, record {number}")
        return
    plain = read_json(path)
    logs = plain.get("logs") if isinstance(plain, dict) else None
    if not isinstance(logs, list):
        expected = 'an object with a list of "logs", or a file that ends in .jsonl'
        raise DataError(f"predictions {path}", expected=expected, found="neither")
    for number, record in enumerate(logs, start=1):
        yield _lmms_entry(record, f"{path}, log {number}")


def _lmms_entry(record: object, where: str) -> Entry:
    if not isinstance(record, dict) or not {"resps", "filtered_resps"} & set(record):
        raise DataError(where, expected='"resps" or "filtered_resps"', found=repr(record)[:60])
    doc = record.get("doc")
    document: dict[str, object] = doc if isinstance(doc, dict) else {}
    # Newer files have no document, but what each metric was given, with its question's id.
    objects = [document, *(value for value in record.values() if isinstance(value, dict))]
    row, aspect = record.get("doc_id"), text_in(objects, "dim")
    responses = record.get("resps", record.get("filtered_resps"))
    return Entry(
        where=where,
        response=_first_text(responses, where),
        ids=ids_in(objects),
        video=text_in(objects, *VIDEO_KEYS),
        question=text_in(objects, "question") or text_in([record], "input", "prompt"),
        categories={"aspect": aspect} if aspect else {},
        options=_text_tuple(document.get("options")),
        row=row if type(row) is int else None,
        note=SEVERAL if _count_texts(responses) > 1 else "",
        ground_truth=str(record["target"]) if type(record.get("target")) in (str, int) else "",
        score=_lmms_score(record),
    )


def _lmms_score(record: Mapping[str, Any]) -> float | None:
    """Return a sample's only metric; None if it has none or several.

    If lmms-eval grades it later, from "pred_answer" and "answer": 1 if they are equal, otherwise 0.
    """
    metrics = {name: value for name, value in record.items() if name not in LMMS_FIELDS}
    graded = [value for value in metrics.values() if isinstance(value, dict)]
    if len(metrics) == 1 and graded and {"pred_answer", "answer"} <= graded[0].keys():
        return float(graded[0]["pred_answer"] == graded[0]["answer"])
    return number_in(metrics, metrics)


def _count_texts(value: object) -> int:
    """Return the number of texts in a value, at any depth of nested lists."""
    return sum(map(_count_texts, value)) if isinstance(value, list) else isinstance(value, str)


def _first_text(value: object, where: str) -> str | None:
    """Return the first response in nested lists; None if it is null."""
    while isinstance(value, list) and value:
        value = value[0]
    if value is not None and not isinstance(value, str):
        raise DataError(where, expected="a response that is text", found=repr(value)[:60])
    return value


def every_eval_ever(path: Path) -> Iterator[Entry]:
    """Yield Every Eval Ever's instances: one JSON object per line, for each sample and metric.

    Instances with an error and no output are left out. A score counts if there is one metric.
    """
    if path.suffix != ".jsonl":
        raise DataError(
            f"predictions {path}",
            expected="the instances, a file …_samples.jsonl",
            found=f"{path.name}, which may be their aggregate",
            fix='The aggregate names their file, in "detailed_evaluation_results".',
        )
    entries: list[Entry] = []
    metrics = set()
    for number, record in enumerate(lines_of(path), start=1):
        where = f"{path}, line {number}"
        name = field(record, "sample_id", str, where)
        metrics.add(str(record.get("evaluation_result_id") or record.get("evaluation_name")))
        question_fields = _require_object(record.get("input"), where)
        scores = _require_object(record.get("evaluation"), where)
        texts = _outputs(record, where)
        if not texts and record.get("error"):
            continue
        question, score = text_in([question_fields], "raw"), number_in(scores, ["score"])
        response = texts or ("",)
        entry = Entry(where=where, response=response, ids=(name,), question=question, score=score)
        entries.append(entry)
    yield from (replace(entry, score=None) for entry in entries) if len(metrics) > 1 else entries


def _outputs(record: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the outputs of a single turn, or the last response of several turns."""
    output, messages = record.get("output"), record.get("messages")
    if isinstance(output, dict):
        texts = output.get("raw")
    else:
        turns = messages if isinstance(messages, list) else []
        responses = [turn["content"] for turn in turns if _is_response(turn)]
        texts = responses[-1:] or None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(where, expected='texts in "output" or "messages"', found=repr(texts)[:60])
    return tuple(texts)


def _is_response(turn: object) -> bool:
    return isinstance(turn, dict) and turn.get("role") == "assistant" and "content" in turn


def video_mme(path: Path) -> Iterator[Entry]:
    """Yield entries of Video-MME's result file: videos with questions, each with a "response"."""
    for number, video in enumerate(objects_in(path)):
        where = f"{path}, video {number}"
        for record in field(video, "questions", list, where):
            yield Entry(
                where=where,
                response=field(record, "response", (str, NONE), where),
                ids=ids_in([record]),
                video=text_in([video], "videoID", "video_id"),
                question=text_in([record], "question"),
                options=_text_tuple(record.get("options")),
            )


def _text_tuple(value: object) -> tuple[str, ...]:
    """Return the texts in a list; an empty tuple if the value is not a list."""
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return tuple(value) if isinstance(value, list) and is_list else ()


def sti(path: Path) -> Iterator[Entry]:
    """Yield entries of STI-Bench's scripts: video, number and times identify a question.

    `opensource_test.py` keeps the letter that it read; `openai_test.py` keeps the whole response,
    or one of `FAILED` if there was none (commit 43ddebe).
    """
    keys = ("id", "id_file", "time_s", "time_e")
    for number, record in enumerate(objects_in(path)):
        where = f"{path}, record {number}"
        name = "|".join(str(field(record, key, object, where)) for key in keys)
        response = field(record, "model_out", (str, NONE), where)
        yield Entry(where=where, response=None if response in FAILED else response, ids=(name,))


def qvhighlights(path: Path) -> Iterator[Entry]:
    """Yield entries of QVHighlights' submissions: windows [start, end, score], in s, by query.

    The first window counts, as in R1; without a window there is no answer. Submissions for other
    videos may have the same form.
    """
    for number, record in enumerate(lines_of(path), start=1):
        where = f"{path}, line {number}"
        windows = field(record, "pred_relevant_windows", list, where)
        first = windows[0] if windows else None
        if first is not None and not (isinstance(first, list) and len(first) in (2, 3)):
            raise DataError(where, expected="[start, end, score]", found=repr(first)[:60])
        _refuse_reversed(first, f"{where}: pred_relevant_windows", path.name)
        scores = [window[2] for window in windows if isinstance(window, list) and len(window) == 3]
        are_numbers = all(type(score) in (int, float) for score in scores)
        if first and scores and are_numbers and len(first) == 3 and first[2] < max(scores):
            raise DataError(
                f"{where}: pred_relevant_windows",
                expected="the best window first, which counts",
                found=f"a score of {first[2]} before {max(scores)}",
                fix=f"{command('.pred_relevant_windows |= sort_by(-.[2])', path.name)} sorts them.",
            )
        yield Entry(
            where=where,
            response=None,
            answer=None if first is None else first[:2],
            ids=ids_in([record]),
            video=field(record, "vid", str, where),
            question=field(record, "query", str, where),
        )


def _refuse_reversed(window: list[object] | None, where: str, name: str) -> None:
    """Raise DataError for a window that ends before it starts."""
    start, end, *_ = window or (0, 0)
    if not (type(start) in (int, float) and type(end) in (int, float) and end < start):  # type: ignore[operator]
        return
    fixes = [
        (layout, command(f".pred_relevant_windows |= map(({program}) + .[2:])", name))
        for layout, (program, _) in SPANS.items()
    ]
    raise DataError(
        where,
        expected="[start, end, score] in seconds",
        found=repr(window)[:60],
        fix=" ".join(f"If all are {layout}: {command_text}." for layout, command_text in fixes)
        + " Multiply fractions by the video's length first.",
    )


def blink(path: Path) -> Iterator[Entry]:
    """Yield BLINK's predictions: letters by id, or one task's outputs as lists of objects by split.

    The letter in parentheses that `test_benchmark.py` extracted counts, as "(C)". Text that it did
    not shorten, as "(C) Point C", is wrong: `evaluate.py` compares texts. The test split's ground
    truth is hidden.
    """
    for key, value in _require_object(read_json(path), f"predictions {path}").items():
        where = f"{path}, {key!r}"
        if not isinstance(value, list):
            value = [{"idx": key, "prediction": value}]
        for record in value:
            if text_in([_require_object(record, where)], "answer") == "hidden":
                continue
            letter = field(record, "prediction", (str, NONE), where)
            unread = letter is None or not MARKED.fullmatch(letter)
            yield Entry(
                where=where,
                response=None if unread else letter,
                ids=(field(record, "idx", str, where),),
            )


def tempcompass(path: Path) -> Iterator[Entry]:
    """Yield TempCompass' predictions: by video and aspect, a list of questions with responses.

    The file's name may be that of the format of question, `multi-choice.json`. The response is in
    "prediction" or "response", as in eval_multi-choice.py and its siblings; null there is a refusal
    of the model, which is wrong.

    Raises:
        DataError: both fields are there and differ.
    """
    plain, question_format = read_json(path), path.stem if path.stem in ANSWER_FORMATS else ""
    for video, aspects in _require_object(plain, f"predictions {path}").items():
        for aspect, value in _require_object(aspects, f"{path}, video {video!r}").items():
            where = f"{path}, video {video!r}, {aspect}"
            for record in value if isinstance(value, list) else [value]:
                fields = _require_object(record, where)
                responses = [fields[key] for key in ("prediction", "response") if key in fields]
                if len(set(map(repr, responses))) != 1 or not isinstance(responses[0], (str, NONE)):
                    expected = 'one text or null, as "prediction" or "response"'
                    raise DataError(where, expected=expected, found=repr(record)[:60])
                yield Entry(
                    where=where,
                    response=responses[0],
                    video=video,
                    question=text_in([fields], "question"),
                    categories={
                        "aspect": aspect,
                        **({"format": question_format} if question_format else {}),
                    },
                    ground_truth=text_in([fields], "answer"),
                )


def lines_of(path: Path) -> Iterator[dict[str, object]]:
    """Yield the objects of a file of JSON lines."""
    for number, _, line in json_lines(path):
        where = f"{path}, line {number}"
        with raised_as(DataError, where, "one JSON object", ValueError, RecursionError):
            plain = json.loads(line.decode("utf-8"), object_pairs_hook=refuse_duplicate_keys)
        yield plain


def _require_object(plain: object, where: str) -> dict[str, object]:
    if not isinstance(plain, dict):
        raise DataError(where, expected="an object", found=type(plain).__name__)
    return plain
