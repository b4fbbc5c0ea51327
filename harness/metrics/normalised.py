"""LLM-Seg40K: IoU of a sample, resizing of predictions, and cIoU over resized masks (ncIoU).

*mIoU* in tables of this benchmark and of referring segmentation is gIoU, the mean over samples of
`llmseg_iou(*overlap(ground_truth, predicted))`, not a mean over classes with the background as one.
"""

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray, Rle, check_size
from harness.metrics.overlap import Mask, Overlap, check_masks, overlap

LLMSEG_EPSILON = np.float32(1e-8)
SIDE = 1024  # pixels of a side of the square to which masks are resized


def llmseg_iou(intersection: int, union: int) -> float:
    """Return the IoU of one sample by LLM-Seg: `I / (U + 1e-8)` in float32, plus 1 where U = 0.

    The epsilon is lost in float32's rounding whenever U > 0, so that a perfect answer scores
    exactly 1, unlike with LISA's larger epsilon. Source: `validate_threshold` in
    `finetune_llmseg.py` of LLMSeg (commit 65147a9), whose gIoU divides the sum of these IoUs by
    `count + 1e-5`, and whose cIoU is `sum(I) / (sum(U) + 1e-10)`.

    >>> llmseg_iou(1, 3), llmseg_iou(4, 4), llmseg_iou(0, 0)
    (0.3333333432674408, 1.0, 1.0)
    """
    value = np.float32(intersection) / (np.float32(union) + LLMSEG_EPSILON)
    return float(value + np.float32(1.0)) if union == 0 else float(value)


def nearest_resize(mask: Mask, *, height: int, width: int) -> Mask:
    """Return a mask resized to height × width, of the same kind (run-length or array).

    Pixel i of a row is copied from pixel `floor(i · old / new)` with the quotient in float32, as in
    `torch.nn.functional.interpolate(mode="nearest")`; OpenCV and Pillow choose other pixels. LLMSeg
    resizes a *prediction* that is not of the size of its annotation (`finetune_llmseg.py`, commit
    65147a9). Annotations are resized for ncIoU only.

    Raises:
        MaskError: an image cannot have that size, or the mask is not boolean.

    >>> nearest_resize(np.eye(2, dtype=bool), height=3, width=4).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [0, 0, 1, 1]])
    """
    check_size(height, width, "size to resize to")
    check_masks(mask, mask)
    if isinstance(mask, Rle):
        return Rle.from_array(_resize_mask(mask.to_array(), height, width))
    return _resize_mask(mask, height, width)


def normalised_overlap(
    ground_truth: Mask, predicted: Mask, ignore: Mask | None = None, *, side: int = SIDE
) -> Overlap:
    """Return the overlap of masks resized to side × side; ncIoU is `sum(I) / (sum(U) + 1e-10)`.

    Summed over images of different sizes, plain cIoU gives large images more weight; here all have
    the same. Source: the commented lines of `validate_threshold` in
    `finetune_llmseg.py` of LLMSeg (commit 65147a9), which is how the paper's third column is made.

    Args:
        ground_truth: Annotated mask: a run-length, or a boolean array of height × width.
        predicted: Mask of the same kind; its size may be another one.
        ignore: Pixels that do not count, of the size of `ground_truth`.
        side: Pixels of a side of the square.

    Raises:
        MaskError: the masks are not of one kind, or an array is not boolean.

    >>> normalised_overlap(np.ones((2, 2), bool), np.eye(3, dtype=bool), side=6)
    Overlap(intersection=12, union=36)
    """
    if ignore is not None:
        check_masks(ground_truth, ignore)
        ignore = nearest_resize(ignore, height=side, width=side)
    resized = [nearest_resize(mask, height=side, width=side) for mask in (ground_truth, predicted)]
    return overlap(resized[0], resized[1], ignore)


def _resize_mask(mask: BoolArray, height: int, width: int) -> BoolArray:
    rows, columns = _sources(mask.shape[0], height), _sources(mask.shape[1], width)
    return mask.take(rows, axis=0).take(columns, axis=1)


def _sources(old: int, new: int) -> NDArray[np.int64]:
    """Return the index of the row (or column), of `old` ones, that each of `new` ones copies."""
    scale = np.float32(old) / np.float32(new)
    places = np.arange(new, dtype=np.float32) * scale
    return np.minimum(places.astype(np.int64), old - 1)
