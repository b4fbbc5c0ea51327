"""Records of VSI-Bench and of its subsets, one at a time, checked."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.metrics.vsi import CHOICE_TYPES, NUMBER_TYPES
from harness.tasks.spatial.tables import listed_ids, records, text

Split = Literal["full", "debiased", "pruned", "tiny"]

COLUMNS = {
    "id": "number of the question", "dataset": "folder of the video", "scene_name": "video",
    "question_type": "one of ten", "question": "question", "ground_truth": "letter or number",
    "options": "options, each with its letter, or null",
}  # fmt: skip
LETTERS = "ABCDEFGH"
LETTERED = re.compile(r"\s*([A-H])\s*[.):]\s*(.*)\Z", re.DOTALL)

FULL = ("test.jsonl", "test.parquet", "test-*.parquet", "data/test-*.parquet")
"""The hub's file of all questions: since 2025 JSON lines, before that Parquet."""
SUBSETS: Mapping[str, str] = {"debiased": "test_debiased.parquet", "pruned": "test_pruned.parquet"}
PRUNED, TINY = "pruned_ids.txt", "tiny_ids.txt"


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    dataset: str
    scene: str
    kind: str
    question: str
    options: tuple[str, ...]
    """As they stand in the file, letters included; none where a number is asked for."""
    truth: str

    @property
    def video(self) -> str:
        """The video's file below the benchmark's folder."""
        return f"{self.dataset}/{self.scene}.mp4"

    @property
    def is_number(self) -> bool:
        """Whether a number is asked for."""
        return self.kind in NUMBER_TYPES

    def texts(self) -> tuple[str, ...]:
        """The options without their letters."""
        matches = (LETTERED.match(option) for option in self.options)
        return tuple(match[2].strip() for match in matches if match)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a subset, and which of their questions belong to it."""

    files: tuple[Path, ...]
    ids: Path | None = None
    """A file of ids."""
    without: bool = False
    """Whether the subset is what is *not* among those ids."""

    @property
    def annotations(self) -> tuple[Path, ...]:
        """All files whose content decides the samples."""
        return self.files if self.ids is None else (*self.files, self.ids)


def listing(place: Path, split: Split) -> Listing | None:
    """Where a subset lies; None if its files are not there."""
    if split in SUBSETS and (path := place / SUBSETS[split]).is_file():
        return Listing((path,))
    found = (tuple(sorted(place.glob(pattern))) for pattern in FULL)
    files = next((each for each in found if each), ())
    if not files or split == "full":
        return Listing(files) if files else None
    ids = place / (TINY if split == "tiny" else PRUNED)
    return Listing(files, ids, split == "debiased") if ids.is_file() else None


def read(listed: Listing) -> Iterator[Record | DataError]:
    """Every question of a subset in order: what was read, or why it cannot be."""
    ids = None if listed.ids is None else listed_ids(listed.ids)
    for path in listed.files:
        for where, row in records(path, COLUMNS):
            if ids is not None and (str(row["id"]) in ids) == listed.without:
                continue
            try:
                yield _record(row, where)
            except DataError as error:
                yield error


def _record(row: Mapping[str, Any], where: str) -> Record:
    kind, truth = text(row, "question_type", where), text(row, "ground_truth", where)
    if kind not in (*CHOICE_TYPES, *NUMBER_TYPES):
        raise DataError(f"{where}: 'question_type'", found=repr(kind)[:60],
                        expected=f"one of {', '.join((*CHOICE_TYPES, *NUMBER_TYPES))}")  # fmt: skip
    if type(row["id"]) not in (int, str):
        raise DataError(f"{where}: 'id'", expected="a number", found=repr(row["id"])[:40])
    record = Record(
        id=str(row["id"]), dataset=text(row, "dataset", where),
        scene=text(row, "scene_name", where), kind=kind, question=text(row, "question", where),
        options=() if kind in NUMBER_TYPES else _options(row["options"], where), truth=truth,
    )  # fmt: skip
    if record.is_number and not _is_positive(truth):
        raise DataError(f"{where}: 'ground_truth'", expected="a number above 0",
                        found=repr(truth)[:40])  # fmt: skip
    if not record.is_number and truth not in LETTERS[: len(record.options)]:
        raise DataError(f"{where}: 'ground_truth'", expected="the letter of an option",
                        found=repr(truth)[:40])  # fmt: skip
    return record


def _options(value: Any, where: str) -> tuple[str, ...]:
    options = value if isinstance(value, list) else []
    said = [LETTERED.match(option) if isinstance(option, str) else None for option in options]
    letters = "".join(match[1] if match else "?" for match in said)
    if len(options) < 2 or letters != LETTERS[: len(options)]:
        raise DataError(f"{where}: 'options'", expected="texts that begin with A., B., …",
                        found=repr(value)[:60])  # fmt: skip
    return tuple(options)


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < 1e12
    except ValueError:
        return False
