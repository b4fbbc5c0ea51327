"""Metric plugin: the change of a mask's IoU that inexact ground truth may cause.

Annotators draw outlines a few pixels too far out, or too far in, nearly all around an object. A
difference of two models that is smaller than this change may be due to the labels.
"""

from collections.abc import Sequence
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.masks import BoolArray, Rle
from harness.scores import Mean, Metric, Scores
from harness.task import ExtraMetric
from harness.types import Prediction, Sample

NAME = "label noise"
"""Beginning of the names of these metrics, by which boards find them to explain their values."""
MAX_PIXELS = 20


def label_noise(*, pixels: int = 2) -> ExtraMetric:
    """Mean over images of the largest change of IoU if the true outline is moved out or in.

    The mean IoU (gIoU) changes by no more than this if each outline is moved out or in as a whole
    by `pixels`. An outline that is moved on one side alone, or by less, may change it more.
    A sample without a mask, or with an empty true one, counts as 0; pixels to ignore do not count.

    Args:
        pixels: Pixels by which the outline is moved, as by a disk of this radius.
    """
    if not 1 <= pixels <= MAX_PIXELS:
        raise UsageError(
            "metric label_noise: pixels", expected=f"1 to {MAX_PIXELS}", found=str(pixels)
        )
    name = f"{NAME} ({pixels} px)"
    about = f"most that gIoU changes if each true outline is {pixels} pixels further out or in"

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        masks = image_masks(unit, predictions)
        if masks is None:
            return {}
        truth, predicted, counted = masks
        moved = _moved(truth, pixels)
        own = iou(truth, predicted, counted)
        return {name: Mean(max(abs(iou(mask, predicted, counted) - own) for mask in moved))}

    return ExtraMetric(Metric(name, better="lower", about=about), score)


def image_masks(
    unit: Sequence[Sample], predictions: Sequence[Prediction]
) -> tuple[BoolArray, BoolArray, BoolArray] | None:
    """Return (true mask, predicted mask, pixels that count) of one image; None for other units.

    Without an answer the predicted mask is empty.
    """
    target = unit[0].target
    if len(unit) != 1 or target is None or len(target.answer.masks or ()) != 1:
        return None
    (truth,) = target.answer.masks or ()
    answer = predictions[0].answer
    predicted = answer.masks[0] if answer and answer.masks else Rle.empty(truth.height, truth.width)
    ignored = target.ignore[0].to_array() if target.ignore else np.zeros(0, bool)
    counted = ~ignored if ignored.size else np.ones((truth.height, truth.width), bool)
    return truth.to_array(), predicted.to_array(), counted


def iou(truth: BoolArray, predicted: BoolArray, counted: BoolArray) -> float:
    """Return the IoU of two masks of height × width in the pixels that count; 1 if both are empty.

    >>> left, both = np.array([[1, 0]], bool), np.array([[1, 1]], bool)
    >>> iou(left, both, both), iou(left, both, left)
    (0.5, 1.0)
    """
    union = np.count_nonzero((truth | predicted) & counted)
    return int(np.count_nonzero(truth & predicted & counted)) / int(union) if union else 1.0


def _moved(mask: BoolArray, pixels: int) -> tuple[BoolArray, ...]:
    """Return (the mask with its outline moved out, and in); an empty mask is returned alone.

    The image's border is not an outline.
    """
    plain = mask.astype(np.uint8)
    if not plain.any():
        return (mask,)
    return tuple(turn(plain, _disk(pixels)) != 0 for turn in (cv2.dilate, cv2.erode))


@cache
def _disk(radius: int) -> NDArray[np.uint8]:
    """Return the disk x² + y² ≤ radius² as 0 and 1, of 2 · radius + 1 rows and columns."""
    y, x = np.indices((2 * radius + 1,) * 2) - radius
    return (x * x + y * y <= radius * radius).astype(np.uint8)
