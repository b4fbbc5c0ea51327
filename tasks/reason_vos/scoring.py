"""ReasonVOS' J and F, in the frames that have an annotation."""

from collections.abc import Sequence

from harness.metrics.boundary import boundary_f_measure
from harness.metrics.region import region_similarity
from harness.scores import Mean, Scores
from harness.task import official_and_strict
from harness.tasks.rvos.scoring import METRICS, ground_truth_of, predicted_masks
from harness.types import Prediction, Sample


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """J and F of one expression over its annotated frames.

    An expression without a prediction scores 0 and 0 with `strict`; `eval_reason_vos.py` (146f2bc)
    leaves it out.
    """
    (sample,), (prediction,) = unit, predictions
    if prediction.answer is None:
        return {"J": Mean(0.0), "F": Mean(0.0)} if strict else {}
    assert sample.target is not None, "the ground truth is public"
    ground_truth, counted = ground_truth_of(sample), sample.target.extra["counted"]
    predicted = predicted_masks(prediction.answer, ground_truth)
    both = [[masks[frame] for frame in counted] for masks in (ground_truth, predicted)]
    return {
        "J": Mean(float(region_similarity(*both).mean())),
        "F": Mean(float(boundary_f_measure(*both).mean())),
    }


PROTOCOLS = official_and_strict(
    "reasonvos",
    score,
    metrics=METRICS,
    headline="J&F",
    official="VideoLISA's eval_reason_vos.py: what has no prediction counts nowhere",
    strict="what has no prediction scores 0",
)
