"""BLINK: fourteen tasks of visual perception, as questions with options about one to four images.

A row: `{"idx": "val_Counting_1", "sub_task": "Counting", "question": "…", "choices": ["0", "1"],
"answer": "(B)", "image_1": …, "image_2": null, "image_3": null, "image_4": null, "prompt": "…"}`
"""

from pathlib import Path
from typing import Literal

from harness.metrics.author_readers import blink_choice, blink_prediction
from harness.metrics.letter_readers import leading_choice
from harness.task import Task
from harness.tasks.qa.letters import Reading, Subtasks, any_letters, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

TASKS = (
    "Visual_Similarity",
    "Counting",
    "Relative_Depth",
    "Jigsaw",
    "Art_Style",
    "Functional_Correspondence",
    "Semantic_Correspondence",
    "Spatial_Relation",
    "Object_Localization",
    "Visual_Correspondence",
    "Multi-view_Reasoning",
    "Relative_Reflectance",
    "Forensic_Detection",
    "IQ_Test",
)
"""BLINK's tasks, in the order in which evaluate.py sums their accuracies."""
FIELDS = Fields(
    id="{idx}",
    images=("image_1", "image_2", "image_3", "image_4"),
    options="choices",
    form="marked",
    categories={"sub_task": "sub_task"},
    allowed_values={"sub_task": TASKS},
)
PROTOCOLS = letter_protocols(
    "blink",
    official=Reading(
        any_letters(blink_prediction),
        "evaluate.py: the mean of the tasks; a response is `(A)` or `A`, and nothing else",
    ),
    rules=Reading(
        blink_choice,
        "the same, of the letter that the rules of test_benchmark.py find, without GPT-3.5",
    ),
    lmms=Reading(
        any_letters(leading_choice),
        "lmms-eval: the response's first letter, even of another word; the share of questions",
        headline="accuracy",
    ),
    subtasks=Subtasks("sub_task", TASKS),
    whole=("official", "lmms"),
)


def blink(data: Path, *, split: Literal["val"] = "val", protocol: str = "blink/official") -> Task:
    """One sample per question; `protocol` is one of `PROTOCOLS`."""
    root, files = data / "blink", f"*/{split}-*.parquet"
    return table_task("blink", root, files, FIELDS, PROTOCOLS, split, protocol, version=2)
