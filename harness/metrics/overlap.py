"""Overlap of two masks or tracks in pixels, and the IoUs that papers compute from it.

Both masks are run-lengths or both boolean arrays, of one size: anything else is a MaskError, and
nothing is converted or broadcast.

In papers on reasoning segmentation *gIoU* is the mean of the IoU of each sample and *cIoU* the
quotient of the summed intersections and unions; neither is the Generalised or the Complete IoU of
boxes.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, NoReturn, TypeAlias

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pycocotools import mask as coco

from harness.errors import MaskError
from harness.masks import BoolArray, Rle

Mask: TypeAlias = Rle | BoolArray
"""One frame: a run-length, or a boolean array of height × width."""
Track: TypeAlias = Sequence[Rle] | BoolArray
"""One mask a frame: run-lengths, or a boolean array of frames × height × width."""

LISA_EPSILON = np.float32(1e-5)
"""Added to each union by LISA's IoU, and to the number of samples by its gIoU."""
LISA_CIOU_EPSILON = 1e-10
"""Added to the summed union by LISA's cIoU."""
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Thresholds t of P@t in referring segmentation, as IoUs."""


class Overlap(NamedTuple):
    """Numbers of pixels in both masks and in either."""

    intersection: int
    union: int


def overlap(ground_truth: Mask, predicted: Mask, ignore: Mask | None = None) -> Overlap:
    """Count the pixels of the intersection and of the union, without the pixels of `ignore`.

    Equals the counts of class 1 in LISA's `intersectionAndUnionGPU` (`utils/utils.py`,
    commit 3cb2d43) with `ignore` as its label 255, and those of VisionReasoner's `compute_iou`
    (`evaluation/evaluation_segmentation.py`, commit a455092), which ignores nothing.

    Args:
        ground_truth: Annotated mask: a run-length, or a boolean array of height × width.
        predicted: Mask of the same kind and size.
        ignore: Pixels that do not count, of the same kind and size.

    Raises:
        MaskError: kinds or sizes differ, or an array is not boolean.

    >>> ground_truth, predicted = np.eye(3, dtype=bool), np.ones((3, 3), bool)
    >>> overlap(ground_truth, predicted)
    Overlap(intersection=3, union=9)
    >>> overlap(ground_truth, predicted, ignore=np.tri(3, k=-1) > 0)
    Overlap(intersection=3, union=6)
    >>> overlap(Rle.from_array(ground_truth), Rle.from_array(predicted))
    Overlap(intersection=3, union=9)
    """
    check_masks(ground_truth, predicted, ignore=ignore)
    if isinstance(ground_truth, Rle):
        assert isinstance(predicted, Rle), "check_masks saw one kind"
        assert ignore is None or isinstance(ignore, Rle), "check_masks saw one kind"
        return _overlap_of_runs(ground_truth, predicted, ignore)
    assert not isinstance(predicted, Rle), "check_masks saw one kind"
    assert not isinstance(ignore, Rle), "check_masks saw one kind"
    return _overlap_of_arrays(ground_truth, predicted, ignore)


def _overlap_of_arrays(
    ground_truth: BoolArray, predicted: BoolArray, ignore: BoolArray | None
) -> Overlap:
    """Count without writing a third image to memory.

    With areas a and b, and d pixels that differ (the sum of absolute differences), |A ∪ B| is
    (a + b + d) / 2 and |A ∩ B| is (a + b − d) / 2. The order of pixels does not matter: both masks
    are flattened in the first one's memory order, which copies nothing if both have it.
    """
    if ignore is not None:
        valid = ~ignore
        ground_truth, predicted = ground_truth & valid, predicted & valid
    order: Literal["C", "F"] = "F" if ground_truth.flags.fnc else "C"
    first, second = ground_truth.ravel(order).view(np.uint8), predicted.ravel(order).view(np.uint8)
    differing = cv2.norm(first, second, cv2.NORM_L1)
    area_sum = cv2.sumElems(first)[0] + cv2.sumElems(second)[0]
    return Overlap(int(area_sum - differing) // 2, int(area_sum + differing) // 2)


def _overlap_of_runs(ground_truth: Rle, predicted: Rle, ignore: Rle | None) -> Overlap:
    """Count in the run-lengths, without decoding them to arrays."""
    masks = [_coco(ground_truth), _coco(predicted)]
    shared = coco.merge(masks, intersect=True)
    if ignore is None:
        first, second, intersection = coco.area([*masks, shared]).tolist()
        return Overlap(intersection, first + second - intersection)
    union = coco.merge(masks, intersect=False)
    ignored = [coco.merge([part, _coco(ignore)], intersect=True) for part in (shared, union)]
    remaining = coco.area([shared, union]).astype(np.int64) - coco.area(ignored)
    return Overlap(*remaining.tolist())


def _coco(mask: Rle) -> object:
    # Only for an Rle, which is validated: pycocotools checks nothing.
    return {"size": [mask.height, mask.width], "counts": mask.counts.encode("ascii")}


def region_similarity(
    ground_truth: Track, predicted: Track, void: Track | None = None
) -> NDArray[np.float64]:
    """Return J of each frame, the IoU of the two masks; float64 of shape (frames,), 0 to 1.

    Equal bit for bit to `db_eval_iou` in `davis2017/metrics.py` (davis2017-evaluation, commit
    ac7c43f; the same code is in MeViS, VISA and ReferFormer).

    Args:
        ground_truth: Boolean array of frames × height × width, or one run-length a frame.
        predicted: Predicted masks, as many and of the same size as the true ones.
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
    """Return J of one frame; 1 where neither mask has a pixel that counts.

    Takes boolean arrays of height × width or run-lengths; run-lengths are not decoded.

    >>> region_similarity_frame(np.ones((2, 2), bool), np.eye(2, dtype=bool))
    0.5
    """
    intersection, union = overlap(ground_truth, predicted, void)
    return intersection / union if union else 1.0


def lisa_iou(intersection: int, union: int) -> float:
    """Return the IoU of one sample by LISA: `I / (U + 1e-5)` in float32, plus 1 where U = 0.

    An empty prediction for an empty ground truth scores 1. From a union of 256 pixels on the
    epsilon is lost in float32's rounding, so that a perfect answer scores exactly 1; below, it
    scores a little less. Source: `validate` in `train_ds.py` of LISA (commit 3cb2d43), whose gIoU
    divides the sum of these IoUs by `count + 1e-5`, and whose cIoU is `sum(I) / (sum(U) + 1e-10)`.

    >>> lisa_iou(1, 3), lisa_iou(0, 0), lisa_iou(400, 400), lisa_iou(4, 4)
    (0.33333221077919006, 1.0, 1.0, 0.9999974966049194)
    """
    value = np.float32(intersection) / (np.float32(union) + LISA_EPSILON)
    return float(value + np.float32(1.0)) if union == 0 else float(value)


def visionreasoner_iou(intersection: int, union: int) -> float:
    """Return the IoU of one sample by VisionReasoner: `I / U`, and 0 where U = 0.

    An empty prediction for an empty ground truth scores 0, against LISA's 1. Source:
    `evaluation/calculate_iou_with_bbox.py` of VisionReasoner (commit a455092).

    >>> visionreasoner_iou(1, 3), visionreasoner_iou(0, 0)
    (0.3333333333333333, 0.0)
    """
    return intersection / union if union > 0 else 0.0


def precision_at(
    ious: ArrayLike, *, thresholds: Sequence[float] = THRESHOLDS
) -> NDArray[np.float64]:
    """Return P@t, the fraction of samples with IoU ≥ t, for each threshold; float64.

    Scorers call it with one sample: each fraction is 0 or 1, and the mean over samples is P@t.
    Without any sample all fractions are 0. Source: the convention of the referring
    segmentation literature, as in ReLA's `refer_evaluation.py` (commit 3ca9551).

    >>> precision_at([0.5, 0.75, 0.95, 0.2]).tolist()
    [0.75, 0.5, 0.5, 0.25, 0.25]
    """
    values = np.asarray(ious, dtype=np.float64).reshape(-1, 1)
    reached = np.count_nonzero(values >= np.asarray(thresholds, dtype=np.float64), axis=0)
    return np.asarray(reached / max(len(values), 1))


def check_masks(ground_truth: Mask, predicted: Mask, *, ignore: Mask | None = None) -> None:
    """Raise MaskError unless all masks are of one kind and of one size.

    A kind is a run-length or a boolean array of height × width. Nothing is converted: an array of
    probabilities or of labels has to become boolean where its threshold or label is known.

    >>> check_masks(np.ones((2, 3), bool), np.ones((2, 4), bool))
    Traceback (most recent call last):
      ...
    harness.errors.MaskError: masks to compare: expected run-lengths of one size or boolean arrays \
of one height × width, found 2 × 3 bool array and 2 × 4 bool array
    """
    masks = [ground_truth, predicted] if ignore is None else [ground_truth, predicted, ignore]
    kinds = {_comparison_key(mask, 2) for mask in masks}
    if len(kinds) != 1 or None in kinds:
        _refuse("masks to compare", "height × width", masks)


def check_tracks(ground_truth: Track, predicted: Track, *, ignore: Track | None = None) -> None:
    """Raise MaskError unless the tracks are of one kind and have equally many frames, at least one.

    Arrays must also be of one size; run-lengths are checked frame by frame by `check_masks`.
    """
    tracks = [ground_truth, predicted] if ignore is None else [ground_truth, predicted, ignore]
    if any(isinstance(track, np.ndarray) for track in tracks):
        kinds = {_comparison_key(track, 3) for track in tracks}
    else:
        kinds = {("frames", len(track)) if len(track) else None for track in tracks}
    if len(kinds) != 1 or None in kinds:
        _refuse("tracks to compare", "frames × height × width", tracks)


def each_frame(
    metric: Callable[[Mask, Mask, Mask | None], float],
    ground_truth: Track,
    predicted: Track,
    void: Track | None,
) -> NDArray[np.float64]:
    """Return a metric of each frame of two tracks; float64 of shape (frames,)."""
    check_tracks(ground_truth, predicted, ignore=void)
    voids = [None] * len(ground_truth) if void is None else void
    frames = zip(ground_truth, predicted, voids, strict=True)
    return np.array([metric(*frame) for frame in frames], dtype=np.float64)


def _comparison_key(mask: object, dimensions: int) -> tuple[object, ...] | None:
    """Return what comparable masks have in common, (kind, *size); None for an unfit mask.

    An array needs to be boolean, of `dimensions` axes and not empty.
    """
    if isinstance(mask, Rle):
        return "run-length", mask.height, mask.width
    if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.ndim == dimensions:
        return ("array", *mask.shape) if mask.size else None
    return None


def _refuse(what: str, shape: str, operands: Sequence[object]) -> NoReturn:
    raise MaskError(
        what,
        expected=f"run-lengths of one size or boolean arrays of one {shape}",
        found=" and ".join(map(_describe, operands)),
    )


def _describe(operand: object) -> str:
    if isinstance(operand, Rle):
        return f"{operand.height} × {operand.width} run-length"
    if isinstance(operand, np.ndarray):
        return f"{' × '.join(map(str, operand.shape)) or 'scalar'} {operand.dtype} array"
    if isinstance(operand, Sequence):
        return f"{len(operand)} frame(s)"
    return type(operand).__name__
