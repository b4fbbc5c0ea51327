"""BLINK: fourteen tasks of perception, each in a folder of its own.

A row: `{"idx": "val_Counting_1", "sub_task": "Counting", "question": "…", "choices": ["0", "1"],
"answer": "(B)", "image_1": …, "image_2": null, "image_3": null, "image_4": null, "prompt": "…"}`
"""

from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import leading_choice
from harness.task import Task
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{idx}",
    images=("image_1", "image_2", "image_3", "image_4"),
    options="choices",
    form="marked",
    categories={"sub_task": "sub_task"},
)
PROTOCOLS = letter_protocols(
    "blink", leading_choice, official="lmms-eval: the response's first letter, of whatever word"
)


def blink(data: Path, *, split: Literal["val"] = "val", protocol: str = "blink/official") -> Task:
    """One sample a question; `protocol` is `blink/official` or `blink/strict`."""
    place, files = data / "blink", f"*/{split}-*.parquet"
    return table_task("blink", place, files, FIELDS, PROTOCOLS, split, protocol)
