"""One response of another evaluation's file, and the fields that identify its question.

The readers of `--format` yield an `Entry` per response; `harness.formats.matching` assigns it to a
sample. The functions collect an entry's fields from JSON objects.
"""

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
    """The model's text, or texts of several requests about one question; None if there is none."""
    answer: list[object] | None = None
    """The answer of a file that holds numbers instead of text, in the form of our JSON lines."""
    ids: tuple[str, ...] = ()
    """Candidates for the sample's id, the likeliest first."""
    video: str = ""
    question: str = ""
    """The question, or a prompt that contains it."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Categories in the file, under the names of the sample's; those it lacks do not count."""
    options: tuple[str, ...] = ()
    """The options as in the file; they decide between equal questions about one video."""
    task: str = ""
    """The question's type in the file's words; it decides likewise."""
    row: int | None = None
    """Number of the question in a list, from 0, which may be the benchmark's own list or not.
    It counts only if each row's question and ground truth are those of the sample there."""
    ground_truth: str = ""
    """The right answer as in the file."""
    score: float | None = None
    """Score of the response by the evaluation that wrote the file; None if none or several."""
    note: str = ""
    """A tolerated deviation in words, in the plural, for a note that counts it."""


def ids_in(objects: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the values under known keys of ids in some objects, in the objects' order."""
    values = (record.get(key) for record in objects for key in ID_KEYS)
    return tuple(str(value) for value in values if type(value) in (str, int) and value != "")


def number_in(record: Mapping[str, object], keys: Iterable[str]) -> float | None:
    """Return the only number under some keys of an object; None if none or several are there.

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
    """Return the first text under one of `keys` in some objects; "" if there is none."""
    values = (record.get(key) for record in objects for key in keys)
    return next((text for text in values if isinstance(text, str) and text), "")


def objects_in(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON file that is a list of objects; raise DataError if it is not."""
    plain = read_json(path)
    if not isinstance(plain, list) or not all(isinstance(record, dict) for record in plain):
        raise DataError(
            f"predictions {path}", expected="a list of objects", found=type(plain).__name__
        )
    return plain
