"""A small benchmark of questions about one or more photographs, with the letter of the right one
of the options.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{number}",
    images=("photos",),
    question="asked",
    options="choices",
    answer="right",
)
PROTOCOLS = letter_protocols("photo_quiz")


def photo_quiz(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "photo_quiz/strict"
) -> Task:
    """Return the task: one sample for each question; samples of one first photo are a group."""
    return table_task(
        "photo_quiz",
        data / "photo_quiz",
        f"{split}.jsonl",
        FIELDS,
        PROTOCOLS,
        split,
        protocol,
        fix="See https://photos.invalid.",
    )
