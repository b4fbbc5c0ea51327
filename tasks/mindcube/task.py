"""MindCube: questions on a space of which a few views are shown, with options in their text.

A row: `{"id": "among_group001_q0_1", "images": […], "question": "… A. left B. right",
"gt_answer": "A"}`

The tables of lmms-eval, whose images are in them, or the authors' own lines of JSON, whose images
are files below `data`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from harness.foreign import listed
from harness.metrics.letter_readers import mindcube_choice
from harness.task import Task
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{id}",
    images=("images",),
    answer="gt_answer",
    letters="ABCDE",
    kinds={"setting": ("id", ("among", "rotation", "around"))},
)
LINES = {"tiny": "raw/MindCube_tinybench.jsonl", "full": "raw/MindCube.jsonl"}
"""The authors' files, below `data`."""
PROTOCOLS = letter_protocols(
    "mindcube",
    official=Reading(
        any_letters(mindcube_choice), "its extract_answer: the last letter of the first form"
    ),
)


def mindcube(
    data: Path, *, split: Literal["tiny", "full"] = "tiny", protocol: str = "mindcube/official"
) -> Task:
    """One sample a question; `protocol` is `mindcube/official` or `mindcube/strict`."""
    read: Callable[..., Question | None] = FIELDS.read_record
    place, files = data / "mindcube" / split, "combined-*.parquet"
    if not listed(place, files) and (data / "mindcube" / "data" / LINES[split]).is_file():
        place, files, read = data / "mindcube" / "data", LINES[split], _authors_question
    return table_task(
        "mindcube", place, files, FIELDS, PROTOCOLS, split, protocol, read=read, version=2
    )


def _authors_question(row: Mapping[str, object], where: str, place: Path) -> Question | None:
    """A line's question; None of a translation, which the authors' score leaves out."""
    if text(row, "id", where).startswith("translation"):
        return None
    return FIELDS.read_record(row, where, place)
