"""MMSI-Bench: spatial questions about two images or more, with options in the question's text.

A row: `{"id": 0, "images": […], "question_type": "…", "question": "… Options: A: …",
"answer": "B"}`
"""

from pathlib import Path
from typing import Literal

from harness.metrics.author_readers import mmsi_author_choice
from harness.metrics.letter_readers import mmsi_choice
from harness.task import Task
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{id}", images=("images",), letters="ABCD", categories={"question_type": "question_type"}
)
PROTOCOLS = letter_protocols(
    "mmsi",
    official=Reading(
        any_letters(mmsi_author_choice), "a capital between back quotes, else the first alone"
    ),
    lmms=Reading(any_letters(mmsi_choice), "the same in either case, and between braces"),
)


def mmsi_bench(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "mmsi/official"
) -> Task:
    """One sample per question; `protocol` is `mmsi/official`, `mmsi/lmms` or `mmsi/strict`."""
    root, files = data / "mmsi_bench", "**/*.parquet"
    return table_task("mmsi_bench", root, files, FIELDS, PROTOCOLS, split, protocol, version=2)
