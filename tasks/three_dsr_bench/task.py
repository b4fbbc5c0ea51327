"""3DSRBench: questions on height, location, orientation and multi-object relations in an image.

Every question counts by itself; FlipEval and CircularEval, which need its variants, are left out.

A row of `3dsr/test-*.parquet`: `{"index": "VIN6MS3J", "image": …, "question": "…", "A": "yes",
"B": "no", "C": null, "D": null, "answer": "A", "category": "height_higher"}`
"""

from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import three_dsr_choice
from harness.task import Task
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

KINDS = ("height", "location", "orientation", "multi_object")
FIELDS = Fields(
    id="{index}",
    images=("image",),
    options=("A", "B", "C", "D"),
    categories={"category": "category"},
    kinds={"kind": ("category", KINDS)},
)
PROTOCOLS = letter_protocols(
    "3dsr",
    lmms=Reading(
        any_letters(three_dsr_choice), "lmms-eval: the first letter A to D of the first form"
    ),
)


def three_dsr_bench(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "3dsr/lmms"
) -> Task:
    """One sample per question; `protocol` is `3dsr/lmms` or `3dsr/strict`."""
    root, files = data / "three_dsr_bench", "3dsr/test-*.parquet"
    return table_task("three_dsr_bench", root, files, FIELDS, PROTOCOLS, split, protocol, version=2)
