"""Seg-Zero's RefCOCOg 9K (Liu et al., 2025): a box and two points for the one target object.

A Parquet file has one row per expression. The points are the centres of the two largest circles
inside the object:

    {"id": "…", "problem": "man in red", "image": {"bytes": …},
     "solution": "<box>(10,100),(200,210)</box><points>(30,110),(35,180)</points>"}
"""

import re
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.task import Task, choose
from harness.tasks.training.scoring import OBJECTS as PROTOCOLS
from harness.tasks.training.tables840 import Solution, box, point, table_task
from harness.types import Answer

FIX = "`harness list tasks refcocog_9k` prints the source of the data."
REPOSITORY = "refCOCOg_9k_840"  # its name on the Hugging Face Hub
_PAIR = r"\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)"  # (10, 100)
SOLUTION_PATTERN = re.compile(
    rf"\s*<box>\s*{_PAIR}\s*,\s*{_PAIR}\s*</box>\s*<points>\s*{_PAIR}\s*,\s*{_PAIR}\s*</points>\s*",
    re.ASCII,
)


def refcocog_9k(
    data: Path, *, split: Literal["train"] = "train", protocol: str = "train/objects"
) -> Task:
    """One sample per row; the box and the points are pixels of the 840 × 840 image.

    Args:
        protocol: `train/objects`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = data / "refcocog_9k" / REPOSITORY
    return table_task("refcocog_9k", root, solution, split=split, protocol=scoring, fix=FIX)


def solution(text: str, where: str) -> Solution:
    """Parse `<box>(x1,y1),(x2,y2)</box><points>(x,y),(x,y)</points>`.

    `plain` of the result has the same numbers as `bbox`, `points_1` and `points_2`, the keys of
    Seg-Zero's responses.

    Raises:
        DataError: the text has another form, or a number is outside the image.
    """
    match = SOLUTION_PATTERN.fullmatch(text)
    if match is None:
        raise DataError(
            where,
            expected="<box>(x1,y1),(x2,y2)</box><points>(x,y),(x,y)</points>",
            found=text[:60],
        )
    numbers = [int(number) for number in match.groups()]
    object_box, sides = box(numbers[:4], f"{where}: <box>")
    first, first_numbers = point(numbers[4:6], f"{where}: <points>, the first")
    second, second_numbers = point(numbers[6:8], f"{where}: <points>, the second")
    return Solution(
        Answer(boxes=(object_box,), points=(first, second)),
        {"bbox": sides, "points_1": first_numbers, "points_2": second_numbers},
    )
