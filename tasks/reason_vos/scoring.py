"""ReasonVOS' J and F, in the frames that have an annotation."""

from collections.abc import Sequence
from dataclasses import replace

from harness.metrics.boundary import boundary_f_measure
from harness.metrics.region import region_similarity
from harness.scores import Mean, Scores
from harness.tasks.rvos.scoring import by_expressions, ground_truth_of, predicted_masks
from harness.types import Prediction, Sample


def score_strict(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """J and F of one expression over its annotated frames; a failure scores 0 and 0."""
    (sample,), (prediction,) = unit, predictions
    if prediction.answer is None:
        return {"J": Mean(0.0), "F": Mean(0.0)}
    assert sample.target is not None, "the ground truth is public"
    ground_truth, counted = ground_truth_of(sample), sample.target.extra["counted"]
    predicted = predicted_masks(prediction.answer, ground_truth)
    both = [[masks[frame] for frame in counted] for masks in (ground_truth, predicted)]
    return {
        "J": Mean(float(region_similarity(*both).mean())),
        "F": Mean(float(boundary_f_measure(*both).mean())),
    }


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`eval_reason_vos.py` (146f2bc), which leaves an expression without a prediction out."""
    return {} if predictions[0].answer is None else score_strict(unit, predictions)


PROTOCOLS = {
    "reasonvos/official": replace(
        by_expressions("VideoLISA's eval_reason_vos.py: what has no prediction counts nowhere"),
        name="reasonvos/official",
        score=score_official,
    ),
    "reasonvos/strict": replace(
        by_expressions("what has no prediction scores 0"),
        name="reasonvos/strict",
        score=score_strict,
    ),
}
