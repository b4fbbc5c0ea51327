"""MMSI-Bench: questions with options in their text, on two images or more.

A row: `{"id": 0, "images": […], "question_type": "…", "question": "… Options: A: …",
"answer": "B"}`
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import mmsi_choice
from harness.task import Task, choose
from harness.tasks.qa.images import image_task, images_of, lettered_question, parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Question, fill_pattern
from harness.tasks.qa.tables import text

FIX = "`harness list tasks mmsi_bench` says where the data is had."
COLUMNS = dict.fromkeys(("id", "images", "question_type", "question", "answer"), "field")


def mmsi_bench(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "mmsi/official"
) -> Task:
    """One sample a question; `protocol` is `mmsi/official` or `mmsi/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "mmsi_bench"
    files = parts(place, "**/*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task("mmsi_bench", files, COLUMNS, make, protocol=scoring, split=split)


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    return lettered_question(
        row,
        where,
        id=fill_pattern("{id}", row, where),
        media=images_of(row["images"], where, place),
        letters="ABCD",
        categories={"question_type": text(row, "question_type", where)},
    )


PROTOCOLS = letter_protocols(
    "mmsi", mmsi_choice, official="lmms-eval: a letter between back quotes, else the first alone"
)
