"""The protocols of LLM-Seg40K: LISA's scores, and those of LLM-Seg's own evaluation.

A model predicts a mask of the image's size; the true mask may have another size.
"""

from collections.abc import Sequence
from dataclasses import replace

from harness.masks import Rle
from harness.metrics.normalised import llmseg_iou, nearest_resize, normalised_overlap
from harness.metrics.overlap import overlap
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.segmentation.protocols import PROTOCOLS as REASON_SEG
from harness.types import Prediction, Sample


def fit_size(sample: Sample, prediction: Prediction) -> Prediction:
    """Return the prediction with its mask resized to the size of the true mask.

    It is resized by nearest neighbour, as by LLM-Seg. The true mask, which SAM may have made on a
    smaller image, is never resized.
    """
    assert sample.target is not None and sample.target.answer.masks is not None
    ground_truth, answer = sample.target.answer.masks[0], prediction.answer
    if answer is None or answer.masks is None or answer.masks[0].size == ground_truth.size:
        return prediction
    mask = nearest_resize(answer.masks[0], height=ground_truth.height, width=ground_truth.width)
    assert isinstance(mask, Rle)
    return replace(prediction, answer=replace(answer, masks=(mask,)))


def score_lisa(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return LISA's scores of the prediction at the size of the true mask."""
    (sample,), (prediction,) = unit, predictions
    return REASON_SEG["seg/lisa"].score([sample], [fit_size(sample, prediction)])


def score_llmseg(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return gIoU, cIoU and ncIoU as LLM-Seg's finetune_llmseg.py (65147a9).

    ncIoU is the cIoU of masks that are resized to 1024 × 1024. A failed sample counts as an empty
    mask, but its IoU is 0 even if the true mask is empty.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None and sample.target.answer.masks is not None
    ground_truth = sample.target.answer.masks[0]
    answer = prediction.answer
    empty = Rle.empty(ground_truth.height, ground_truth.width)
    predicted = answer.masks[0] if answer and answer.masks else empty
    height, width = ground_truth.height, ground_truth.width
    is_same = predicted.size == ground_truth.size
    resized = predicted if is_same else nearest_resize(predicted, height=height, width=width)
    pixels = overlap(ground_truth, resized)  # (intersection, union)
    iou = 0.0 if prediction.failure else float(llmseg_iou(*pixels))
    return {
        "gIoU": Mean(iou),
        "cIoU": Ratio(*pixels),
        "ncIoU": Ratio(*normalised_overlap(ground_truth, predicted)),
    }


PROTOCOLS = {
    "seg/lisa": replace(
        REASON_SEG["seg/lisa"],
        score=score_lisa,
        about="LISA's validation, of a prediction at the size of the ground truth",
    ),
    "seg/llmseg": Protocol(
        name="seg/llmseg",
        score=score_llmseg,
        headline="gIoU",
        metrics=(
            Metric("gIoU", epsilon=1e-5, about="mean over samples of mask IoU"),
            Metric("cIoU", epsilon=1e-10, about="sum of intersections / sum of unions"),
            Metric("ncIoU", epsilon=1e-10, about="cIoU after masks are made 1024 × 1024"),
        ),
        ceiling=Ceiling(
            value=1.0, tolerance=1.1e-5, why="LLM-Seg adds 1e-5 to the number of samples"
        ),
        about="LLM-Seg's own evaluation, over all samples, not 100 of them",
    ),
}
