"""The protocol `rvos/mevis`, which most tasks of referring video segmentation use.

J (region similarity, IoU) and F (boundary measure) are means over an expression's frames, then over
expressions.
"""

from collections.abc import Sequence

from harness.masks import Rle
from harness.metrics.averages import Numbers
from harness.metrics.boundary import boundary_f_measure
from harness.metrics.overlap import region_similarity
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol
from harness.types import Answer, Prediction, Sample


def ground_truth_of(sample: Sample) -> tuple[Rle, ...]:
    """Return the true masks of a sample, one per frame."""
    assert sample.target is not None and sample.target.answer.masks is not None
    return sample.target.answer.masks


def predicted_masks(answer: Answer | None, like: Sequence[Rle]) -> tuple[Rle, ...]:
    """Return the masks of an answer, or empty masks of the sizes of `like` if it has none."""
    if answer is not None and answer.masks is not None:
        return answer.masks
    return tuple(Rle.empty(mask.height, mask.width) for mask in like)


def score(
    unit: Sequence[Sample],
    predictions: Sequence[Prediction],
    *,
    frames: Sequence[int] | None = None,
) -> Scores:
    """Return J and F of one expression, as tools/eval_mevis.py (7c0620b) computes them.

    They are means over all frames, or over the frames with the indices `frames`. A failure scores 0
    and 0, as the official script scores a missing folder. "No target" counts as empty masks.
    """
    (sample,), (prediction,) = unit, predictions
    if prediction.answer is None:
        return {"J": Mean(0.0), "F": Mean(0.0)}
    ground_truth = ground_truth_of(sample)
    all_predicted = predicted_masks(prediction.answer, ground_truth)
    frame_indices = range(len(ground_truth)) if frames is None else frames
    true = [ground_truth[frame] for frame in frame_indices]
    predicted = [all_predicted[frame] for frame in frame_indices]
    return {
        "J": Mean(float(region_similarity(true, predicted).mean())),
        "F": Mean(float(boundary_f_measure(true, predicted).mean())),
    }


def half_sum(region: Numbers, boundary: Numbers) -> Numbers:
    """Return J&F from the final means of J and F."""
    return (region + boundary) / 2


METRICS = (
    Metric("J", about="region similarity: mean IoU over frames, then over expressions"),
    Metric("F", about="boundary measure: mean over frames, then over expressions"),
    Metric("J&F", inputs=("J", "F"), derived=half_sum, about="mean of J and F"),
)


def by_expressions(about: str, *, name: str = "rvos/mevis") -> Protocol:
    """Return the protocol of a benchmark that is scored expression by expression."""
    return Protocol(
        name=name,
        score=score,
        metrics=METRICS,
        headline="J&F",
        ceiling=Ceiling(value=1.0),
        about=about,
    )
