"""PointBench, the fixed part of PointArena: questions answered by one point, or one an instance.

An entry of `data.json`, with `images/<category>/<image_filename>` and `masks/<mask_filename>`:

    {"image_filename": "a.jpg", "mask_filename": "a.png", "category": "counting", "count": 3,
     "user_input": "Point to every cup"}
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import file, path_inside
from harness.metrics.points import values_at
from harness.scores import Mean, Scores
from harness.task import Task, choose
from harness.tasks.pointing.task import (
    WHITE,
    points_of,
    points_protocol,
    read_levels,
    region_of,
    region_question,
)
from harness.tasks.qa.images import image_task
from harness.tasks.qa.questions import Question
from harness.tasks.qa.tables import text
from harness.types import AnswerForm, Prediction, Sample

FIX = "`harness list tasks pointbench` says where the data is had."
POINTS = (AnswerForm.POINTS,)
COLUMNS = {
    "image_filename": "image",
    "mask_filename": "mask of the region",
    "category": "category",
    "user_input": "question",
}
COUNTING = "counting"


def pointbench(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "pointbench/official",
) -> Task:
    """One sample a question.

    Args:
        data: The folder that holds one folder a benchmark.
        split: There is one.
        protocol: `pointbench/official`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "pointbench"
    files = (file(place / "data.json", fix=FIX),)
    make = partial(_question, place)
    return image_task(
        "pointbench", files, COLUMNS, make, protocol=scoring, split=split, forms=POINTS
    )


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    category, count = text(row, "category", where), row.get("count", 1)
    if type(count) is not int or count < 1:
        raise DataError(f"{where}: 'count'", expected="a number from 1", found=repr(count)[:40])
    image = path_inside(place / "images", f"{category}/{text(row, 'image_filename', where)}")
    mask = path_inside(place / "masks", text(row, "mask_filename", where))
    return region_question(
        image,
        read_levels(mask, str(mask), any_channel=True),
        where,
        id=str(row["_index"]),
        text=text(row, "user_input", where).strip(),
        count=count if category == COUNTING else 1,
        categories={"category": category},
        extra={"count": count if category == COUNTING else None},
    )


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`evaluate_model`: the first point, or of a counting question all, in their true number."""
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None, "the ground truth is public"
    points, count = points_of(prediction), sample.target.extra["count"]
    if count is None:
        points = points[:1]
    hits = values_at(points, region_of(sample) > WHITE)
    right = len(hits) > 0 and bool(hits.all()) and count in (None, len(points))
    return {"accuracy": Mean(float(right))}


PROTOCOLS = {
    "pointbench/official": points_protocol(
        "pointbench/official",
        score_official,
        "model_evaluator.py: one point, or as many as there are instances, all in the mask",
        means="share of questions whose points are right",
    ),
}
