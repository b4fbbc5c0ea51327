"""The protocols of gRefCOCO, whose expressions may have no target.

Masks are scored as by ReLA or as by VisionReasoner, boxes as by GREC. N_acc is the accuracy over
expressions without a target, T_acc over the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from harness.masks import Rle
from harness.metrics.generalised import (
    THRESHOLDS,
    Credit,
    nonobject_box,
    nonobject_box_hit,
    nonobject_credit,
    rela_credit,
    rela_resize,
)
from harness.metrics.grec import MIN_SCORE, confident, grec_f1
from harness.metrics.overlap import overlap, precision_at
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol
from harness.types import Answer, Box, Prediction, Sample


def _ground_truth(sample: Sample) -> Answer:
    """Return the true answer."""
    assert sample.target is not None
    return sample.target.answer


def _masks(sample: Sample, answer: Answer | None) -> tuple[Rle, Rle]:
    """Return the (true, predicted) mask; the latter is empty if the answer has no mask."""
    masks = _ground_truth(sample).masks
    assert masks is not None
    if answer is None or answer.masks is None:
        return masks[0], Rle.empty(masks[0].height, masks[0].width)
    return masks[0], answer.masks[0]


def _accuracies(*, no_target: bool, right: bool) -> dict[str, Ratio]:
    """Return a sample's share in N_acc or T_acc; `right`: the answer is right about the target."""
    return {"N_acc" if no_target else "T_acc": Ratio(float(right), 1.0)}


def _rela(sample: Sample, answer: Answer | None, *, square: bool) -> Credit:
    """Return the overlap of a sample, in 480 × 480 pixels (`square`) or in the image's pixels."""
    assert sample.target is not None
    ground_truth, predicted = _masks(sample, answer)
    if square:
        ground_truth, predicted = sample.target.extra["square"], rela_resize(predicted)
    return rela_credit(
        overlap(ground_truth, predicted),
        no_target=_ground_truth(sample).no_target,
        predicted_no_target=answer is not None and answer.no_target,
    )


def score_rela(
    unit: Sequence[Sample], predictions: Sequence[Prediction], *, square: bool
) -> Scores:
    """Return gIoU, cIoU, N_acc, T_acc and Pr@t as ReLA's refer_evaluation.py (3ca9551).

    Only `Answer.no_target` counts as "no target"; an empty mask is a mask. A failed sample is wrong
    in every number: it claims neither a target nor its absence.
    """
    (sample,), (prediction,) = unit, predictions
    answer, no_target = prediction.answer, _ground_truth(sample).no_target
    predicted_no_target = answer is not None and answer.no_target
    credit = _rela(sample, answer, square=square)
    right = answer is not None and predicted_no_target == no_target
    scores: dict[str, Mean | Ratio] = {
        "gIoU": Mean(credit.iou),
        "cIoU": Ratio(credit.intersection, credit.union),
        **_accuracies(no_target=no_target, right=right),
    }
    if not no_target:
        reached = precision_at([credit.iou], thresholds=THRESHOLDS)
        pairs = zip(THRESHOLDS, reached, strict=True)
        scores |= {f"Pr@{threshold}": Mean(float(hit)) for threshold, hit in pairs}
    return scores


def score_nonobject(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return gIoU, cIoU, N_acc and bbox_AP as VisionReasoner's later repository (c013132).

    There an answer says "no target" by having no box, and an expression has no target if its merged
    true mask is empty. A predicted mask without boxes counts as the box around it, or as no box if
    it is empty. bbox_AP is over all expressions; the true box is that around the merged mask.
    """
    (sample,), (prediction,) = unit, predictions
    answer = prediction.answer
    mask, predicted = _masks(sample, answer)
    boxes = _boxes(answer, predicted)
    no_target = mask.area == 0
    n_boxes = 1 if boxes is None else len(boxes)  # a failure does not say "no target"
    credit = nonobject_credit(overlap(mask, predicted), no_target=no_target, boxes=n_boxes)
    hit = boxes is not None and nonobject_box_hit(nonobject_box(mask), boxes)
    scores: dict[str, Mean | Ratio] = {
        "gIoU": Mean(credit.iou),
        "cIoU": Ratio(credit.intersection, credit.union),
        "bbox_AP": Mean(float(hit)),
    }
    if no_target:
        scores["N_acc"] = Ratio(float(n_boxes == 0), 1.0)
    return scores


def _boxes(answer: Answer | None, predicted: Rle) -> Sequence[Box] | None:
    """Return the predicted boxes, or the box around a mask without boxes; None for a failure."""
    if answer is None:
        return None
    if answer.no_target:
        return ()
    if answer.boxes is not None:
        return answer.boxes
    around = nonobject_box(predicted)
    return () if around is None else (around,)


def score_grec(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return F1_score, F1, N_acc and T_acc as GREC's refexp.py (gRefCOCO 41a8f00).

    Only confident boxes count; boxes without scores are confident. A failed sample is wrong in
    every number.
    """
    (sample,), (prediction,) = unit, predictions
    ground_truth, answer = _ground_truth(sample), prediction.answer
    predicted = () if answer is None or answer.no_target else answer.boxes or ()
    scores = (answer.box_scores if answer else None) or (1.0,) * len(predicted)
    boxes = confident(predicted, scores[: len(predicted)])
    f1 = 0.0 if answer is None else grec_f1(ground_truth.boxes or (), boxes)
    right = answer is not None and (not boxes) == ground_truth.no_target
    return {
        "F1_score": Mean(float(f1 >= 1.0)),
        "F1": Mean(f1),
        **_accuracies(no_target=ground_truth.no_target, right=right),
    }


def answerable(samples: Iterable[Sample]) -> float:
    """Return the share of samples that can score: without a target, or with a non-empty mask."""
    scorable = [
        ground_truth.no_target or bool(ground_truth.masks and ground_truth.masks[0].area)
        for ground_truth in map(_ground_truth, samples)
    ]
    return sum(scorable) / max(len(scorable), 1)


def giou_of_true_masks(samples: Iterable[Sample]) -> float:
    """Return the gIoU in 480 × 480 pixels of answers that are the true masks in image pixels.

    It is the ceiling of RELA, which resizes predicted masks to this size.
    """
    ious = [_rela(sample, _ground_truth(sample), square=True).iou for sample in samples]
    return sum(ious) / max(len(ious), 1)


CEILING = Ceiling(value=answerable, why="a target whose mask is empty scores 0 in any case")
MASK_METRICS = (
    Metric("gIoU", about="mean over samples of mask IoU; 1 for a correct answer of no target"),
    Metric("cIoU", about="sum of intersections / sum of unions"),
    Metric("N_acc", about="share of expressions without a target that get the answer no target"),
)
T_ACC = Metric("T_acc", about="share of expressions with a target that get a mask")
RELA = Protocol(
    name="res/rela",
    score=partial(score_rela, square=True),
    headline="gIoU",
    ceiling=Ceiling(
        value=giou_of_true_masks,
        tolerance=1e-12,
        why="ground truth is drawn on 480 × 480, and masks in the image's size are resized to it",
    ),
    metrics=(
        *MASK_METRICS,
        T_ACC,
        *(
            Metric(f"Pr@{t}", about=f"share of samples with target with IoU ≥ {t}")
            for t in THRESHOLDS
        ),
    ),
    about='ReLA\'s evaluation, on 480 × 480; "no target" is an answer of its own',
)

PROTOCOLS = {
    "res/rela": RELA,
    "res/rela_pixels": replace(
        RELA,
        name="res/rela_pixels",
        score=partial(score_rela, square=False),
        ceiling=CEILING,
        about="ReLA's numbers, counted in each image's own pixels",
    ),
    "res/visionreasoner-nonobj": Protocol(
        name="res/visionreasoner-nonobj",
        score=score_nonobject,
        headline="gIoU",
        ceiling=CEILING,
        metrics=(
            *MASK_METRICS,
            Metric(
                "bbox_AP", about="share of samples with the right box, or correctly without a box"
            ),
        ),
        about='VisionReasoner\'s later repository; "no target" is to predict no box',
    ),
    "rec/grec": Protocol(
        name="rec/grec",
        score=score_grec,
        headline="F1_score",
        ceiling=Ceiling(value=1.0),
        metrics=(
            Metric("F1_score", about="Precision@(F1=1, IoU≥0.5): share of exactly right samples"),
            Metric("F1", about="mean F1"),
            Metric("N_acc", about="share of expressions without target that have no box"),
            T_ACC,
        ),
        about=f"GREC's evaluation of boxes with a score from {MIN_SCORE}, "
        "matched by Generalised IoU",
        least_score=MIN_SCORE,
    ),
}
BOXED = {
    "res/rela": "rec/grec",
    "res/rela_pixels": "rec/grec",
    "res/visionreasoner-nonobj": "rec/grec",
}
"""The protocol for boxes that replaces each protocol for masks if the task has `answer=box`."""
