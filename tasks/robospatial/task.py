"""RoboSpatial-Home: 350 questions about rooms, answered by a point in free space or by yes or no.

An entry of `annotations.json`, as the official `download_benchmark.py` writes it:

    {"category": "context", "question": "…", "answer": "[(0.31, 0.52), (0.40, 0.52), …]",
     "img": "images/img_context_0.png", "depth_image": "…", "mask": "…"}

The answer is a polygon that the point must lie in, with coordinates (x, y) as shares of the image's
width and height, or `yes` or `no`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.metrics.point_readers import share_pair, share_tuple
from harness.metrics.points import in_polygon
from harness.scores import Mean, Scores
from harness.task import Task, ground_truth, single_answer
from harness.tasks.pointing.task import POINTS, Forms, points_protocol
from harness.tasks.qa.answer_text import answer_text, with_whole_responses
from harness.tasks.qa.images import open_images
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import table_task
from harness.types import Answer, AnswerForm, Point, Prediction, Sample

CATEGORIES = ("configuration", "compatibility", "context")
FORMS = Forms((share_tuple,), (share_pair,))
FIELDS = Fields(
    id="{_index}",
    images=("img",),
    form="text",
    categories={"category": "category"},
    allowed_values={"category": CATEGORIES},
)


def robospatial(
    data: Path,
    *,
    split: Literal["all", "configuration", "compatibility", "context"] = "all",
    protocol: str = "robospatial/official",
) -> Task:
    """One sample per question, of one category or of all; `protocol` is `robospatial/official`,
    or the same of whole responses.
    """

    def read(row: Mapping[str, object], where: str, root: Path) -> Question | None:
        question = _question(row, where, root)
        return question if split in ("all", question.categories["category"]) else None

    root, files, forms = data / "robospatial", "annotations.json", (*POINTS, AnswerForm.TEXT)
    return table_task(
        "robospatial",
        root,
        files,
        FIELDS,
        PROTOCOLS,
        split,
        protocol,
        read=read,
        forms=forms,
        version=2,
    )


def _question(row: Mapping[str, object], where: str, root: Path) -> Question:
    """Return the question of an entry; if it has a polygon, its true answer is a point inside."""
    answer = text(row, "answer", where).strip().lower()
    question = FIELDS.read_record({**row, "answer": answer}, where, root)
    if answer in ("yes", "no"):
        return question
    polygon = _polygon(answer, f"{where}: 'answer'")
    width, height = open_images(question)[0].size
    x, y = inner_point(polygon, f"{where}: 'answer'")
    point = Point(x * width, y * height)
    return replace(question, answer=Answer(points=(point,)), extra={"polygon": polygon})


def _polygon(value: str, where: str) -> list[tuple[float, float]]:
    """Parse the corners (x, y), as shares of the sides, of a text such as `[(0.3, 0.5), …]`."""
    try:
        plain = json.loads(value.replace("(", "[").replace(")", "]"))
        corners = [(float(x), float(y)) for x, y in plain]
    except (TypeError, ValueError, RecursionError):
        corners = []
    if len(corners) < 3:
        raise DataError(where, expected="yes, no, or three corners or more", found=repr(value)[:60])
    return corners


def inner_point(polygon: Sequence[tuple[float, float]], where: str) -> Point:
    """Return a point well inside the polygon, in the polygon's coordinates.

    Between each two neighbouring y of corners, the horizontal line halfway is cut by the polygon
    into segments. The point is the middle of the inner segment with the most room: the smaller of
    its length and the distance between the two y.

    Raises:
        DataError: nothing lies inside.
    """
    corner_ys = sorted({y for _, y in polygon})
    edges = list(zip(polygon, [*polygon[1:], polygon[0]], strict=True))
    best: tuple[float, Point] | None = None
    for low, high in pairwise(corner_ys):
        y = (low + high) / 2
        crossings = sorted(
            x1 + (x2 - x1) * (y - y1) / (y2 - y1)
            for (x1, y1), (x2, y2) in edges
            if (y1 > y) != (y2 > y)
        )
        # A line enters the polygon at every other crossing, and leaves it at the next.
        for left, right in zip(crossings[::2], crossings[1::2], strict=True):
            point, room = Point((left + right) / 2, y), min(right - left, high - low)
            if in_polygon(point, polygon) and (best is None or room > best[0]):
                best = (room, point)
    if best is None:
        raise DataError(where, expected="a polygon with something in it", found="none")
    return best[1]


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the accuracy as `evaluate_answer`, under `accuracy` and the question's category.

    The first point must lie in the polygon, or the response must begin with the true yes or no.
    """
    sample, target, prediction = single_answer(unit, predictions)
    if (polygon := target.extra.get("polygon")) is not None:
        points = FORMS.points_of(sample, prediction, (1, 1)) or ()  # as shares, like the polygon
        right = any(in_polygon(point, polygon) for point in points[:1])
    else:
        response = (answer_text(prediction) or "").strip().lower()
        right = response.startswith(str(target.answer.text))
    return {"accuracy": Mean(float(right)), sample.categories["category"]: Mean(float(right))}


def reads(sample: Sample, prediction: Prediction) -> object:
    """Return the predicted points; for a yes or no question, True if the response is not empty."""
    if ground_truth(sample).extra.get("polygon") is not None:
        return FORMS.reads(sample, prediction)
    return bool((answer_text(prediction) or "").strip())


OFFICIAL = points_protocol(
    "robospatial/official",
    score_official,
    "RoboSpatial-Eval: the first point lies in the polygon; yes and no at the beginning",
    means="share of questions answered rightly",
    reads=reads,
    categories=CATEGORIES,
)
PROTOCOLS = with_whole_responses(OFFICIAL["robospatial/official"])
