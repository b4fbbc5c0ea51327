"""Scores of masks by their IoU, and of boxes by one-to-one hits."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from harness.masks import Rle
from harness.metrics.boxes import box_iou
from harness.metrics.matching import match
from harness.metrics.overlap import LISA_CIOU_EPSILON, lisa_iou, overlap
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol
from harness.types import Answer, Box, Prediction, Sample

HIT = 0.5
"""The IoU from which on a box is found."""


def piece_boxes(mask: Rle) -> tuple[Box, ...]:
    """Boxes around the pieces of a mask, which join by edges and corners; row by row.

    >>> piece_boxes(Rle.from_array(np.array([[1, 0, 0], [1, 0, 1]])))
    (Box(left=0.0, top=0.0, right=1.0, bottom=2.0), Box(left=2.0, top=1.0, right=3.0, bottom=2.0))
    """
    pieces, _ = ndimage.label(mask.to_array(), structure=np.ones((3, 3), dtype=np.int64))
    return tuple(
        Box(float(across.start), float(down.start), float(across.stop), float(down.stop))
        for down, across in ndimage.find_objects(pieces)
    )


def said_boxes(answer: Answer | None) -> tuple[Box, ...]:
    """The boxes of an answer; where it has none, those of its mask's pieces."""
    if answer is None or answer.no_target:
        return ()
    if answer.boxes is not None:
        return answer.boxes
    return piece_boxes(answer.masks[0]) if answer.masks else ()


def count_found(ground_truth: Sequence[Box], predicted: Sequence[Box]) -> int:
    """Return the number of true boxes that can be found at most, each by its own box with an IoU ≥
    0.5.

    >>> here, there = Box(0, 0, 10, 10), Box(20, 0, 30, 10)
    >>> count_found([here, there], [here, here, Box(20, 0, 30, 5)])
    2
    >>> count_found([here, here], [here])
    1
    """
    hits = (box_iou(predicted, ground_truth) >= HIT).astype(np.int64)
    return int(match(hits).bits.sum())


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """IoU of the mask as LISA has it; boxes found, over samples that ask for one and over all.

    A failed sample counts as an empty mask and no box.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None
    ground_truth = sample.target.answer
    assert ground_truth.masks is not None and ground_truth.boxes is not None
    answer = prediction.answer
    mask = answer.masks[0] if answer and answer.masks and not answer.no_target else None
    nothing = Rle.empty(ground_truth.masks[0].height, ground_truth.masks[0].width)
    intersection, union = overlap(ground_truth.masks[0], mask or nothing)
    boxes = said_boxes(answer)
    hits = count_found(ground_truth.boxes, boxes)
    scores: dict[str, Mean | Ratio] = {
        "gIoU": Mean(lisa_iou(intersection, union)),
        "cIoU": Ratio(intersection, union),
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
            tolerance=2.1e-5,
            why="LISA adds 1e-5 to each union and to the number of samples",
        ),
        about="our own: LISA's mask IoU, and boxes matched one to one",
    )
}
