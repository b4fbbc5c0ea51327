"""PointBench, the static test of PointArena: point to one object, or to each instance of a class.

An entry of `data.json`, whose files are `images/<category>/<image_filename>` and
`masks/<mask_filename>` (the region that points must lie in):

    {"image_filename": "a.jpg", "user_input": "Point to every cup", "category": "counting",
     "count": 3, "mask_filename": "a_mask.png"}
"""

import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import path_inside
from harness.metrics.point_readers import attribute_points, json_points
from harness.metrics.points import values_at
from harness.scores import Mean, Scores
from harness.task import Task, single_answer
from harness.tasks.pointing.task import (
    WHITE,
    Forms,
    points_protocol,
    read_levels,
    region_of,
    region_task,
    with_region,
)
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.tables import text
from harness.types import Prediction, Sample

FIELDS = Fields(
    id="{_index}",
    images=("image_filename",),
    question="user_input",
    answer="",
    categories={"category": "category"},
    others={"mask_filename": "text"},
)
COUNTING = "counting"
FORMS = Forms(others=(attribute_points, json_points))
"""Spellings of points that are read. The official scripts ask each model for its own spelling."""


def pointbench(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "pointbench/official"
) -> Task:
    """One sample per question; `protocol` is `pointbench/official`."""
    return region_task(
        "pointbench", data, "data.json", FIELDS, PROTOCOLS, split, protocol, read=_question
    )


def _question(row: Mapping[str, object], where: str, root: Path) -> Question:
    """Return the question of an entry, with its region and, for `counting`, the true number."""
    category, count = text(row, "category", where), row.get("count", 1)
    if type(count) is not int or count < 1:
        raise DataError(f"{where}: 'count'", expected="a number from 1", found=repr(count)[:40])
    counted = count if category == COUNTING else None
    image = _find(root / "images", f"{category}/{text(row, 'image_filename', where)}")
    mask = _find(root / "masks", text(row, "mask_filename", where))
    image_field = {"image_filename": image.relative_to(root).as_posix()}
    question = FIELDS.read_record({**row, **image_field}, where, root)
    question = replace(question, extra={"count": counted})
    levels = read_levels(mask, str(mask), any_channel=True)
    return with_region(question, levels, where, count=counted or 1)


def _find(folder: Path, name: str) -> Path:
    """Return the path of a file whose name may have another Unicode form than in data.json.

    Archives may spell accents in decomposed form (NFD).
    """
    path = path_inside(folder, name)
    forms = (path.with_name(unicodedata.normalize(form, path.name)) for form in ("NFC", "NFD"))
    with suppress(OSError):  # the name is too long: opening the file reports it
        return next((candidate for candidate in (path, *forms) if candidate.is_file()), path)
    return path


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the accuracy as `evaluate_model`.

    An answer is right if its first point is in the region; for `counting`, if all points are in
    the region and their number is the true one.
    """
    sample, target, prediction = single_answer(unit, predictions)
    points, count = FORMS.points_of(sample, prediction) or (), target.extra["count"]
    if count is None:
        points = points[:1]
    hits = values_at(points, region_of(sample) > WHITE)
    right = len(hits) > 0 and bool(hits.all()) and count in (None, len(points))
    return {"accuracy": Mean(float(right))}


PROTOCOLS = points_protocol(
    "pointbench/official",
    score_official,
    "model_evaluator.py: one point, or as many as there are instances, all in the mask",
    means="share of questions whose points are right",
    reads=FORMS.reads,
)
