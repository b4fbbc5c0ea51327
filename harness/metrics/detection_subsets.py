"""COCO's statistics of many subsets of images, from boxes that were matched once.

`COCOeval.evaluate` matches boxes within one image and category. Leaving out images changes
nothing there; it only leaves their boxes out of the ranking of a category. So a ranking is sorted
once, and only the categories that a subset lacks something of are added up again.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray

if TYPE_CHECKING:
    from pycocotools.cocoeval import COCOeval

FloatArray = NDArray[np.float64]
AREAS = {"s": 1, "m": 2, "l": 3}
"""Index of each range of areas in COCOeval's list; the first range covers all areas."""


class Ranking(NamedTuple):
    """The boxes of one category that count, by falling confidence."""

    right: BoolArray
    """Thresholds × boxes: True where a box matches a true one."""
    wrong: BoolArray
    block: NDArray[np.int64]
    """Block of each box."""
    objects: NDArray[np.int64]
    """Number of true objects of each block."""
    touched: NDArray[np.int64]
    """The blocks that have anything of this category."""


def subset_statistics(
    evaluator: "COCOeval", block_of: Mapping[tuple[int, int], int], kept: FloatArray, name: str
) -> FloatArray:
    """Compute one of COCO's twelve numbers for each subset of blocks; -1 without a true object.

    Args:
        evaluator: A `pycocotools` `COCOeval` after `evaluate()`, with its own constants.
        block_of: The block of each (image, category), by their numbers in the evaluator.
        kept: Rows of 1 and 0, one for each block.
        name: As in `detection.STATISTICS`.

    Equal to `accumulate()` and `summarize()` of each subset alone, but for the order of adding up.
    """
    constants = evaluator.params
    area = AREAS.get(name[2:], 0)
    boxes = int(name.partition("@")[2] or constants.maxDets[-1])
    threshold = {"AP50": 0.5, "AP75": 0.75}.get(name)
    rows = slice(None) if threshold is None else constants.iouThrs == threshold
    recalls = constants.recThrs if name.startswith("AP") else None
    above, below = np.zeros((2, len(kept)))
    for ranking in _rankings(evaluator, block_of, kept.shape[1], area=area, boxes=boxes):
        known: dict[bytes, tuple[float, int]] = {}
        for row, marks in enumerate(kept[:, ranking.touched] > 0):
            key = marks.tobytes()
            if key not in known:
                known[key] = _added_up(ranking, kept[row] > 0, rows, recalls)
            above[row] += known[key][0]
            below[row] += known[key][1]
    return np.where(below > 0, above / np.maximum(below, 1), -1.0)


def _rankings(
    evaluator: "COCOeval",
    block_of: Mapping[tuple[int, int], int],
    blocks: int,
    *,
    area: int,
    boxes: int,
) -> Iterator[Ranking]:
    """The ranking of each category, of at most `boxes` boxes an image."""
    constants = evaluator.params
    images = len(constants.imgIds)
    for place in range(len(constants.catIds)):
        start = (place * len(constants.areaRng) + area) * images
        cells = [cell for cell in evaluator.evalImgs[start : start + images] if cell is not None]
        cells = [cell for cell in cells if (cell["image_id"], cell["category_id"]) in block_of]
        if not cells:
            continue
        of = [block_of[cell["image_id"], cell["category_id"]] for cell in cells]
        scores = np.concatenate([cell["dtScores"][:boxes] for cell in cells])
        order = np.argsort(-scores, kind="mergesort")  # as COCO: equal ones by image
        matched, ignored = (
            np.concatenate([np.asarray(cell[key])[:, :boxes] for cell in cells], axis=1)[:, order]
            > 0
            for key in ("dtMatches", "dtIgnore")
        )
        lengths = [len(cell["dtScores"][:boxes]) for cell in cells]
        objects = [np.count_nonzero(np.asarray(cell["gtIgnore"]) == 0) for cell in cells]
        yield Ranking(
            right=matched & ~ignored,
            wrong=~matched & ~ignored,
            block=np.repeat(of, lengths)[order],
            objects=np.bincount(np.repeat(of, objects), minlength=blocks),
            touched=np.unique(of),
        )


def _added_up(
    ranking: Ranking, kept: BoolArray, rows: slice | BoolArray, recalls: FloatArray | None
) -> tuple[float, int]:
    """Sum and number of a category's precisions at `recalls`, or of its recalls if that is None.

    Args:
        ranking: The category's boxes.
        kept: Which blocks count.
        rows: Which thresholds of IoU count.
        recalls: Where precision is taken, in rising order.
    """
    objects = ranking.objects[kept].sum()
    if objects == 0:
        return 0.0, 0
    chosen = kept[ranking.block]
    right, wrong = (
        hits[rows][:, chosen].cumsum(axis=1, dtype=np.float64)
        for hits in (ranking.right, ranking.wrong)
    )
    recall = right / objects
    if recalls is None:
        return float(recall[:, -1].sum()) if recall.size else 0.0, len(right)
    precision = right / (wrong + right + np.spacing(1))
    best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    padded = np.pad(best, ((0, 0), (0, 1)))  # beyond the last recall that is reached: 0
    total = sum(
        float(values[np.searchsorted(reached, recalls)].sum())
        for reached, values in zip(recall, padded, strict=True)
    )
    return total, len(recall) * len(recalls)
