"""Read and check the records of VSI-Bench and of its subsets, one at a time.

`find_listing` finds the files of a subset, `read_questions` reads its questions. A subset is a file
of its own, or all questions with a file of ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.foreign import listed
from harness.metrics.vsi import CHOICE_TYPES, NUMBER_TYPES
from harness.tasks.qa.questions import Fields, Question, read_records
from harness.tasks.qa.tables import listed_ids

Split = Literal["full", "debiased", "pruned", "tiny"]

FIELDS = Fields(
    id="{id}",
    media="{dataset}/{scene_name}.mp4",
    group="{dataset}/{scene_name}",
    answer="ground_truth",
    options="options",
    lettered=True,
    max_options=8,
    categories={"type": "question_type", "dataset": "dataset"},
    allowed_values={"question_type": (*CHOICE_TYPES, *NUMBER_TYPES)},
)
NUMBER_FIELDS = replace(FIELDS, options="", form="number", positive=True)
COLUMNS = FIELDS.columns

FULL_PATTERNS = ("test.jsonl", "test.parquet", "test-*.parquet", "data/test-*.parquet")
"""Names of the hub's file of all questions: since 2025 JSON lines, before that Parquet."""
SUBSET_FILES: Mapping[str, str] = {
    "debiased": "test_debiased.parquet",
    "pruned": "test_pruned.parquet",
}
PRUNED_IDS_FILE, TINY_IDS_FILE = "pruned_ids.txt", "tiny_ids.txt"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a subset, and which of their questions belong to it."""

    files: tuple[Path, ...]
    ids: Path | None = None
    """A file of question ids; None if all questions of `files` belong to the subset."""
    without: bool = False
    """True if the subset is all questions but those of `ids`."""

    @property
    def annotations(self) -> tuple[Path, ...]:
        """Return all files whose content decides the samples."""
        return self.files if self.ids is None else (*self.files, self.ids)


def find_listing(root: Path, split: Split) -> Listing | None:
    """Return the files of a subset; None if they are not there."""
    if split in SUBSET_FILES and (root / SUBSET_FILES[split]).is_file():
        return Listing((root / SUBSET_FILES[split],))
    candidates = (tuple(listed(root, pattern)) for pattern in FULL_PATTERNS)
    files = next((tables for tables in candidates if tables), ())
    if not files or split == "full":
        return Listing(files) if files else None
    ids = root / (TINY_IDS_FILE if split == "tiny" else PRUNED_IDS_FILE)
    return Listing(files, ids, split == "debiased") if ids.is_file() else None


def read_questions(
    subset: Listing, *, only_numbers: bool = False
) -> Iterator[Question | DataError]:
    """Yield every question of a subset in order, or the error that it has.

    Args:
        subset: The subset.
        only_numbers: Leave out questions with options.
    """
    ids = None if subset.ids is None else listed_ids(subset.ids)

    def choose(row: Mapping[str, object], where: str) -> Question | None:
        """Return the question of a row; None if it is not one of those to read."""
        if ids is not None and (str(row["id"]) in ids) == subset.without:
            return None
        is_number = row["question_type"] in NUMBER_TYPES
        question = (NUMBER_FIELDS if is_number else FIELDS).read_record(row, where)
        if only_numbers and not is_number:
            return None
        return replace(question, extra={"type": row["question_type"]})

    return (
        question for question in read_records(subset.files, COLUMNS, choose) if question is not None
    )
