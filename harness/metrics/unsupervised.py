"""The DAVIS unsupervised protocol: J and F of a video's objects after matching predictions to them.

Referring-video papers use it on Ref-DAVIS17, where each of four annotators wrote one expression for
each object. The unit is a video and an annotator. `soft_argmax` gives each pixel to one predicted
object; `unsupervised_scores` matches predictions to objects by quality, whatever their expressions.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from harness.errors import MaskError
from harness.masks import BoolArray
from harness.metrics.boundary import boundary_f_measure
from harness.metrics.overlap import Track, region_similarity

BACKGROUND_CONFIDENCE = np.float32(0.1)  # confidence of the background
MIN_CONFIDENCE = np.float32(0.5)  # least confidence of an object's pixel
MAX_PROPOSALS = 20
VOID = 255  # label of pixels that do not count

Labels: TypeAlias = NDArray[np.uint8]
"""Frames × height × width: the number of the object that has the pixel; 0 is the background."""


class ObjectScores(NamedTuple):
    """J and F of each true object, means over its frames; float64 of shape (objects,)."""

    j: NDArray[np.float64]
    f: NDArray[np.float64]


def soft_argmax(confidences: Sequence[NDArray[np.floating]]) -> Labels:
    """Give each pixel to the most confident object, or to the background.

    Confidences below 0.5 count as 0 and the background has 0.1, so that a pixel goes to an object
    exactly if one reaches 0.5. Of objects with equal confidence the first wins. A binary mask is
    confidences of 0 and 1. Equal to the lines of `sub_processor` in `inference_davis.py` of
    ReferFormer (commit 06fc218), which compute in float32.

    Args:
        confidences: For each object its confidence in each pixel, from 0 to 1: frames × height ×
            width, all of one shape; at most 254 objects.

    Raises:
        MaskError: no object or too many, shapes differ, or a value is not from 0 to 1.

    >>> first, second = np.array([[[0.6, 0.4, 0.9, 0.5]]]), np.array([[[0.7, 0.4, 0.9, 0.2]]])
    >>> soft_argmax([first, second])
    array([[[2, 0, 1, 1]]], dtype=uint8)
    """
    shapes = {confidence.shape for confidence in confidences}
    if len(shapes) != 1 or len(confidences) >= VOID or len(min(shapes)) != 3:
        raise MaskError(
            "confidences of objects",
            expected="1 to 254 arrays of one frames × height × width",
            found=f"{len(confidences)} of {len(shapes)} shape(s)",
        )
    labels = np.zeros(min(shapes), dtype=np.uint8)
    highest = np.full(labels.shape, BACKGROUND_CONFIDENCE)
    for number, confidence in enumerate(confidences, start=1):
        values = confidence.astype(np.float32)
        if not ((values >= 0) & (values <= 1)).all():
            raise MaskError(
                f"confidences of object {number}", expected="values from 0 to 1", found="others"
            )
        better = (values >= MIN_CONFIDENCE) & (values > highest)
        labels[better] = number
        highest[better] = values[better]
    return labels


def object_count(first: NDArray[np.uint8]) -> int:
    """Return the number of annotated objects of a video: the largest label of its *first* frame.

    A larger label that appears later is not an object, and a label that is skipped is an object
    without pixels. Void pixels, which have the label 255, are not an object.
    Source: `get_all_masks` in `davis2017/davis.py` (davis2017-evaluation, commit ac7c43f).

    >>> object_count(np.array([[0, 2, 255]], dtype=np.uint8))
    2
    """
    return int(first[first != VOID].max(initial=0))


def proposals(labels: Labels) -> list[BoolArray]:
    """Return the masks of the predicted objects: as many as the largest label of any frame.

    Source: `read_masks` in `davis2017/results.py` (davis2017-evaluation, commit ac7c43f).

    >>> [int(mask.sum()) for mask in proposals(np.array([[[0, 3]], [[1, 0]]], dtype=np.uint8))]
    [1, 0, 1]
    """
    count = int(_checked_labels(labels, "predicted labels").max())
    return [labels == number for number in range(1, count + 1)]


def unsupervised_scores(
    ground_truth: Sequence[Track], predicted: Sequence[Track], void: Track | None = None
) -> ObjectScores:
    """Return J and F of each true object after the best matching of proposals to objects.

    The matching maximises the sum of `(mean J + mean F) / 2`; all frames count, with the first and
    the last. An object without a proposal is compared with an empty one. J&F of a data set is the
    mean of J and F over the objects of all videos, so that a video counts by its objects. The four
    annotators of Ref-DAVIS17 have the same objects, so that the average of their J&F is the mean
    over all objects.

    Equal bit for bit to `_evaluate_unsupervised` in `davis2017/evaluation.py` of
    davis2017-evaluation (commit ac7c43f; ReferFormer holds the same code), which returns the
    objects in the order of the proposals matched to them. Here they keep their own order.

    Args:
        ground_truth: The true objects' masks, at least one; each a boolean array of frames × height
            × width or a run-length a frame.
        predicted: The proposals of the same kind, at most 20.
        void: Pixels that do not count.

    Raises:
        MaskError: no object, more than 20 proposals, or tracks that cannot be compared.

    >>> objects = np.zeros((2, 1, 4, 6), dtype=bool)
    >>> objects[0, :, :2, :3] = objects[1, :, 2:, 3:] = True
    >>> unsupervised_scores(list(objects), [objects[1], objects[1] & ~objects[1]])
    ObjectScores(j=array([0., 1.]), f=array([0., 1.]))
    """
    if not ground_truth or len(predicted) > MAX_PROPOSALS:
        raise MaskError(
            "objects of a video",
            expected=f"at least one true object and at most {MAX_PROPOSALS} proposals",
            found=f"{len(ground_truth)} and {len(predicted)}",
        )
    padding = [_empty_like(ground_truth[0])] * (len(ground_truth) - len(predicted))
    j, f = (  # each proposals × objects
        np.array(
            [
                [metric(true, proposal, void) for true in ground_truth]
                for proposal in (*predicted, *padding)
            ]
        ).mean(axis=2)
        for metric in (region_similarity, boundary_f_measure)
    )
    output, true = linear_sum_assignment(-((j + f) / 2))
    order = np.argsort(true)
    return ObjectScores(j[output, true][order], f[output, true][order])


def _checked_labels(labels: Labels, what: str) -> Labels:
    if labels.dtype != np.uint8 or labels.ndim != 3 or labels.size == 0:
        raise MaskError(
            what,
            expected="uint8 of frames × height × width",
            found=f"{labels.dtype} of {labels.shape}",
        )
    return labels


def _empty_like(track: Track) -> Track:
    if isinstance(track, np.ndarray):
        return np.zeros_like(track)
    return [mask.empty(mask.height, mask.width) for mask in track]
