"""EmbSpatial-Bench: questions with options about spatial relations in embodied scenes.

A row of FlagEval's table: `{"question_id": "…", "question": "…", "image": …, "answer_options": […],
"answer": 2, "relation": "close", "data_source": "scannet"}`
"""

from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import leading_choice
from harness.task import Task
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{question_id}",
    images=("image",),
    options="answer_options",
    form="place",
    categories={"relation": "relation", "data_source": "data_source"},
)
PROTOCOLS = letter_protocols(
    "embspatial",
    lmms=Reading(
        any_letters(leading_choice), "lmms-eval: the response's first letter, even of another word"
    ),
    whole=("lmms",),
)


def embspatial(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "embspatial/lmms"
) -> Task:
    """One sample per question; `protocol` is `embspatial/lmms` or `embspatial/strict`."""
    root, files = data / "embspatial", "data/test-*.parquet"
    return table_task("embspatial", root, files, FIELDS, PROTOCOLS, split, protocol, version=2)
