"""Where2Place: 100 questions for points in free space, each with the mask of its region.

A row of FlagEval's table `data/test-*.parquet`:

    {"question_id": "0", "question": "Point out …", "question_type": "…", "image": …, "mask": …}

The masks are JPEG files: along borders they are grey, and the official script weighs points by it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from harness.task import Task
from harness.tasks.pointing.task import MASK, POINTS, row_question, share_protocols, white
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{question_id}",
    images=("image",),
    answer="",
)
PROTOCOLS = share_protocols(
    "where2place",
    official=(
        lambda levels: levels / 255.0,
        "summarize_vqa.py: a point counts by the grey of its pixel, as masks are JPEG files",
    ),
    white=(white, "lmms-eval: a point counts on pixels above half of white"),
)


def where2place(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "where2place/official"
) -> Task:
    """One sample a question.

    Args:
        data: The folder that holds one folder a benchmark.
        split: There is one.
        protocol: `where2place/official` or `where2place/white`.
    """
    return table_task(
        "where2place",
        data / "where2place",
        "data/test-*.parquet",
        FIELDS.columns | MASK | {"question_type": "category, or null"},
        PROTOCOLS,
        split,
        protocol,
        read=_question,
        forms=POINTS,
    )


def _question(row: Mapping[str, object], where: str, place: Path) -> Question:
    question = row_question(row, where, place, fields=FIELDS)
    return replace(question, categories={"question_type": str(row["question_type"] or "")})
