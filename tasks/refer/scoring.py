"""Protocols of RefCOCO's family, for masks (`res/…`) and boxes (`rec/…`).

`…/expression` scores every expression; `…/instance` is VisionReasoner's evaluation with one
expression per object.
"""

from collections.abc import Sequence
from dataclasses import replace

from harness.metrics.boxes import any_box_hits, box_iou
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.segmentation.protocols import PROTOCOLS as REASON_SEG
from harness.types import Box, Prediction, Sample

THRESHOLDS = (0.5, 0.7, 0.9)  # of the IoU of boxes


def true_box(sample: Sample) -> Box:
    """Return the only true box of a sample."""
    assert sample.target is not None and sample.target.answer.boxes
    return sample.target.answer.boxes[0]


def predicted_box(prediction: Prediction) -> Box | None:
    """Return the box with the highest score, the first at ties; None without boxes."""
    answer = prediction.answer
    if answer is None or not answer.boxes:
        return None
    scores = answer.box_scores or (1.0,) * len(answer.boxes)
    return answer.boxes[scores.index(max(scores))]


def score_box(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return Acc@0.5, 0.7 and 0.9 of referring comprehension, and the IoU, of the best box."""
    (sample,), (prediction,) = unit, predictions
    predicted = predicted_box(prediction)
    iou = 0.0 if predicted is None else float(box_iou([true_box(sample)], [predicted])[0, 0])
    return {"IoU": Mean(iou), **{f"Acc@{t}": Mean(float(iou > t)) for t in THRESHOLDS}}


def score_any_box(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return VisionReasoner's `bbox_AP`, in fact an accuracy: 1 if any box has an IoU above 0.5."""
    (sample,), (prediction,) = unit, predictions
    boxes = prediction.answer.boxes if prediction.answer else None
    return {"bbox_AP": Mean(float(any_box_hits(true_box(sample), boxes or ())))}


def score_instance(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return VisionReasoner's scores of a mask, and `bbox_AP` of the boxes.

    As in its code, `bbox_AP` leaves out predictions that have a mask but no boxes.
    """
    scores = dict(REASON_SEG["seg/visionreasoner"].score(unit, predictions))
    answer = predictions[0].answer
    if answer is None or answer.boxes is not None or answer.no_target:
        scores |= score_any_box(unit, predictions)
    return scores


EXPRESSION = replace(
    REASON_SEG["seg/lisa"],
    name="res/expression",
    headline="cIoU",
    ceiling=Ceiling(value=1.0, tolerance=1e-9, why="LISA adds 1e-10 to the sum of the unions"),
    about="every expression; a pixel in two polygons of an object is not foreground, as in LISA",
)
BBOX_AP = Metric("bbox_AP", about="share of samples with a box of IoU > 0.5; an accuracy")

PROTOCOLS = {
    "res/expression": EXPRESSION,
    "res/expression-strict": replace(
        EXPRESSION,
        name="res/expression-strict",
        about="every expression; the ground truth is the union of an object's polygons",
    ),
    "res/instance": replace(
        REASON_SEG["seg/visionreasoner"],
        name="res/instance",
        score=score_instance,
        metrics=(*REASON_SEG["seg/visionreasoner"].metrics, BBOX_AP),
        about="VisionReasoner's sets: one expression an object, the union of its polygons",
    ),
    "rec/expression": Protocol(
        name="rec/expression",
        score=score_box,
        headline="Acc@0.5",
        ceiling=Ceiling(value=1.0),
        metrics=(
            *(
                Metric(f"Acc@{t}", about=f"share of samples with a box of IoU > {t}")
                for t in THRESHOLDS
            ),
            Metric("IoU", about="mean IoU of the boxes"),
        ),
        about="every expression is asked for one box, the most confident counts",
    ),
    "rec/instance": Protocol(
        name="rec/instance",
        score=score_any_box,
        headline="bbox_AP",
        ceiling=Ceiling(value=1.0),
        metrics=(BBOX_AP,),
        about="VisionReasoner's sets: any box counts",
    ),
}
BOXED = {
    "res/expression": "rec/expression",
    "res/expression-strict": "rec/expression",
    "res/instance": "rec/instance",
}
"""The protocol for boxes that replaces each protocol for masks if the task has `answer=box`."""
