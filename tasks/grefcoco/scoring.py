"""gRefCOCO's scores: masks by ReLA and by VisionReasoner's variant, boxes by GREC."""

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
from harness.metrics.grec import confident, grec_f1
from harness.metrics.overlap import overlap, precision_at
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol
from harness.types import Answer, Box, Prediction, Sample


def _ground_truth(sample: Sample) -> Answer:
    assert sample.target is not None
    return sample.target.answer


def _masks(sample: Sample, answer: Answer | None) -> tuple[Rle, Rle]:
    """Return the true and the predicted mask; the latter is empty where there is none."""
    masks = _ground_truth(sample).masks
    assert masks is not None
    if answer is None or answer.masks is None:
        return masks[0], Rle.empty(masks[0].height, masks[0].width)
    return masks[0], answer.masks[0]


def _accuracies(*, no_target: bool, right: bool) -> dict[str, Ratio]:
    """Return one sample's part of N_acc or T_acc: 1 if it is right about having a target."""
    return {"N_acc" if no_target else "T_acc": Ratio(float(right), 1.0)}


def _rela(sample: Sample, answer: Answer | None, *, square: bool) -> Credit:
    """Return the contribution of a sample, counted in 480 × 480 or in the image's own pixels."""
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
    """GIoU, cIoU, N_acc, T_acc and Pr@t of ReLA's refer_evaluation.py (3ca9551).

    Only NO_TARGET counts as "no target"; an empty mask is a mask. A failed sample is wrong in every
    number: it claims neither a target nor its absence.
    """
    (sample,), (prediction,) = unit, predictions
    answer, nothing = prediction.answer, _ground_truth(sample).no_target
    predicted_nothing = answer is not None and answer.no_target
    credit = _rela(sample, answer, square=square)
    right = answer is not None and predicted_nothing == nothing
    scores: dict[str, Mean | Ratio] = {
        "gIoU": Mean(credit.iou),
        "cIoU": Ratio(credit.intersection, credit.union),
        **_accuracies(no_target=nothing, right=right),
    }
    if not nothing:
        reached = precision_at([credit.iou], thresholds=THRESHOLDS)
        pairs = zip(THRESHOLDS, reached, strict=True)
        scores |= {f"Pr@{threshold}": Mean(float(hit)) for threshold, hit in pairs}
    return scores


def score_nonobject(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """GIoU, cIoU, N_acc and bbox_AP of VisionReasoner's later repository (c013132).

    There "no target" is to predict no box, and there is none where the merged mask is empty. A mask
    that came without boxes counts as the box around it, or as none if it is empty. bbox_AP is over
    all expressions; the true box is that of the merged mask.
    """
    (sample,), (prediction,) = unit, predictions
    answer = prediction.answer
    mask, predicted = _masks(sample, answer)
    boxes = _boxes(answer, predicted)
    nothing = mask.area == 0
    # No answer is not the answer "nothing".
    number = 1 if boxes is None else len(boxes)
    credit = nonobject_credit(overlap(mask, predicted), no_target=nothing, boxes=number)
    hit = boxes is not None and nonobject_box_hit(nonobject_box(mask), boxes)
    scores: dict[str, Mean | Ratio] = {
        "gIoU": Mean(credit.iou),
        "cIoU": Ratio(credit.intersection, credit.union),
        "bbox_AP": Mean(float(hit)),
    }
    if nothing:
        scores["N_acc"] = Ratio(float(number == 0), 1.0)
    return scores


def _boxes(answer: Answer | None, predicted: Rle) -> Sequence[Box] | None:
    """Return the predicted boxes, or the box around a mask without boxes; None for a failure."""
    if answer is None:
        return None
    if answer.no_target:
        return ()
    around = nonobject_box(predicted)
    return answer.boxes if answer.boxes is not None else () if around is None else (around,)


def score_grec(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """F1_score, N_acc and T_acc of GREC's refexp.py (gRefCOCO 41a8f00).

    Boxes without scores all count. A failed sample is wrong in every number.
    """
    (sample,), (prediction,) = unit, predictions
    ground_truth, answer = _ground_truth(sample), prediction.answer
    predicted = () if answer is None or answer.no_target else answer.boxes or ()
    scores = (answer.box_scores if answer else None) or (1.0,) * len(predicted)
    counted = confident(predicted, scores[: len(predicted)])
    f1 = 0.0 if answer is None else grec_f1(ground_truth.boxes or (), counted)
    right = answer is not None and (not counted) == ground_truth.no_target
    return {
        "F1_score": Mean(float(f1 >= 1.0)),
        "F1": Mean(f1),
        **_accuracies(no_target=ground_truth.no_target, right=right),
    }


def answerable(samples: Iterable[Sample]) -> float:
    """Return the share of samples that can score: those without target, or with a true mask not
    empty.
    """
    scorable = [
        ground_truth.no_target or bool(ground_truth.masks and ground_truth.masks[0].area)
        for ground_truth in map(_ground_truth, samples)
    ]
    return sum(scorable) / max(len(scorable), 1)


def on_the_square(samples: Iterable[Sample]) -> float:
    """The gIoU of true masks in the images' own pixels, on ReLA's square."""
    ious = [_rela(sample, _ground_truth(sample), square=True).iou for sample in samples]
    return sum(ious) / max(len(ious), 1)


CEILING = Ceiling(value=answerable, why="a target whose mask is empty scores 0 in any case")
MASK_METRICS = (
    Metric("gIoU", about="mean over samples of mask IoU; 1 where rightly nothing is said"),
    Metric("cIoU", about="sum of intersections / sum of unions"),
    Metric("N_acc", about="share of expressions without target of which that is said"),
)
T_ACC = Metric("T_acc", about="share of expressions with a target of which one is seen")
RELA = Protocol(
    name="res/rela",
    score=partial(score_rela, square=True),
    headline="gIoU",
    ceiling=Ceiling(
        value=on_the_square,
        tolerance=1e-12,
        why="ground truth is drawn on 480 × 480, and masks of the image's size are brought there",
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
            Metric("bbox_AP", about="share of samples with the right box, or rightly with none"),
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
        about="GREC's evaluation of boxes, matched by Generalised IoU",
    ),
}
BOXED = {
    "res/rela": "rec/grec",
    "res/rela_pixels": "rec/grec",
    "res/visionreasoner-nonobj": "rec/grec",
}
"""Protocols for boxes in place of protocols for masks, with `answer=box`."""
