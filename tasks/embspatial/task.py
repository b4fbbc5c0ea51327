"""EmbSpatial-Bench: questions on spatial relations in embodied scenes.

A row of FlagEval's table: `{"question_id": "…", "question": "…", "image": …, "answer_options": […],
"answer": 2, "relation": "close", "data_source": "scannet"}`
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Literal

from harness.errors import DataError
from harness.metrics.letter_readers import leading_choice
from harness.task import Task, choose
from harness.tasks.qa.images import image_task, images_of, lettered_question, parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Question, fill_pattern
from harness.tasks.qa.tables import text

FIX = "`harness list tasks embspatial` says where the data is had."
CATEGORIES = ("relation", "data_source")
COLUMNS = dict.fromkeys(
    ("question_id", "question", "image", "answer_options", "answer", *CATEGORIES), "field"
)


def embspatial(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "embspatial/official"
) -> Task:
    """One sample a question; `protocol` is `embspatial/official` or `embspatial/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "embspatial"
    files = parts(place, "data/test-*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task("embspatial", files, COLUMNS, make, protocol=scoring, split=split)


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    number = row["answer"]
    if type(number) is not int or not 0 <= number < len(ascii_uppercase):
        raise DataError(f"{where}: 'answer'", expected="a place from 0", found=repr(number)[:40])
    return lettered_question(
        {**row, "answer": ascii_uppercase[number]},
        where,
        id=fill_pattern("{question_id}", row, where),
        media=images_of(row["image"], where, place),
        options=row["answer_options"],
        categories={name: text(row, name, where) for name in CATEGORIES},
    )


PROTOCOLS = letter_protocols(
    "embspatial",
    leading_choice,
    official="lmms-eval: the response's first letter, of whatever word",
)
