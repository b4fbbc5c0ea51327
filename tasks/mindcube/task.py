"""MindCube: questions on a space of which a few views are shown, with options in their text.

A row: `{"id": "among_group001_q0_1", "images": […], "question": "… A. left B. right",
"gt_answer": "A"}`
"""

from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import mindcube_choice
from harness.task import Task
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{id}",
    images=("images",),
    answer="gt_answer",
    letters="ABCDE",
    kinds={"setting": ("id", ("among", "rotation", "around"))},
)
PROTOCOLS = letter_protocols(
    "mindcube", mindcube_choice, official="its extract_answer: the last letter of the first form"
)


def mindcube(
    data: Path, *, split: Literal["tiny", "full"] = "tiny", protocol: str = "mindcube/official"
) -> Task:
    """One sample a question; `protocol` is `mindcube/official` or `mindcube/strict`."""
    place, files = data / "mindcube" / split, "combined-*.parquet"
    return table_task("mindcube", place, files, FIELDS, PROTOCOLS, split, protocol)
