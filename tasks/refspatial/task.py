"""RefSpatial-Bench: 277 questions for a point, each with the mask of its true region.

A row of the hub's tables `data/{location,placement,unseen}-*.parquet`:

    {"id": 0, "image": …, "mask": …, "object": "the mug", "prompt": "Please point out …",
     "suffix": "Your answer should be formatted as …", "step": 2}
"""

from pathlib import Path
from typing import Literal

from harness.task import Task
from harness.tasks.pointing.task import (
    LMMS_FORMS,
    any_level,
    region_task,
    share_protocols,
    tuple_forms,
    white,
)
from harness.tasks.qa.questions import Fields

FIELDS = Fields(
    id="{id}",
    images=("image",),
    question="prompt",
    answer="",
    categories={"step": "step"},
    others={"mask": "any"},
)
PROTOCOLS = share_protocols(
    "refspatial",
    official=(any_level, tuple_forms(), "summarize_acc.py: every pixel that is not black counts"),
    white=(white, LMMS_FORMS, "lmms-eval: only pixels above half of white count"),
)


def refspatial(
    data: Path,
    *,
    split: Literal["location", "placement", "unseen"] = "location",
    protocol: str = "refspatial/official",
) -> Task:
    """One sample per question, without the official request for a format of coordinates.

    Args:
        split: An object (`location`), free space (`placement`), or relations that RefSpatial's
            training set does not have (`unseen`).
        protocol: `refspatial/official` or `refspatial/white`.
    """
    files = f"data/{split}-*.parquet"
    return region_task("refspatial", data, files, FIELDS, PROTOCOLS, split, protocol)
