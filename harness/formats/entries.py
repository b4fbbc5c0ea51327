"""One response of another evaluation's file, and the fields that identify its question."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.layout import read_json

ID_KEYS = ("question_id", "id", "qid", "sample_id")
VIDEO_KEYS = ("videoID", "video_id", "video_path", "video", "scene_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One response of a file, and the fields that identify its question."""

    where: str
    """File and line, for messages."""
    response: str | tuple[str, ...] | None
    """The text, or the texts of several requests about one question; None: the file has none."""
    answer: list[object] | None = None
    """The answer itself, of a file that holds numbers and no text, as JSON Lines have it."""
    ids: tuple[str, ...] = ()
    """Candidates for the sample's id, the likeliest first."""
    video: str = ""
    question: str = ""
    """The question, or the prompt that holds it."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Breakdowns that it names, as the sample has them; those that a sample lacks do not count."""
    options: tuple[str, ...] = ()
    """The options as the file writes them; they decide between equal questions about a video."""
    task: str = ""
    """The question's type in the file's words, likewise."""
    row: int | None = None
    """Row of the question in a list, from 0: the benchmark's own list, or one in another order.
    It counts only if questions and ground truths of all rows are those of the samples there."""
    ground_truth: str = ""
    """The right answer as the file writes it."""
    score: float | None = None
    """Score of the response by the evaluation that wrote the file, if it has a single one."""
    note: str = ""
    """Deviation that was accepted, in the plural, for a note that counts it."""


def ids_in(objects: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the candidates for an id in some objects, in their order."""
    values = (record.get(key) for record in objects for key in ID_KEYS)
    return tuple(str(value) for value in values if type(value) in (str, int) and value != "")


def number_in(record: Mapping[str, object], keys: Iterable[str]) -> float | None:
    """Return the only number under some keys of an object; None if there are none or several.

    >>> number_in({"hit": "1", "doc_id": 7}, ["hit", "score"])
    1.0
    """
    numbers = []
    for key in keys:
        value = record.get(key)
        if isinstance(value, (bool, int, float, str)):
            try:
                numbers.append(float(value))
            except ValueError:
                continue
    return numbers[0] if len(numbers) == 1 and math.isfinite(numbers[0]) else None


def text_in(objects: Iterable[Mapping[str, object]], *keys: str) -> str:
    """The first text under one of these keys in some objects; "" if there is none."""
    values = (record.get(key) for record in objects for key in keys)
    return next((text for text in values if isinstance(text, str) and text), "")


def objects_in(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file that is a list of them in JSON."""
    plain = read_json(path)
    if not isinstance(plain, list) or not all(isinstance(record, dict) for record in plain):
        raise DataError(
            f"predictions {path}", expected="a list of objects", found=type(plain).__name__
        )
    return plain
