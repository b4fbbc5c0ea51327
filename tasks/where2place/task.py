"""Where2Place: 100 questions for points in free space, each with the mask of its region.

A row of FlagEval's table `data/test-*.parquet`:

    {"question_id": "0", "question": "Point out …", "question_type": "…", "image": …, "mask": …}

The masks are JPEG files: along borders they are grey, and the official script weighs points by it.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.pointing.task import (
    row_question,
    share_protocol,
    white,
)
from harness.tasks.qa.images import image_task, parts
from harness.tasks.qa.questions import Question, fill_pattern
from harness.tasks.qa.tables import text
from harness.types import AnswerForm

FIX = "`harness list tasks where2place` says where the data is had."
POINTS = (AnswerForm.POINTS,)
COLUMNS = {
    "question_id": "id",
    "question": "question",
    "question_type": "category",
    "image": "image",
    "mask": "mask of the region",
}


def where2place(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "where2place/official",
) -> Task:
    """One sample a question.

    Args:
        data: The folder that holds one folder a benchmark.
        split: There is one.
        protocol: `where2place/official` or `where2place/white`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "where2place"
    files = parts(place / "data", "test-*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task(
        "where2place", files, COLUMNS, make, protocol=scoring, split=split, forms=POINTS
    )


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    return row_question(
        row,
        where,
        place=place,
        id=fill_pattern("{question_id}", row, where),
        text=text(row, "question", where).strip(),
        categories={"question_type": str(row["question_type"] or "")},
    )


PROTOCOLS = {
    "where2place/official": share_protocol(
        "where2place/official",
        lambda levels: levels / 255.0,
        "summarize_vqa.py: a point counts by the grey of its pixel, as masks are JPEG files",
    ),
    "where2place/white": share_protocol(
        "where2place/white", white, "lmms-eval: a point counts on pixels above half of white"
    ),
}
