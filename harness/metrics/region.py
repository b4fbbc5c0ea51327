"""Region similarity J of the DAVIS challenge."""

import numpy as np
from numpy.typing import NDArray

from harness.metrics.operands import Mask, Track, each_frame
from harness.metrics.overlap import overlap


def region_similarity(
    ground_truth: Track, predicted: Track, void: Track | None = None
) -> NDArray[np.float64]:
    """J of each frame: the IoU of the two masks; float64 of shape (frames,), from 0 to 1.

    Equal bit for bit to `db_eval_iou` in `davis2017/metrics.py` (davis2017-evaluation, commit
    ac7c43f; the same code is in MeViS, VISA and ReferFormer).

    Args:
        ground_truth: Boolean array of frames × height × width, or one run-length a frame.
        predicted: The same kind, with as many frames of the same size.
        void: Pixels that do not count, as in DAVIS' annotations with value 255.

    Raises:
        MaskError: kinds, sizes or numbers of frames differ, or an array is not boolean.

    >>> ground_truth = np.array([[[1, 1], [0, 0]], [[0, 0], [0, 0]]], dtype=bool)
    >>> predicted = np.array([[[1, 0], [1, 0]], [[0, 0], [0, 0]]], dtype=bool)
    >>> region_similarity(ground_truth, predicted)
    array([0.33333333, 1.        ])
    """
    return each_frame(region_similarity_frame, ground_truth, predicted, void)


def region_similarity_frame(ground_truth: Mask, predicted: Mask, void: Mask | None = None) -> float:
    """J of one frame; 1 where neither mask has a pixel that counts.

    Takes boolean arrays of height × width or run-lengths; run-lengths are not decoded.

    >>> region_similarity_frame(np.ones((2, 2), bool), np.eye(2, dtype=bool))
    0.5
    """
    intersection, union = overlap(ground_truth, predicted, void)
    return intersection / union if union else 1.0
