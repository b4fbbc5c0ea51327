"""COCO's average precision of boxes, by pycocotools or by a faster library that is equal to it.

A scorer returns a `Corpus` of `detection_item`s, each the true and predicted boxes of one category
in one image; `average_precision` gives the function that turns all items into one number. The
library that computes it is an explicit setting, which a run records, and does not depend on what is
installed.
"""

import contextlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError, MissingDependency, UsageError
from harness.metrics.detection_subsets import subset_statistics
from harness.types import Box

if TYPE_CHECKING:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

Library: TypeAlias = Literal["pycocotools", "hotcoco"]
"""Libraries that compute AP: only those equal to pycocotools to the last bit (hotcoco 1.3.0 is)."""
STATISTICS = (
    "AP",
    "AP50",
    "AP75",
    "APs",
    "APm",
    "APl",
    "AR@1",
    "AR@10",
    "AR@100",
    "ARs",
    "ARm",
    "ARl",
)
"""The twelve numbers that COCO prints, in its order."""
PLACES: Mapping[Library, tuple[str, str]] = MappingProxyType(
    {"pycocotools": ("pycocotools.coco", "pycocotools.cocoeval"), "hotcoco": ("hotcoco", "hotcoco")}
)
"""Modules of each library that have the class of its data set, and of its evaluation."""
Name: TypeAlias = Any
"""A text or a number, of one type in all items: images and categories are sorted by name."""


class Detections(TypedDict):
    """True and predicted boxes of one category in one image, in pixels."""

    image: Name
    category: Name
    ground_truth: list[list[float]]
    """Rows of left, top, right, bottom, area, 1 for a crowd or 0."""
    predicted: list[list[float]]
    """Rows of left, top, right, bottom, score."""
    sizes: NotRequired[list[list[float]]]
    """(width, height) of each true box as annotated; see `detection_item`."""


class CocoData(TypedDict):
    """Annotations in COCO's layout."""

    images: list[dict[str, int]]
    annotations: list[dict[str, object]]
    categories: list[dict[str, object]]


def detection_item(
    image: str | int,
    category: str | int,
    *,
    ground_truth: Sequence[Box],
    predicted: Sequence[Box],
    scores: Sequence[float],
    crowd: Sequence[bool] | None = None,
    areas: Sequence[float] | None = None,
    sizes: Sequence[tuple[float, float]] | None = None,
) -> Detections:
    """Return one item of a `Corpus`: true and predicted boxes of one category in one image.

    Args:
        image: Name or number of the image, of one type in all items.
        category: Name or number of the category, likewise.
        ground_truth: True boxes in pixels.
        predicted: Predicted boxes in pixels.
        scores: Confidence of each predicted box.
        crowd: Which true boxes stand for a crowd, which may match several predictions; default
            none.
        areas: Square pixels of each true object, by which COCO sorts them into small, medium and
            large; default the area of its box.
        sizes: (width, height) of each true box as annotated; default `right - left` and
            `bottom - top`, which may differ in the last bit, and so may an IoU.

    Raises:
        DataError: a list of another length, or a number that is not finite.

    >>> box = Box(0, 0, 4, 4)
    >>> detection_item("a", "cat", ground_truth=[box], predicted=[box], scores=[0.5])["predicted"]
    [[0, 0, 4, 4, 0.5]]
    """
    crowd = [False] * len(ground_truth) if crowd is None else crowd
    areas = [_area(box) for box in ground_truth] if areas is None else areas
    n_sizes = len(ground_truth) if sizes is None else len(sizes)
    if not len(ground_truth) == len(crowd) == len(areas) == n_sizes or len(predicted) != len(
        scores
    ):
        raise DataError(
            f"boxes of {category!r} in {image!r}",
            expected="lists of one length",
            found=f"{len(ground_truth)} true, {len(crowd)}, {len(areas)}, {n_sizes}; "
            f"{len(predicted)} predicted, {len(scores)}",
        )
    true = [
        [*box, area, int(is_crowd)]
        for box, area, is_crowd in zip(ground_truth, areas, crowd, strict=True)
    ]
    output = [[*box, score] for box, score in zip(predicted, scores, strict=True)]
    for row in (*true, *output, *(sizes or ())):
        if not all(map(math.isfinite, row)):
            raise DataError(
                f"box of {category!r} in {image!r}", expected="finite numbers", found=repr(row)
            )
    item: Detections = {
        "image": image,
        "category": category,
        "ground_truth": true,
        "predicted": output,
    }
    if sizes is not None:
        item["sizes"] = [list(size) for size in sizes]
    return item


def area_score(box: Box, size: tuple[int, int], *, has_ground_truth: bool) -> float:
    """Return the confidence that VisionReasoner's evaluation gives a box: its share of the image.

    It is 0 if the category has no true box in the image. AP with these scores, which rank boxes by
    size, is a metric of its own, `coco_ap_area_score`. Equal to `process_batch` in
    `evaluation/evaluation_coco.py` (VisionReasoner, commit a455092), also for a box with swapped
    sides.

    Args:
        box: A predicted box in pixels.
        size: (width, height) of the image.
        has_ground_truth: True if the category has a true box in the image.

    >>> area_score(Box(0, 0, 4, 4), (8, 4), has_ground_truth=True)
    0.5
    """
    width, height = size
    area = (box.right - box.left) * (box.bottom - box.top)
    return float(area / (width * height)) if has_ground_truth else 0.0


def average_precision(name: str = "AP", *, library: Library = "pycocotools") -> "CocoStatistic":
    """Return a corpus function for `Metric`, which computes one of `STATISTICS` over all items.

    Raises:
        UsageError: there is no such statistic or library.

    >>> box, other = Box(0, 0, 40, 40), Box(0, 0, 40, 26)
    >>> item = detection_item("a", "cat", ground_truth=[box], predicted=[other], scores=[0.5])
    >>> round(average_precision("AP")([item]), 6), round(average_precision("AP50")([item]), 6)
    (0.4, 1.0)
    """
    if name not in STATISTICS or library not in PLACES:
        raise UsageError(
            f"statistic {name!r} of {library!r}",
            expected=f"one of {STATISTICS} of {' or '.join(PLACES)}",
            found="another",
        )
    return CocoStatistic(name, library)


@dataclass(frozen=True, slots=True)
class CocoStatistic:
    """One of `STATISTICS`, of all items or of many subsets of them."""

    name: str
    library: Library

    def __call__(self, items: Sequence[Detections]) -> float:
        """Return the number of all items, as `coco_statistics` has it."""
        return _cached_statistics(items, self.library)[self.name]

    def over(
        self, blocks: Sequence[Sequence[Detections]], weights: NDArray[np.float64]
    ) -> list[float]:
        """Return the statistic of many subsets of blocks, one number a row; NaN without any item.

        Boxes are matched once: the matches in an image and category do not depend on others. Equal
        to `self(items of a row's blocks)`, but for the order in which numbers are added (below
        1e-14).

        Args:
            blocks: Items in groups, such as those of one image.
            weights: Rows × blocks: 1 if the block is in the row's subset, else 0.
        """
        items = [item for block in blocks for item in block]
        if not items:
            return [math.nan] * len(weights)
        images, categories = _number_names(items)
        block_of = {
            (images[item["image"]], categories[item["category"]]): number
            for number, block in enumerate(blocks)
            for item in block
        }
        values = subset_statistics(_match_boxes(json.dumps(items)), block_of, weights, self.name)
        has_items = np.array([len(block) > 0 for block in blocks])
        numbers = []
        for row, value in enumerate(values.tolist()):
            kept_blocks = weights[row, has_items]
            if kept_blocks.all():
                numbers.append(self(items))
            else:
                numbers.append(value if kept_blocks.any() else math.nan)
        return numbers


_last: tuple[Library, list[Detections], dict[str, float]] | None = None
"""Library, items and statistics of the last call."""


def _cached_statistics(items: Sequence[Detections], library: Library) -> dict[str, float]:
    """Return all statistics; those of the last items are cached, as a protocol prints several."""
    global _last
    last = _last  # one read, as another thread may replace it
    if last is not None and last[0] == library and last[1] == items:
        return last[2]
    statistics = coco_statistics(items, library=library)
    _last = library, list(items), statistics
    return statistics


@lru_cache(maxsize=1)
def _match_boxes(text: str) -> "COCOeval":
    """Return COCO's evaluator for items, given as JSON, after its boxes were matched."""
    ground_truth, results = _as_coco(json.loads(text))
    return _evaluator("pycocotools", ground_truth, results)


def _number_names(items: Sequence[Detections]) -> tuple[dict[Name, int], dict[Name, int]]:
    """Return (numbers of images, numbers of categories), each from 1 in the order of the names."""
    images, categories = (
        {name: number for number, name in enumerate(sorted({item[key] for item in items}), 1)}
        for key in ("image", "category")
    )
    return images, categories


def coco_statistics(
    items: Sequence[Detections], *, library: Library = "pycocotools"
) -> dict[str, float]:
    """Return all twelve `STATISTICS` of items of `detection_item`.

    Equal to the last bit to `COCOeval(…, "bbox")` of pycocotools, whose constants stay: IoU 0.50 to
    0.95, 101 recalls, at most 100 boxes a category and image. A number without a true object to
    count (no small one, say) is -1, as COCO prints it. Without any predicted box the others are 0,
    where pycocotools' own loader fails. The order of the items does not matter; that of boxes with
    equal score in one item does.

    Raises:
        DataError: two items are of the same image and category.
        MissingDependency: the library is not installed.
    """
    evaluator = _evaluator(library, *_as_coco(items))
    return dict(zip(STATISTICS, map(float, evaluator.stats), strict=False))


def _with_one_miss(ground_truth: CocoData) -> tuple[CocoData, list[dict[str, object]]]:
    """Return (the ground truth with one image more, one predicted box in that image).

    Loaders refuse an empty list of predictions. This box matches nothing, as its image has no true
    object, so that AP and AR are 0.
    """
    number = len(ground_truth["images"]) + 1
    images = [*ground_truth["images"], {"id": number, "width": 1, "height": 1}]
    category = ground_truth["categories"][0]["id"]
    miss = {"image_id": number, "category_id": category, "bbox": [0, 0, 1, 1], "score": 0.0}
    return {**ground_truth, "images": images}, [miss]


def _evaluator(
    library: Library, ground_truth: CocoData, results: list[dict[str, object]]
) -> "COCOeval":
    """Return the library's evaluator, with its statistics computed."""
    coco, evaluation = _classes(library)
    if not results:
        ground_truth, results = _with_one_miss(ground_truth)
    with contextlib.redirect_stdout(io.StringIO()):  # these functions print
        if library == "pycocotools":
            truth = coco()
            truth.dataset = ground_truth
            truth.createIndex()
        else:
            truth = coco(ground_truth)
        evaluator = evaluation(truth, truth.loadRes(results), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return evaluator


def _classes(library: Library) -> "tuple[type[COCO], type[COCOeval]]":
    """Import a library; return its classes of a data set and of an evaluation."""
    data, evaluation = PLACES[library]
    try:
        return import_module(data).COCO, import_module(evaluation).COCOeval
    except ImportError as error:
        raise MissingDependency(
            f"package {library}",
            expected="it to be installed",
            found="nothing",
            fix=f"`pip install {library}`, or ask for library=pycocotools.",
        ) from error


def _as_coco(items: Sequence[Detections]) -> tuple[CocoData, list[dict[str, object]]]:
    """Return annotations and results in COCO's layout.

    Images and categories are numbered in the order of their names: COCO breaks ties between
    equal scores by the number of the image.
    """
    rows = sorted(items, key=lambda item: (item["image"], item["category"]))
    keys = [(item["image"], item["category"]) for item in rows]
    repeated = next((key for key, following in pairwise(keys) if key == following), None)
    if not rows or repeated is not None:
        raise DataError(
            "detections",
            expected="items, one an image and category",
            found="none" if not rows else f"two of {repeated}",
        )
    images, categories = _number_names(rows)
    annotations: list[dict[str, object]] = []
    results: list[dict[str, object]] = []
    for item in rows:
        image, category = images[item["image"]], categories[item["category"]]
        annotations += [
            # Numbered from 1 on: pycocotools takes 0 for "no match".
            {
                "id": number,
                "image_id": image,
                "category_id": category,
                "bbox": [left, top, *size],
                "area": area,
                "iscrowd": crowd,
            }
            for number, ((left, top, _, _, area, crowd), size) in enumerate(
                zip(item["ground_truth"], _sizes(item), strict=True), start=len(annotations) + 1
            )
        ]
        results += [
            {
                "image_id": image,
                "category_id": category,
                "bbox": [left, top, right - left, bottom - top],
                "score": score,
            }
            for left, top, right, bottom, score in item["predicted"]
        ]
    return {
        "images": [{"id": number, "width": 1, "height": 1} for number in images.values()],
        "annotations": annotations,
        "categories": [{"id": number, "name": str(name)} for name, number in categories.items()],
    }, results


def _sizes(item: Detections) -> list[list[float]]:
    """Return [width, height] of each true box: as annotated, or else from its corners."""
    if "sizes" in item:
        return list(item["sizes"])
    return [[right - left, bottom - top] for left, top, right, bottom, _, _ in item["ground_truth"]]


def _area(box: Box) -> float:
    return (box.right - box.left) * (box.bottom - box.top)
