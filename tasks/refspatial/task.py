"""RefSpatial-Bench: 277 questions that are answered by a point, each with the mask of its region.

A row of the hub's tables `data/{location,placement,unseen}-*.parquet`:

    {"id": 0, "image": …, "mask": …, "object": "the mug", "prompt": "Please point out …",
     "suffix": "Your answer should be formatted as …", "step": 2}
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.pointing.task import (
    any_level,
    row_question,
    share_protocol,
    white,
)
from harness.tasks.qa.images import image_task, parts
from harness.tasks.qa.questions import Question, fill_pattern
from harness.tasks.qa.tables import number, text
from harness.types import AnswerForm

FIX = "`harness list tasks refspatial` says where the data is had."
POINTS = (AnswerForm.POINTS,)
COLUMNS = {
    "id": "number",
    "image": "image",
    "mask": "mask of the region",
    "prompt": "question",
    "step": "number of relations",
}


def refspatial(
    data: Path,
    *,
    split: Literal["location", "placement", "unseen"] = "location",
    protocol: str = "refspatial/official",
) -> Task:
    """One sample a question, without the official request for a format of coordinates.

    Args:
        data: The folder that holds one folder a benchmark.
        split: An object (`location`), free space (`placement`), or relations that RefSpatial's
            training set does not have (`unseen`).
        protocol: `refspatial/official` or `refspatial/white`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "refspatial"
    files = parts(place / "data", f"{split}-*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task(
        "refspatial", files, COLUMNS, make, protocol=scoring, split=split, forms=POINTS
    )


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    return row_question(
        row,
        where,
        place=place,
        id=fill_pattern("{id}", row, where),
        text=text(row, "prompt", where).strip(),
        categories={"step": str(int(number(row, "step", where)))},
    )


PROTOCOLS = {
    "refspatial/official": share_protocol(
        "refspatial/official", any_level, "summarize_acc.py: every pixel that is not black counts"
    ),
    "refspatial/white": share_protocol(
        "refspatial/white", white, "lmms-eval: only pixels above half of white count"
    ),
}
