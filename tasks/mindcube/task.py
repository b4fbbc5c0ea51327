"""MindCube: questions about a space that is shown in a few views; their text has the options.

A row: `{"id": "among_group001_q0_1", "images": […], "question": "… A. left B. right",
"gt_answer": "A"}`

The files are lmms-eval's tables, which contain the images, or the authors' JSON Lines, whose images
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
JSONL_FILES = {"tiny": "raw/MindCube_tinybench.jsonl", "full": "raw/MindCube.jsonl"}
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
    """One sample per question; `protocol` is `mindcube/official` or `mindcube/strict`."""
    read: Callable[..., Question | None] = FIELDS.read_record
    root, files = data / "mindcube" / split, "combined-*.parquet"
    if not listed(root, files) and (data / "mindcube" / "data" / JSONL_FILES[split]).is_file():
        root, files, read = data / "mindcube" / "data", JSONL_FILES[split], _authors_question
    return table_task(
        "mindcube", root, files, FIELDS, PROTOCOLS, split, protocol, read=read, version=2
    )


def _authors_question(row: Mapping[str, object], where: str, root: Path) -> Question | None:
    """Return the question of a line; None for a translation, which the authors do not score."""
    if text(row, "id", where).startswith("translation"):
        return None
    return FIELDS.read_record(row, where, root)
