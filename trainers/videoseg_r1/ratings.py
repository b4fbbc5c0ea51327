"""Ratings of difficulty: read them from responses, and keep them in a JSON Lines file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.errors import DataError, ParseError, raised_as
from harness.responses import finite_numbers, loads_lenient
from harness.store.atomic import writing
from harness.thoughts import after_thought
from harness.trainers.videoseg_r1.budgets import UNKNOWN

ASPECTS = ("scene", "segmentation", "temporal", "motion", "language")
LOWEST, HIGHEST = 1, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """Five numbers from 1 (very easy) to 10 (very hard)."""

    scene: float
    segmentation: float
    temporal: float
    motion: float
    language: float

    @property
    def score(self) -> float:
        """D, their mean."""
        return fmean(float(getattr(self, name)) for name in ASPECTS)


@dataclass(frozen=True, slots=True)
class RatedSample:
    """Result of rating one sample."""

    sample: str
    """Key of the sample; see `samples.key_of`."""
    rating: Rating | None
    """None: the response could not be read."""
    response: str = ""

    @property
    def score(self) -> float:
        """D; UNKNOWN (medium) without a rating."""
        return UNKNOWN if self.rating is None else self.rating.score


def read_rating(response: str) -> Rating | None:
    """Return the five ratings of a response; None if one is missing or out of range.

    The last `{…}` after the thought that has all five counts; earlier ones may be examples.

    >>> response = '{"scene": 4, "segmentation": 6, "temporal": 5, "motion": 3, "language": 7}'
    >>> read_rating(response).score
    5.0
    """
    text = after_thought(response)
    start = len(text)
    while start > 0:
        next_start, start = start, text.rfind("{", 0, start)
        # Five numbers hold no braces: the object ends before the next one begins.
        end = text.find("}", start, next_start) if start >= 0 else -1
        rating = _rating(text[start : end + 1]) if end >= 0 else None
        if rating is not None:
            return rating
    return None


def _rating(text: str) -> Rating | None:
    """Return the ratings of a JSON object, given as text; None: it has not five in range."""
    try:
        value, _ = loads_lenient(text)
        if not isinstance(value, Mapping):
            return None
        numbers = finite_numbers([value.get(name) for name in ASPECTS], len(ASPECTS), "ratings")
    except ParseError:
        return None
    if not all(LOWEST <= number <= HIGHEST for number in numbers):
        return None
    return Rating(**dict(zip(ASPECTS, numbers, strict=True)))


def read_ratings(file: Path, rater: str | None = None) -> dict[str, float]:
    """Return the scores in a file by sample key; a last line without its end is ignored.

    Args:
        file: The file; it need not exist.
        rater: Name of the rater whose ratings count; None: those of all.

    Raises:
        DataError: a line is not a rating.
    """
    if not file.exists():
        return {}
    scores: dict[str, float] = {}
    for where, row in _rows(file):
        if rater is None or row["rater"] == rater:
            ratings = row["ratings"]
            rating = None if ratings is None else _rating(json.dumps(ratings))
            if ratings is not None and rating is None:
                raise DataError(
                    where, expected="five ratings from 1 to 10", found=str(ratings)[:60]
                )
            scores[row["sample"]] = RatedSample(row["sample"], rating).score
    return scores


def _rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name for errors, object) of each complete line."""
    with raised_as(DataError, f"ratings {file}", "a text file", OSError, UnicodeDecodeError):
        lines = file.read_text("utf-8").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        where = f"ratings {file}, line {number}"
        with raised_as(DataError, where, "a JSON object", ValueError):
            row = json.loads(line)
        has_keys = isinstance(row, dict) and {"sample", "rater", "ratings"} <= set(row)
        if not has_keys or not isinstance(row["sample"], str):
            raise DataError(where, expected="sample, rater and ratings", found=line[:60])
        yield where, row


def append(file: Path, rater: str, batch: Sequence[RatedSample]) -> None:
    """Append a rater's results to a file.

    Raises:
        StoreError: it cannot be written.
    """
    lines = [
        json.dumps(
            {
                "sample": sample.sample,
                "rater": rater,
                "score": sample.score,
                "ratings": None if sample.rating is None else asdict(sample.rating),
                "response": sample.response,
            }
        )
        + "\n"
        for sample in batch
    ]
    with writing(file):
        _cut_partial_line(file)
        with file.open("a", encoding="utf-8") as out:
            out.write("".join(lines))


def _cut_partial_line(file: Path) -> None:
    """Remove a last line without its end, which a killed process left."""
    if file.exists():
        data = file.read_bytes()
        if data and not data.endswith(b"\n"):
            file.write_bytes(data[: data.rfind(b"\n") + 1])
