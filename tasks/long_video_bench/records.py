"""Read LongVideoBench's questions, from its JSON files (see `task`) or the hub's tables.

A table has five columns of options, `option0` to `option4`, in place of the list `candidates`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from harness.errors import DataError
from harness.foreign import listed
from harness.tasks.qa.questions import Fields, Question, read_records

Split = Literal["val", "test"]
JSON_FILES: Mapping[Split, str] = {"val": "lvb_val.json", "test": "lvb_test_wo_gt.json"}
TABLE_PATTERNS: Mapping[Split, str] = {"val": "validation-*.parquet", "test": "test-*.parquet"}
OPTION_COLUMNS = tuple(f"option{number}" for number in range(5))
NO_OPTION = "N/A"
"""Filler of the OPTION_COLUMNS of questions with fewer options."""
FIELDS = Fields(
    id="{id}",
    media="{video_path}",
    options="candidates",
    max_options=len(OPTION_COLUMNS),
    answer="correct_choice",
    form="place",
    categories={name: name for name in ("duration_group", "question_category", "topic_category")},
    others={
        "subtitle_path": "text",
        "duration": "number",
        "starting_timestamp_for_subtitles": "number",
    },
)


def files(root: Path, split: Split) -> tuple[Path, ...]:
    """Return the files of a split: its JSON file, else the hub's tables; () if there are none."""
    if (root / JSON_FILES[split]).is_file():
        return (root / JSON_FILES[split],)
    for folder in (root, root / "data"):
        if tables := listed(folder, TABLE_PATTERNS[split]):
            return tuple(tables)
    return ()


def read_questions(paths: tuple[Path, ...], split: Split) -> Iterator[Question | DataError]:
    """Yield each question or its error, in order. Questions of `test` have no true answer."""
    fields = FIELDS if split == "val" else replace(FIELDS, answer="")
    columns = fields.columns
    if paths[0].suffix.lower() == ".parquet":
        del columns["candidates"]
        columns |= dict.fromkeys(OPTION_COLUMNS, "option")
    yield from read_records(paths, columns, partial(_question, fields))


def _question(fields: Fields, row: Mapping[str, object], where: str) -> Question:
    """Return the question of a record; a table's columns of options become `candidates`."""
    if OPTION_COLUMNS[0] in row:
        options = [row[column] for column in OPTION_COLUMNS]
        row = {
            **row,
            "candidates": [option for option in options if option not in (None, NO_OPTION)],
        }
    question = fields.read_record(row, where)
    stem = PurePosixPath(str(question.media)).stem
    return replace(question, group=stem, extra={"id": question.id})
