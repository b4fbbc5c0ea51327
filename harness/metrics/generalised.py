"""Generalised referring segmentation (gRefCOCO): an expression refers to any number of objects.

"No target" is a separate answer, so that the IoU of a sample has four cases: there is a target or
not, and one is predicted or not. The scores are those of ReLA's code (`rela_…`) and of
VisionReasoner's variant (`nonobject_…`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray, Rle
from harness.metrics.boxes import any_box_hits
from harness.metrics.overlap import Mask, Overlap
from harness.types import Box

THRESHOLDS = (0.7, 0.8, 0.9)
"""IoU thresholds of ReLA's Pr@t, for `precision_at`; it counts samples with a target."""
SIDE = 480
"""Pixels of a side of the square on which ReLA compares masks, its IMAGE_SIZE."""


class Credit(NamedTuple):
    """Contribution of one sample: to gIoU, and to the sums of cIoU."""

    iou: float
    intersection: int
    union: int


def rela_polygon(corners: Sequence[float], width: int, height: int) -> list[float]:
    """Return a polygon [x, y, x, y, …] of an image in coordinates of ReLA's square.

    If all numbers are of type int, the scaled ones are truncated to int too: detectron2 scales in
    place, in an integer array. COCO's code draws the true mask, the union of an expression's
    polygons, on the square; no annotated mask is resized.

    Equal to `RefCOCOMapper` in `gres_model/data/dataset_mappers/refcoco_mapper.py` of ReLA (commit
    3ca9551) with the `Resize` of detectron2 (commit 02b5c4e).

    >>> rela_polygon([0, 0, 5.5, 10, 3, 4], 640, 240), rela_polygon([1, 1, 5, 9, 3, 4], 640, 240)
    ([0.0, 0.0, 4.125, 20.0, 2.25, 8.0], [0, 2, 3, 18, 2, 8])
    """
    points = np.array(corners).reshape(-1, 2)
    points[:, 0] = points[:, 0] * (SIDE / width)
    points[:, 1] = points[:, 1] * (SIDE / height)
    return [float(side) if points.dtype.kind == "f" else int(side) for side in points.ravel()]


def rela_resize(mask: Rle) -> Rle:
    """Return a predicted mask resized from the image's size to ReLA's square, by nearest pixels.

    ReLA's own network predicts on the square, so its evaluation resizes nothing. The pixels are
    those that detectron2 would take to resize a mask: Pillow's `NEAREST`.

    >>> rela_resize(Rle.from_array(np.eye(3, dtype=bool))).area == 3 * 160 * 160
    True
    """
    rows, columns = (_nearest_index(side) for side in (mask.height, mask.width))
    return Rle.from_array(mask.to_array()[rows[:, None], columns])


def _nearest_index(side: int) -> NDArray[np.int64]:
    """Return the nearest of an image's `side` rows (or columns) for each row of the square."""
    step = side / SIDE
    # As in Pillow, steps are added: a product may be rounded into the neighbouring pixel.
    return np.add.accumulate([step * 0.5, *[step] * (SIDE - 1)]).astype(np.int64).clip(max=side - 1)


def rela_credit(overlap: Overlap, *, no_target: bool, predicted_no_target: bool) -> Credit:
    """Return IoU, intersection and union of one sample by ReLA's four cases.

    The counts are of masks on ReLA's square for `res/rela`, of the image's own pixels for
    `res/rela_pixels`.

    | there is | predicted | IoU | intersection | union |
    | --- | --- | --- | --- | --- |
    | no target | no target | 1 | 0 | 0 |
    | no target | a mask | 0 | 0 | U |
    | a target | no target | 0 | 0 | U, of the mask that is predicted all the same |
    | a target | a mask | I / U, and 0 where U = 0 | I | U |

    gIoU is the mean of the IoU over all samples, cIoU `sum(I) / sum(U)`. N-acc is the share of the
    samples without a target for which "no target" is predicted, `Ratio(predicted_no_target, 1)`;
    T-acc is the share of the samples with a target for which a mask is predicted,
    `Ratio(not predicted_no_target, 1)`. If all samples have a target, the official code prints 0
    for both.

    Equal to `ReferEvaluator.evaluate` in `gres_model/evaluation/refer_evaluation.py` of ReLA
    (commit 3ca9551).

    >>> rela_credit(Overlap(30, 60), no_target=False, predicted_no_target=False)
    Credit(iou=0.5, intersection=30, union=60)
    >>> rela_credit(Overlap(30, 60), no_target=False, predicted_no_target=True)
    Credit(iou=0.0, intersection=0, union=60)
    >>> rela_credit(Overlap(0, 40), no_target=True, predicted_no_target=False)
    Credit(iou=0.0, intersection=0, union=40)
    >>> rela_credit(Overlap(0, 40), no_target=True, predicted_no_target=True)
    Credit(iou=1.0, intersection=0, union=0)
    """
    if no_target:
        return Credit(1.0, 0, 0) if predicted_no_target else Credit(0.0, 0, overlap.union)
    shared = 0 if predicted_no_target else overlap.intersection
    return Credit(shared / overlap.union if overlap.union else 0.0, shared, overlap.union)


def nonobject_credit(overlap: Overlap, *, no_target: bool, boxes: int) -> Credit:
    """Return IoU, intersection and union of one sample by VisionReasoner's variant.

    Here a prediction without any box means "no target". The IoU is 1 if there is no target and no
    box; in every other case it is that of the masks, and 0 if both are empty. Unlike in
    `rela_credit` the masks' own intersection and union always count in cIoU. N-Acc is the share of
    samples without a target that were answered without a box, `Ratio(not boxes, 1)`.

    Equal to `evaluation/evaluation_segmentation.py` and `calculate_iou_with_bbox_nonobj.py` of
    VisionReasoner's later repository (JIA-Lab-research, commit c013132); the earlier one
    (dvlab-research, commit a455092) has no such variant.

    >>> nonobject_credit(Overlap(0, 0), no_target=True, boxes=0)
    Credit(iou=1.0, intersection=0, union=0)
    >>> nonobject_credit(Overlap(0, 40), no_target=True, boxes=1)
    Credit(iou=0.0, intersection=0, union=40)
    >>> nonobject_credit(Overlap(30, 60), no_target=False, boxes=0)
    Credit(iou=0.5, intersection=30, union=60)
    """
    iou = overlap.intersection / overlap.union if overlap.union else 0.0
    return Credit(1.0 if no_target and boxes == 0 else iou, *overlap)


def nonobject_box_hit(ground_truth: Box | None, predicted: Sequence[Box]) -> bool:
    """Return True if one predicted box, or the hull of all, has an IoU above 0.5 with the true box.

    Without a true box it is a hit to predict none. The mean is what VisionReasoner's later
    repository prints as `bbox_AP` (`evaluation/evaluation_segmentation.py`, commit c013132). Its
    earlier repository did not accept the hull, so that their numbers cannot be compared.

    >>> halves = [Box(0, 0, 10, 4), Box(0, 4, 10, 8)]
    >>> nonobject_box_hit(Box(0, 0, 10, 10), halves), nonobject_box_hit(None, [])
    (True, True)
    """
    if ground_truth is None:
        return not predicted
    if not predicted:
        return False
    sides = np.asarray(predicted, dtype=np.float64)
    hull = Box(*sides[:, :2].min(axis=0).tolist(), *sides[:, 2:].max(axis=0).tolist())
    return any_box_hits(ground_truth, [*predicted, hull])


def nonobject_box(mask: Mask) -> Box | None:
    """Return the box that VisionReasoner takes from a mask if the data have none; None if empty.

    Right and bottom are the *last* column and row with foreground, although VisionReasoner's IoU
    takes them as exclusive: the box is one pixel short on two sides, and a mask of one row has a
    box without area (`get_bbox` in `evaluation/evaluation_segmentation.py`, commit c013132).

    >>> nonobject_box(np.array([[0, 0, 0], [0, 1, 1]]) > 0)
    Box(left=1, top=1, right=2, bottom=1)
    """
    pixels: BoolArray = mask.to_array() if isinstance(mask, Rle) else mask
    rows, columns = (np.flatnonzero(pixels.any(axis=axis)) for axis in (1, 0))
    if rows.size == 0:
        return None
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1]))
