"""COCO's statistics of many subsets of images, for confidence intervals, from one matching.

`COCOeval.evaluate` matches boxes within one image and category, so leaving out images changes no
match: it only removes their boxes from the ranking of a category. Here each category's ranking is
sorted once, and its precisions are summed once for all subsets that agree on the category's images.
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
    """Thresholds × boxes: True where a box matches none. Neither: it does not count."""
    block: NDArray[np.int64]
    """Number of each box's block."""
    objects: NDArray[np.int64]
    """Number of this category's true objects in each block."""
    touched: NDArray[np.int64]
    """Blocks with a true or predicted box of this category."""


def subset_statistics(
    evaluator: "COCOeval", block_of: Mapping[tuple[int, int], int], weights: FloatArray, name: str
) -> FloatArray:
    """Compute one of COCO's twelve numbers for each subset of blocks; -1 without a true object.

    Args:
        evaluator: A `pycocotools` `COCOeval` after `evaluate()`, with its own constants.
        block_of: The block of each (image, category), by their numbers in the evaluator.
        weights: Subsets × blocks: 1 if the block is in the subset, else 0.
        name: Name of the statistic in `detection.STATISTICS`.

    Equal to `accumulate()` and `summarize()` of each subset alone, but for the order of additions.
    """
    constants = evaluator.params
    area = AREAS.get(name[2:], 0)  # `APs` or `ARs`
    boxes = int(name.partition("@")[2] or constants.maxDets[-1])  # `AR@10`
    threshold = {"AP50": 0.5, "AP75": 0.75}.get(name)
    rows = slice(None) if threshold is None else constants.iouThrs == threshold
    recalls = constants.recThrs if name.startswith("AP") else None
    sums, n_valid = np.zeros((2, len(weights)))
    for ranking in _rankings(evaluator, block_of, weights.shape[1], area=area, boxes=boxes):
        by_subset: dict[bytes, tuple[float, int]] = {}
        for row, marks in enumerate(weights[:, ranking.touched] > 0):
            key = marks.tobytes()
            if key not in by_subset:
                by_subset[key] = _sum_and_count(ranking, weights[row] > 0, rows, recalls)
            sums[row] += by_subset[key][0]
            n_valid[row] += by_subset[key][1]
    return np.where(n_valid > 0, sums / np.maximum(n_valid, 1), -1.0)


def _rankings(
    evaluator: "COCOeval",
    block_of: Mapping[tuple[int, int], int],
    blocks: int,
    *,
    area: int,
    boxes: int,
) -> Iterator[Ranking]:
    """Yield the ranking of each category that has a box, true or predicted.

    Args:
        evaluator: COCO's evaluator after `evaluate`.
        block_of: The block of each (image, category), by their numbers in the evaluator.
        blocks: Number of blocks.
        area: Index of the range of areas; see `AREAS`.
        boxes: Number of the most confident boxes of an image that count.
    """
    constants = evaluator.params
    images = len(constants.imgIds)
    for category_index in range(len(constants.catIds)):
        start = (category_index * len(constants.areaRng) + area) * images
        cells = [cell for cell in evaluator.evalImgs[start : start + images] if cell is not None]
        cells = [cell for cell in cells if (cell["image_id"], cell["category_id"]) in block_of]
        if not cells:
            continue
        cell_blocks = [block_of[cell["image_id"], cell["category_id"]] for cell in cells]
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
            block=np.repeat(cell_blocks, lengths)[order],
            objects=np.bincount(np.repeat(cell_blocks, objects), minlength=blocks),
            touched=np.unique(cell_blocks),
        )


def _sum_and_count(
    ranking: Ranking, is_kept: BoolArray, rows: slice | BoolArray, recalls: FloatArray | None
) -> tuple[float, int]:
    """Return (sum, number) of a category's precisions, or of its recalls.

    Args:
        ranking: The category's boxes.
        is_kept: True for each block that counts.
        rows: Thresholds of IoU that count.
        recalls: Recalls at which the precision is taken, rising; None: take the final recall.
    """
    objects = ranking.objects[is_kept].sum()
    if objects == 0:
        return 0.0, 0
    chosen = is_kept[ranking.block]
    right, wrong = (
        hits[rows][:, chosen].cumsum(axis=1, dtype=np.float64)
        for hits in (ranking.right, ranking.wrong)
    )
    recall = right / objects
    if recalls is None:
        return float(recall[:, -1].sum()) if recall.size else 0.0, len(right)
    precision = right / (wrong + right + np.spacing(1))
    best_precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    padded = np.pad(best_precision, ((0, 0), (0, 1)))  # 0 beyond the last recall that is reached
    total = sum(
        float(values[np.searchsorted(reached, recalls)].sum())
        for reached, values in zip(recall, padded, strict=True)
    )
    return total, len(recall) * len(recalls)
