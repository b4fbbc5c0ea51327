"""Protocols that score one mask per image as LISA, VisionReasoner and Seg-Zero do.

gIoU is the mean IoU over samples, cIoU the sum of intersections over the sum of unions. The three
protocols differ in how they treat ignored pixels and empty masks, and in constants that are added
to denominators.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.masks import Rle
from harness.metrics.overlap import THRESHOLDS, lisa_iou, overlap, precision_at, visionreasoner_iou
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol, single_answer
from harness.types import Prediction, Sample


def _predicted_mask(prediction: Prediction, like: Rle) -> Rle:
    """Return the predicted mask; for "no target" and for a failure, an empty one of equal size."""
    if prediction.answer is None or prediction.answer.masks is None:
        return Rle.empty(like.height, like.width)
    return prediction.answer.masks[0]


def _ground_truth(sample: Sample) -> Rle:
    """Return the true mask."""
    assert sample.target is not None and sample.target.answer.masks is not None
    return sample.target.answer.masks[0]


def score_lisa(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return gIoU, cIoU and precisions as LISA's `validate` computes them (train_ds.py at 3cb2d43).

    A failed sample counts as an empty mask, but its IoU is 0 even if the ground truth is empty: it
    did not answer "nothing".
    """
    sample, target, prediction = single_answer(unit, predictions)
    ground_truth = _ground_truth(sample)
    ignore = target.ignore[0] if target.ignore else None
    intersection, union = overlap(
        ground_truth, _predicted_mask(prediction, ground_truth), ignore=ignore
    )
    iou = 0.0 if prediction.failure else float(lisa_iou(intersection, union))
    return {"gIoU": Mean(iou), "cIoU": Ratio(intersection, union), **_precision(iou)}


def score_visionreasoner(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return gIoU, cIoU and precisions as VisionReasoner's calculate_iou_with_bbox.py (a455092).

    Pixels to ignore are foreground, because its copies of the data hold `mask.astype(bool)`.
    """
    sample, target, prediction = single_answer(unit, predictions)
    ground_truth = _ground_truth(sample).union(*(target.ignore or ()))
    intersection, union = overlap(ground_truth, _predicted_mask(prediction, ground_truth))
    iou = float(visionreasoner_iou(intersection, union))
    return {"gIoU": Mean(iou), "cIoU": Ratio(intersection, union), **_precision(iou)}


def score_segzero(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the scores as Seg-Zero's evaluation.py and calculate_iou.py compute them (42a3345).

    They are VisionReasoner's, but a sample whose true and predicted masks are both empty has none,
    because `compute_iou` fails for it. A failed sample keeps its IoU of 0.
    """
    scores = score_visionreasoner(unit, predictions)
    ratio = scores["cIoU"]
    assert isinstance(ratio, Ratio)
    both_empty = ratio.denominator == 0  # the union has no pixel
    return {} if both_empty and not predictions[0].failure else scores


def _precision(iou: float) -> dict[str, Mean]:
    """Return 1 or 0 under P@t for each threshold t: whether the IoU is at least t."""
    reached = precision_at([iou], thresholds=THRESHOLDS)
    return {
        f"P@{threshold}": Mean(float(hit))
        for threshold, hit in zip(THRESHOLDS, reached, strict=True)
    }


def _metrics(*, mean_epsilon: float, ratio_epsilon: float) -> tuple[Metric, ...]:
    """Return the metrics of a protocol; the epsilons are added to denominators."""
    return (
        Metric("gIoU", epsilon=mean_epsilon, about="mean over samples of mask IoU"),
        Metric("cIoU", epsilon=ratio_epsilon, about="sum of intersections / sum of unions"),
        *(
            Metric(f"P@{threshold}", about=f"share of samples with IoU ≥ {threshold}")
            for threshold in THRESHOLDS
        ),
    )


def with_target(samples: Iterable[Sample]) -> float:
    """Return the share of samples whose true mask is not empty; 0 without samples."""
    has_target = [_ground_truth(sample).area > 0 for sample in samples]
    return sum(has_target) / max(len(has_target), 1)


LISA = Protocol(
    name="seg/lisa",
    score=score_lisa,
    metrics=_metrics(mean_epsilon=1e-5, ratio_epsilon=1e-10),
    headline="gIoU",
    ceiling=Ceiling(
        value=1.0, tolerance=2.1e-5, why="LISA adds 1e-5 to each union and to the number of samples"
    ),
    about="LISA's validation, with the OpenCV that it pins, 4.8",
)
VISIONREASONER = Protocol(
    name="seg/visionreasoner",
    score=score_visionreasoner,
    metrics=_metrics(mean_epsilon=0.0, ratio_epsilon=0.0),
    headline="gIoU",
    ceiling=Ceiling(
        value=with_target,
        tolerance=1e-12,
        why="a sample whose ground truth is empty scores 0, whatever is predicted",
    ),
    about="VisionReasoner's evaluation",
)
PROTOCOLS = {
    "seg/lisa": LISA,
    "seg/lisa@cv4.11": replace(
        LISA,
        name="seg/lisa@cv4.11",
        about="LISA's validation with OpenCV 4.11 or later, which draws other pixels",
    ),
    "seg/visionreasoner": VISIONREASONER,
    "seg/segzero": replace(
        VISIONREASONER,
        name="seg/segzero",
        score=score_segzero,
        ceiling=Ceiling(value=1.0, tolerance=1e-12),
        about="Seg-Zero's evaluation",
    ),
}
