"""LongVideoBench's questions: its JSON files, or the hub's tables."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from harness.errors import DataError
from harness.foreign import listed
from harness.tasks.qa.questions import Fields, Question, read_records

Split = Literal["val", "test"]
JSON: Mapping[Split, str] = {"val": "lvb_val.json", "test": "lvb_test_wo_gt.json"}
TABLE: Mapping[Split, str] = {"val": "validation-*.parquet", "test": "test-*.parquet"}
SLOTS = tuple(f"option{number}" for number in range(5))
NOTHING = "N/A"
"""Filler of the hub's five columns of options where a question has fewer."""
FIELDS = Fields(
    id="{id}",
    media="{video_path}",
    options="candidates",
    max_options=len(SLOTS),
    answer="correct_choice",
    form="place",
    categories={name: name for name in ("duration_group", "question_category", "topic_category")},
    others={
        "subtitle_path": "text",
        "duration": "number",
        "starting_timestamp_for_subtitles": "number",
    },
)


def files(place: Path, split: Split) -> tuple[Path, ...]:
    """The files that hold a split's questions: JSON, or the hub's table."""
    if (place / JSON[split]).is_file():
        return (place / JSON[split],)
    for folder in (place, place / "data"):
        if tables := listed(folder, TABLE[split]):
            return tuple(tables)
    return ()


def read_questions(paths: tuple[Path, ...], split: Split) -> Iterator[Question | DataError]:
    """Every question in order, or why it cannot be read; without ground truth for `test`."""
    fields = FIELDS if split == "val" else replace(FIELDS, answer="")
    columns = fields.columns
    if paths[0].suffix.lower() == ".parquet":
        del columns["candidates"]
        columns |= dict.fromkeys(SLOTS, "option")
    yield from read_records(paths, columns, partial(_question, fields))


def _question(fields: Fields, row: Mapping[str, object], where: str) -> Question:
    if SLOTS[0] in row:
        row = {
            **row,
            "candidates": [row[slot] for slot in SLOTS if row[slot] not in (None, NOTHING)],
        }
    question = fields.read_record(row, where)
    stem = PurePosixPath(str(question.media)).stem
    return replace(question, group=stem, extra={"id": question.id})
