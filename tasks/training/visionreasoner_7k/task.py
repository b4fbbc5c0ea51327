r"""VisionReasoner's multi-object 7K (Liu et al., 2025): a box and a point for every target object.

A Parquet file has one row per question; `solution` is a JSON list with one entry per object:

    {"id": "refcocog_161801_162109", "problem": "'man in red' and 'the dog'", "image": {"bytes": …},
     "solution": "[{\"bbox_2d\": [10, 100, 200, 210], \"point_2d\": [30, 110]}, …]",
     "img_height": 427, "img_width": 640}
"""

from pathlib import Path
from typing import Literal

from harness.errors import DataError, ParseError, raised_as
from harness.responses import loads_strict
from harness.task import Task, choose
from harness.tasks.training.scoring import OBJECTS as PROTOCOLS
from harness.tasks.training.tables840 import Solution, box, point, table_task
from harness.types import Answer

FIX = "`harness list tasks visionreasoner_7k` prints the source of the data."
REPOSITORY = "VisionReasoner_multi_object_7k_840"  # its name on the Hugging Face Hub


def visionreasoner_7k(
    data: Path, *, split: Literal["train"] = "train", protocol: str = "train/objects"
) -> Task:
    """One sample per row; boxes and points are pixels of the 840 × 840 image.

    Args:
        protocol: `train/objects`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = data / "visionreasoner_7k" / REPOSITORY
    return table_task("visionreasoner_7k", root, solution, split=split, protocol=scoring, fix=FIX)


def solution(text: str, where: str) -> Solution:
    """Parse `[{"bbox_2d": [x1, y1, x2, y2], "point_2d": [x, y]}, …]`; `[]` means no target.

    `plain["objects"]` of the result has the same list.

    Raises:
        DataError: the text is not such a list.
    """
    with raised_as(DataError, where, "a JSON list of objects", ParseError):
        plain = loads_strict(text)
    if not isinstance(plain, list) or not all(isinstance(entry, dict) for entry in plain):
        raise DataError(where, expected="a JSON list of objects", found=text[:60])
    boxes = [
        box(entry.get("bbox_2d"), f"{where}, object {k}: 'bbox_2d'")
        for k, entry in enumerate(plain)
    ]
    points = [
        point(entry.get("point_2d"), f"{where}, object {k}: 'point_2d'")
        for k, entry in enumerate(plain)
    ]
    objects = [
        {"bbox_2d": box_numbers, "point_2d": point_numbers}
        for (_, box_numbers), (_, point_numbers) in zip(boxes, points, strict=True)
    ]
    return Solution(
        Answer(
            boxes=tuple(object_box for object_box, _ in boxes),
            points=tuple(object_point for object_point, _ in points),
            no_target=not plain,
        ),
        {"objects": objects},
    )
