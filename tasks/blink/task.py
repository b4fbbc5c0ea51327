"""BLINK: fourteen tasks of perception, each in a folder of its own.

A row: `{"idx": "val_Counting_1", "sub_task": "Counting", "question": "…", "choices": ["0", "1"],
"answer": "(B)", "image_1": …, "image_2": null, "image_3": null, "image_4": null, "prompt": "…"}`
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import leading_choice
from harness.task import Task, choose
from harness.tasks.qa.images import image_task, images_of, lettered_question, parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Question
from harness.tasks.qa.tables import text

FIX = "`harness list tasks blink` says where the data is had."
IMAGES = ("image_1", "image_2", "image_3", "image_4")
COLUMNS = dict.fromkeys(("idx", "sub_task", "question", "choices", "answer", *IMAGES), "field")


def blink(data: Path, *, split: Literal["val"] = "val", protocol: str = "blink/official") -> Task:
    """One sample a question; `protocol` is `blink/official` or `blink/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "blink"
    files = parts(place, f"*/{split}-*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task("blink", files, COLUMNS, make, protocol=scoring, split=split)


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    return lettered_question(
        {**row, "answer": text(row, "answer", where).strip("()")},
        where,
        id=text(row, "idx", where),
        media=images_of([row[name] for name in IMAGES if row[name] is not None], where, place),
        options=row["choices"],
        categories={"sub_task": text(row, "sub_task", where)},
    )


PROTOCOLS = letter_protocols(
    "blink", leading_choice, official="lmms-eval: the response's first letter, of whatever word"
)
