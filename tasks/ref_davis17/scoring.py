"""The protocols of Ref-DAVIS17: score a video's objects together, or each expression by itself.

J is the region similarity (IoU), F the boundary measure; both are means over frames.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.metrics.unsupervised import proposals, soft_argmax, unsupervised_scores
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.rvos.scoring import by_expressions, ground_truth_of, half_sum, predicted_masks
from harness.types import Prediction, Sample

FOUR = "rvos/davis_unsup_4anno"  # the protocol that scores all objects for each of four annotators


def score_together(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return J and F of a video's objects, for the expressions of one annotator.

    As in inference_davis.py and eval_davis.py of ReferFormer (06fc218), at each pixel the
    expression with the highest confidence wins (a mask has confidences 0 and 1), the resulting
    proposals are matched to the true objects, void pixels do not count, and a video's weight is its
    number of objects. An expression without an answer wins no pixel; an object without a proposal
    is compared with an empty one.
    """
    target = unit[0].target
    assert target is not None and target.ignore is not None
    confidences = [
        _confidence(sample, prediction)
        for sample, prediction in zip(unit, predictions, strict=True)
    ]
    proposed = proposals(soft_argmax(confidences))
    objects = [_pixels(track) for track in target.extra["objects"]]
    if not objects:
        return {}
    scores = unsupervised_scores(objects, proposed, _pixels(target.ignore))
    weight = float(len(objects))
    return {
        "J": Mean(float(scores.j.mean()), weight),
        "F": Mean(float(scores.f.mean()), weight),
    }


def _confidence(sample: Sample, prediction: Prediction) -> NDArray[np.float32]:
    """Return the confidences of an answer, frames × height × width, from 0 to 1."""
    answer = prediction.answer
    if answer is not None and answer.soft_masks is not None and not answer.no_target:
        return np.stack([mask.to_array() for mask in answer.soft_masks])
    return _pixels(predicted_masks(answer, ground_truth_of(sample))).astype(np.float32)


def _pixels(track: Sequence[object]) -> NDArray[np.bool_]:
    """Return the masks of a track as an array, frames × height × width."""
    return np.stack([mask.to_array() for mask in track])  # type: ignore[attr-defined]


PROTOCOLS = {
    FOUR: Protocol(
        name=FOUR,
        score=score_together,
        metrics=(
            Metric("J", about="region similarity: mean over frames, objects and annotators"),
            Metric("F", about="boundary measure: mean over frames, objects and annotators"),
            Metric("J&F", inputs=("J", "F"), derived=half_sum, about="mean of J and F"),
        ),
        headline="J&F",
        ceiling=Ceiling(value=1.0),
        about="ReferFormer: DAVIS' unsupervised scorer for each of four annotators, and their mean",
    ),
    "rvos/visa_davis": by_expressions(
        "VISA's and Sa2VA's: every expression by itself, no void pixels, mean over expressions",
        name="rvos/visa_davis",
    ),
}
