r"""ViewSpatial-Bench: where things are and how they are turned, for the camera and for a person.

A row: `{"images": […], "question": "…", "choices": "A. left\\nB. right…", "answer": "A. left",
"question_type": "Camera perspective - Relative Direction"}`
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import view_spatial_choice
from harness.task import Task, choose
from harness.tasks.qa.images import image_task, images_of, lettered_question, parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.options import texts
from harness.tasks.qa.questions import Question
from harness.tasks.qa.tables import text

FIX = "`harness list tasks view_spatial` says where the data is had."
COLUMNS = dict.fromkeys(("images", "question", "choices", "answer", "question_type"), "field")


def view_spatial(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "viewspatial/official"
) -> Task:
    """One sample a question; `protocol` is `viewspatial/official` or `viewspatial/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "view_spatial"
    files = parts(place, "**/test-*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task("view_spatial", files, COLUMNS, make, protocol=scoring, split=split)


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    lines = [line for line in text(row, "choices", where).split("\n") if line.strip()]
    return lettered_question(
        {**row, "answer": view_spatial_choice(text(row, "answer", where))},
        where,
        id=f"{row['_file']}/{row['_index']}",
        media=images_of(row["images"], where, place),
        options=texts(lines, f"{where}: 'choices'"),
        categories={"question_type": text(row, "question_type", where)},
    )


PROTOCOLS = letter_protocols(
    "viewspatial", view_spatial_choice, official="the first A to D, alone, in the last line"
)
