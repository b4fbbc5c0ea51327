"""Protocols for the training sets, whose scores are for training curves and never for boards.

`train/objects` is for sets whose ground truth is a list of boxes, `train/answers` for questions
with an option, a number, a text or a box. Both are our own; no benchmark is scored by them.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.metrics.boxes import box_iou, box_iou_inclusive
from harness.metrics.boxes3d import box_iou_3d
from harness.metrics.numeric import relative_accuracy
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, single_answer
from harness.types import Answer, Box, Prediction, Sample

MIN_IOU = 0.5
"""An object is found at an IoU above this."""


def found_objects(
    ground_truth: Sequence[Box], predicted: Sequence[Box], *, inclusive: bool = False
) -> tuple[float, float]:
    """Return (share of objects found, mean IoU) of the best one-to-one assignment.

    Both are sums over assigned pairs, divided by the larger number of boxes. They are 1 if there
    are neither true nor predicted boxes.

    Args:
        ground_truth: True boxes.
        predicted: Predicted boxes.
        inclusive: True if right and bottom are a box's last pixels, as in the 840 × 840 tables.

    >>> found_objects([Box(0, 0, 10, 10)], [Box(0, 0, 10, 10), Box(50, 50, 60, 60)])
    (0.5, 0.5)
    """
    count = max(len(ground_truth), len(predicted))
    if not count:
        return 1.0, 1.0
    if not ground_truth or not predicted:
        return 0.0, 0.0
    ious = (box_iou_inclusive if inclusive else box_iou)(ground_truth, predicted)
    rows, columns = linear_sum_assignment(-ious)
    pairs = ious[rows, columns]
    return float((pairs > MIN_IOU).sum() / count), float(pairs.sum() / count)


def score_objects(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the share of objects found and the mean IoU; a failure scores 0 and 0."""
    _, target, prediction = single_answer(unit, predictions)
    if prediction.answer is None:
        return {"found@0.5": Mean(0.0), "mIoU": Mean(0.0)}
    found_share, iou = found_objects(
        target.answer.boxes or (), prediction.answer.boxes or (), inclusive=True
    )
    return {"found@0.5": Mean(found_share), "mIoU": Mean(iou)}


def value(ground_truth: Answer, predicted: Answer | None) -> tuple[str, float]:
    """Return (name of the metric for the question's form of answer, score from 0 to 1).

    A letter or a text is right or wrong, a text without regard to case and blanks; a number scores
    `max(0, 1 - |p - y| / |y|)`; boxes score their mean IoU.
    """
    if ground_truth.choice is not None:
        letter = (predicted.choice if predicted else None) or ""
        return "choice", float(letter.strip().upper() == ground_truth.choice)
    if ground_truth.number is not None:
        return "number", relative_accuracy(_number(predicted), ground_truth.number)
    if ground_truth.boxes_3d is not None:
        boxes = (predicted.boxes_3d if predicted else None) or ()
        if not boxes or len(boxes) != len(ground_truth.boxes_3d):
            return "box_3d", 0.0
        return "box_3d", float(np.diag(box_iou_3d(ground_truth.boxes_3d, boxes)).mean())
    if ground_truth.boxes is not None:
        boxes_2d = (predicted.boxes if predicted else None) or ()
        return "box", found_objects(ground_truth.boxes, boxes_2d)[1]
    text = (predicted.text if predicted else None) or ""
    return "text", float(_normalize(text) == _normalize(ground_truth.text or ""))


def _number(predicted: Answer | None) -> float | None:
    """Return an answer's number, or else its count; None if it has neither or it is not finite."""
    if predicted is None:
        return None
    number = predicted.number if predicted.number is not None else predicted.count
    return number if number is not None and math.isfinite(number) else None


def _normalize(text: str) -> str:
    """Return the text in lower case, with one blank between words."""
    return " ".join(text.lower().split())


def score_answers(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the answer's `value`, as `score` and under the metric of its form."""
    _, target, prediction = single_answer(unit, predictions)
    answer_form, right = value(target.answer, prediction.answer)
    return {"score": Mean(right), answer_form: Mean(right)}


OBJECTS = {
    "train/objects": Protocol(
        name="train/objects",
        score=score_objects,
        metrics=(
            Metric(
                "found@0.5",
                about="objects with IoU > 0.5 after a one-to-one assignment, over "
                "the larger number of boxes",
            ),
            Metric("mIoU", about="sum of assigned IoU over the larger number of boxes"),
        ),
        headline="found@0.5",
        ceiling=Ceiling(value=1.0),
        about="ours, for training curves: boxes against boxes",
    )
}
ANSWERS = {
    "train/answers": Protocol(
        name="train/answers",
        score=score_answers,
        metrics=(
            Metric("score", about="how right answers are, of any kind"),
            Metric("choice", about="share of questions with the right letter"),
            Metric("number", about="max(0, 1 - |p - y| / |y|)"),
            Metric("text", about="share of texts that are equal but for case and blanks"),
            Metric("box", about="IoU of the box"),
            Metric("box_3d", about="IoU of the axis-aligned box in space"),
        ),
        headline="score",
        ceiling=Ceiling(value=1.0),
        about="ours, for training curves: each kind of answer by its own measure",
    )
}
