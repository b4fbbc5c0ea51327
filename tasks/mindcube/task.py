"""MindCube: questions on a space of which a few views are shown, with options in their text.

A row: `{"id": "among_group001_q0_1", "images": […], "question": "… A. left B. right",
"gt_answer": "A"}`
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import mindcube_choice
from harness.task import Task, choose
from harness.tasks.qa.images import image_task, images_of, lettered_question, parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Question
from harness.tasks.qa.tables import text

FIX = "`harness list tasks mindcube` says where the data is had."
COLUMNS = dict.fromkeys(("id", "images", "question", "gt_answer"), "field")
SETTINGS = {"among": "among", "rotation": "rotation", "around": "around", "aroundnew": "around"}


def mindcube(
    data: Path, *, split: Literal["tiny", "full"] = "tiny", protocol: str = "mindcube/official"
) -> Task:
    """One sample a question; `protocol` is `mindcube/official` or `mindcube/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "mindcube" / split
    files = parts(place, "combined-*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task("mindcube", files, COLUMNS, make, protocol=scoring, split=split)


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    id = text(row, "id", where)
    return lettered_question(
        {**row, "answer": row["gt_answer"]},
        where,
        id=id,
        media=images_of(row["images"], where, place),
        letters="ABCDE",
        categories={"setting": SETTINGS.get(id.partition("_")[0], "other")},
    )


PROTOCOLS = letter_protocols(
    "mindcube", mindcube_choice, official="its extract_answer: the last letter of the first form"
)
