"""The protocol of shapes_referring: masks by their IoU, boxes by one-to-one matches."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage
from scipy.optimize import linear_sum_assignment

from harness.masks import Rle
from harness.metrics.boxes import box_iou
from harness.metrics.overlap import LISA_CIOU_EPSILON, lisa_iou, overlap
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol
from harness.types import Answer, Box, Prediction, Sample

MIN_IOU = 0.5
"""Smallest IoU of a true and a predicted box that match."""


def piece_boxes(mask: Rle) -> tuple[Box, ...]:
    """Return the bounding boxes of a mask's 8-connected components, in reading order.

    >>> piece_boxes(Rle.from_array(np.array([[1, 0, 0], [1, 0, 1]])))
    (Box(left=0.0, top=0.0, right=1.0, bottom=2.0), Box(left=2.0, top=1.0, right=3.0, bottom=2.0))
    """
    pieces, _ = ndimage.label(mask.to_array(), structure=np.ones((3, 3), dtype=np.int64))
    return tuple(
        Box(float(columns.start), float(rows.start), float(columns.stop), float(rows.stop))
        for rows, columns in ndimage.find_objects(pieces)
    )


def boxes_of(answer: Answer | None) -> tuple[Box, ...]:
    """Return the boxes of an answer, or else the boxes of its mask's pieces."""
    if answer is None or answer.no_target:
        return ()
    if answer.boxes is not None:
        return answer.boxes
    return piece_boxes(answer.masks[0]) if answer.masks else ()


def count_found(ground_truth: Sequence[Box], predicted: Sequence[Box]) -> int:
    """Return the largest number of true boxes that can be matched one to one to predicted ones.

    >>> here, there = Box(0, 0, 10, 10), Box(20, 0, 30, 10)
    >>> count_found([here, there], [here, here, Box(20, 0, 30, 5)])
    2
    >>> count_found([here, here], [here])
    1
    """
    hits = box_iou(ground_truth, predicted) >= MIN_IOU
    return int(hits[linear_sum_assignment(hits, maximize=True)].sum())


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return LISA's mask IoU and the F1 of boxes; if one thing is asked for, also box accuracy.

    A failure counts as an empty mask without boxes; so does "no target", even if the answer also
    has masks or boxes.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None
    ground_truth = sample.target.answer
    assert ground_truth.masks is not None and ground_truth.boxes is not None
    answer = prediction.answer
    mask = Rle.empty(ground_truth.masks[0].height, ground_truth.masks[0].width)
    if answer is not None and answer.masks and not answer.no_target:
        mask = answer.masks[0]
    intersection, union = overlap(ground_truth.masks[0], mask)
    boxes = boxes_of(answer)
    hits = count_found(ground_truth.boxes, boxes)
    scores: dict[str, Mean | Ratio] = {
        "gIoU": Mean(lisa_iou(intersection, union)),
        "cIoU": Ratio(intersection, union),
        # Every record has a true box: the reader refuses others.
        "box_f1@0.5": Mean(2 * hits / (len(ground_truth.boxes) + len(boxes))),
    }
    if sample.categories["asks"] == "single":
        scores["box_accuracy@0.5"] = Mean(float(hits == len(boxes) == 1))
    return scores


PROTOCOLS = {
    "shapes/referring": Protocol(
        name="shapes/referring",
        score=score,
        metrics=(
            Metric("gIoU", epsilon=1e-5, about="mean over samples of mask IoU, as LISA has it"),
            Metric("cIoU", epsilon=LISA_CIOU_EPSILON, about="sum of intersections / sum of unions"),
            Metric(
                "box_accuracy@0.5",
                about="share of the samples that ask for one thing whose "
                "answer is exactly one box, with IoU ≥ 0.5",
            ),
            Metric(
                "box_f1@0.5",
                about="mean of 2 · found / (true + predicted) boxes, matched one "
                "to one at IoU ≥ 0.5",
            ),
        ),
        headline="gIoU",
        ceiling=Ceiling(
            value=1.0,
            tolerance=2.1e-5,  # 1e-5 for each of the two, and rounding
            why="LISA adds 1e-5 to each union and to the number of samples",
        ),
        about="our own: LISA's mask IoU, and boxes matched one to one",
    )
}
