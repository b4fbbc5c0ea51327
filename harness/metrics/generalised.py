"""gRefCOCO's generalised referring segmentation: several objects may be meant, or none.

"No target" is an answer of its own. What it earns depends on whether there is a target, in four
cells; the accuracies of the answer itself are quotients over two different sets of samples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.masks import BoolArray, Rle
from harness.metrics.boxes import any_box_hits
from harness.metrics.operands import Mask
from harness.metrics.overlap import Overlap
from harness.types import Box

THRESHOLDS = (0.7, 0.8, 0.9)
"""Of ReLA's Pr@t, over samples with a target: `precision_at(iou, thresholds=THRESHOLDS)`."""


class Credit(NamedTuple):
    """What one sample adds: to gIoU, and to the sums of cIoU."""

    iou: float
    intersection: int
    union: int


def rela_credit(counts: Overlap, *, no_target: bool, said_no_target: bool) -> Credit:
    """IoU, intersection and union of one sample by ReLA's four cells.

    | there is | it is said | IoU | intersection | union |
    | --- | --- | --- | --- | --- |
    | no target | no target | 1 | 0 | 0 |
    | no target | a mask | 0 | 0 | U |
    | a target | no target | 0 | 0 | U, of the mask that is predicted all the same |
    | a target | a mask | I / U, and 0 where U = 0 | I | U |

    gIoU is the mean of the IoU over all samples, cIoU `sum(I) / sum(U)`. N-acc is the share of the
    samples without target for which that is said, `Ratio(said_no_target, 1)`; T-acc the share of
    the others for which a target is seen, `Ratio(not said_no_target, 1)`; each sample counts in one
    of them. Where no sample lacks a target the official code prints 0 for both.

    Equal to `ReferEvaluator.evaluate` in `gres_model/evaluation/refer_evaluation.py` of ReLA
    (commit 3ca9551).

    >>> rela_credit(Overlap(30, 60), no_target=False, said_no_target=False)
    Credit(iou=0.5, intersection=30, union=60)
    >>> rela_credit(Overlap(30, 60), no_target=False, said_no_target=True)
    Credit(iou=0.0, intersection=0, union=60)
    >>> rela_credit(Overlap(0, 40), no_target=True, said_no_target=False)
    Credit(iou=0.0, intersection=0, union=40)
    >>> rela_credit(Overlap(0, 40), no_target=True, said_no_target=True)
    Credit(iou=1.0, intersection=0, union=0)
    """
    if no_target:
        return Credit(1.0, 0, 0) if said_no_target else Credit(0.0, 0, counts.union)
    shared = 0 if said_no_target else counts.intersection
    return Credit(shared / counts.union if counts.union else 0.0, shared, counts.union)


def nonobject_credit(counts: Overlap, *, no_target: bool, boxes: int) -> Credit:
    """IoU, intersection and union of one sample by VisionReasoner's variant.

    There the answer "no target" is not to predict any box. It earns an IoU of 1 where the
    annotation is empty; in every other case the IoU is that of the masks, and 0 where both are
    empty. Unlike in `rela_credit` the sums of cIoU always take the masks as they are. N-Acc is the
    share of empty annotations that were answered without a box, `Ratio(not boxes, 1)` over those.

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
    iou = counts.intersection / counts.union if counts.union else 0.0
    return Credit(1.0 if no_target and boxes == 0 else iou, *counts)


def nonobject_box_hit(truth: Box | None, predicted: Sequence[Box]) -> bool:
    """Whether one predicted box, or the hull of all, has an IoU above 0.5 with the true box.

    Without a true box it is right to predict none. The mean is what VisionReasoner's later
    repository prints as `bbox_AP`; the hull was not accepted before, so that numbers of the two
    cannot be compared (`evaluation/evaluation_segmentation.py`, commit c013132).

    >>> halves = [Box(0, 0, 10, 4), Box(0, 4, 10, 8)]
    >>> nonobject_box_hit(Box(0, 0, 10, 10), halves), nonobject_box_hit(None, [])
    (True, True)
    """
    if truth is None:
        return not predicted
    if not predicted:
        return False
    sides = np.asarray(predicted, dtype=np.float64)
    hull = Box(*sides[:, :2].min(axis=0).tolist(), *sides[:, 2:].max(axis=0).tolist())
    return any_box_hits(truth, [*predicted, hull])


def nonobject_box(mask: Mask) -> Box | None:
    """The true box that VisionReasoner takes of a mask where the data have none; None if empty.

    Right and bottom are the *last* column and row with foreground, although the IoU that it is
    compared by takes them as exclusive: the box is one pixel short on two sides, and a mask of one
    row has a box without area (`get_bbox` in `evaluation/evaluation_segmentation.py`, commit
    c013132).

    >>> nonobject_box(np.array([[0, 0, 0], [0, 1, 1]]) > 0)
    Box(left=1, top=1, right=2, bottom=1)
    """
    pixels: BoolArray = mask.to_array() if isinstance(mask, Rle) else mask
    rows, columns = (np.flatnonzero(pixels.any(axis=axis)) for axis in (1, 0))
    if rows.size == 0:
        return None
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1]))
