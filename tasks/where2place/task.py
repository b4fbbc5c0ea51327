"""Where2Place: 100 questions for points in free space, each with the mask of its region.

A row of FlagEval's table `data/test-*.parquet`:

    {"question_id": "0", "question": "Point out …", "question_type": "…", "image": …, "mask": …}

The masks are JPEG files, grey along borders; the official script weights points by the grey level.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task
from harness.tasks.pointing.task import LMMS_FORMS, region_task, share_protocols, tuple_forms, white
from harness.tasks.qa.questions import Fields

FIELDS = Fields(
    id="{question_id}",
    images=("image",),
    answer="",
    nullable={"question_type": "question_type"},
    others={"mask": "any"},
)
PROTOCOLS = share_protocols(
    "where2place",
    official=(
        lambda levels: levels / 255.0,
        tuple_forms(rectangles="cut"),
        "summarize_vqa.py: a point counts by the grey of its pixel, as masks are JPEG files",
    ),
    white=(white, LMMS_FORMS, "lmms-eval: a point counts on pixels above half of white"),
)


def where2place(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "where2place/official"
) -> Task:
    """One sample per question; `protocol` is `where2place/official` or `where2place/white`."""
    files = f"data/{split}-*.parquet"
    return region_task("where2place", data, files, FIELDS, PROTOCOLS, split, protocol)
