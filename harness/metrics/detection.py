"""COCO's average precision of boxes, by pycocotools or by a faster library that is equal to it.

A statistic is a `Corpus`, whose items are the detections of one category in one picture; the
metric's function turns all of them into AP. Which library computes it is asked for by name, so that
a run's arguments record it; none is chosen because it happens to be installed.
"""

import contextlib
import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from harness.errors import DataError, MissingDependency, UsageError
from harness.types import Box

Library: TypeAlias = Literal["pycocotools", "hotcoco"]
"""What may compute AP: only what is equal to pycocotools to the last bit (hotcoco 1.3.0 is)."""
STATISTICS = (
    "AP", "AP50", "AP75", "APs", "APm", "APl", "AR@1", "AR@10", "AR@100", "ARs", "ARm", "ARl",
)  # fmt: skip
"""The twelve numbers that COCO prints, in its order."""
PLACES: Mapping[Library, tuple[str, str]] = MappingProxyType(
    {"pycocotools": ("pycocotools.coco", "pycocotools.cocoeval"), "hotcoco": ("hotcoco", "hotcoco")}
)
"""Where each library has its data set and its evaluation."""


def detection_item(
    image: str | int,
    category: str | int,
    *,
    truth: Sequence[Box],
    predicted: Sequence[Box],
    scores: Sequence[float],
    crowd: Sequence[bool] | None = None,
    areas: Sequence[float] | None = None,
) -> dict[str, Any]:
    """One item of a `Corpus`: what is true and what was found of one category in one picture.

    Args:
        image: Name or number of the picture, of one type in all items.
        category: Name or number of the category, likewise.
        truth: True boxes in pixels.
        predicted: Predicted boxes in pixels.
        scores: Confidence of each predicted box.
        crowd: Which true boxes stand for a crowd, which may match several predictions; default
            none.
        areas: Square pixels of each true object, by which COCO sorts them into small, medium and
            large; default the area of its box.

    Raises:
        DataError: a list of another length, or a number that is not finite.

    >>> box = Box(0, 0, 4, 4)
    >>> detection_item("a", "cat", truth=[box], predicted=[box], scores=[0.5])["predicted"]
    [[0, 0, 4, 4, 0.5]]
    """
    crowd = [False] * len(truth) if crowd is None else crowd
    areas = [_area(box) for box in truth] if areas is None else areas
    if not len(truth) == len(crowd) == len(areas) or len(predicted) != len(scores):
        raise DataError(f"boxes of {category!r} in {image!r}", expected="lists of one length",
                        found=f"{len(truth)} true, {len(crowd)}, {len(areas)}; {len(predicted)} "
                        f"predicted, {len(scores)}")  # fmt: skip
    true = [[*box, area, int(many)] for box, area, many in zip(truth, areas, crowd, strict=True)]
    said = [[*box, score] for box, score in zip(predicted, scores, strict=True)]
    for row in (*true, *said):
        if not all(map(math.isfinite, row)):
            raise DataError(f"box of {category!r} in {image!r}", expected="finite numbers",
                            found=repr(row))  # fmt: skip
    return {"image": image, "category": category, "truth": true, "predicted": said}


def area_score(box: Box, size: tuple[int, int], *, has_truth: bool) -> float:
    """The confidence that VisionReasoner's evaluation gives a box: its part of the picture.

    0 where nothing is true. AP with these scores is `coco_ap_area_score`, a number of its own: it
    ranks boxes by size. Equal to `process_batch` in `evaluation/evaluation_coco.py`
    (VisionReasoner, commit a455092), a box with its sides swapped included.

    Args:
        box: A predicted box in pixels.
        size: (width, height) of the picture.
        has_truth: Whether the category has a true box in the picture.

    >>> area_score(Box(0, 0, 4, 4), (8, 4), has_truth=True)
    0.5
    """
    width, height = size
    area = (box.right - box.left) * (box.bottom - box.top)
    return float(area / (width * height)) if has_truth else 0.0


def average_precision(
    name: str = "AP", *, library: Library = "pycocotools"
) -> Callable[[Sequence[Mapping[str, Any]]], float]:
    """A corpus function for `Metric`: one of `STATISTICS`, of all items.

    Raises:
        UsageError: there is no such statistic or library.

    >>> box, other = Box(0, 0, 40, 40), Box(0, 0, 40, 26)
    >>> item = detection_item("a", "cat", truth=[box], predicted=[other], scores=[0.5])
    >>> round(average_precision("AP")([item]), 6), round(average_precision("AP50")([item]), 6)
    (0.4, 1.0)
    """
    if name not in STATISTICS or library not in PLACES:
        raise UsageError(f"statistic {name!r} of {library!r}", expected=f"one of {STATISTICS} of "
                         f"{' or '.join(PLACES)}", found="another")  # fmt: skip
    return partial(_statistic, name=name, library=library)


def _statistic(items: Sequence[Mapping[str, Any]], *, name: str, library: Library) -> float:
    return coco_statistics(items, library=library)[name]


def coco_statistics(
    items: Sequence[Mapping[str, Any]], *, library: Library = "pycocotools"
) -> dict[str, float]:
    """All twelve `STATISTICS` of the items of `detection_item`.

    Equal to the last bit to `COCOeval(…, "bbox")` of pycocotools, whose constants stay: IoU 0.50 to
    0.95, 101 recalls, at most 100 boxes a category and picture. A number of which there is no true
    object (no small one, say) is -1, as COCO prints it; with no predicted box all others are 0,
    where pycocotools' own loader fails. The order of the items does not matter, except between
    boxes of equal score in one item.

    Raises:
        DataError: two items are of the same picture and category.
        MissingDependency: the library is not installed.
    """
    truth, found = _as_coco(items)
    if not found:
        truth, found = _with_one_miss(truth)
    evaluator = _evaluator(library, truth, found)
    return dict(zip(STATISTICS, map(float, evaluator.stats), strict=False))


def _with_one_miss(truth: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The same truth, and one box in a further picture, for loaders that take no empty list."""
    number = len(truth["images"]) + 1
    images = [*truth["images"], {"id": number, "width": 1, "height": 1}]
    category = truth["categories"][0]["id"]
    miss = {"image_id": number, "category_id": category, "bbox": [0, 0, 1, 1], "score": 0.0}
    return {**truth, "images": images}, [miss]


def _evaluator(library: Library, truth: dict[str, Any], found: list[dict[str, Any]]) -> Any:
    coco, evaluation = _classes(library)
    with contextlib.redirect_stdout(io.StringIO()):  # all of them print
        if library == "pycocotools":
            known = coco()
            known.dataset = truth
            known.createIndex()
        else:
            known = coco(truth)
        evaluator = evaluation(known, known.loadRes(found), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return evaluator


def _classes(library: Library) -> tuple[Any, Any]:
    """The classes of a data set and of its evaluation; imported here, so that none is needed."""
    data, evaluation = PLACES[library]
    try:
        return import_module(data).COCO, import_module(evaluation).COCOeval
    except ImportError as error:
        raise MissingDependency(f"package {library}", expected="it to be installed",
                                found="nothing", fix=f"`pip install {library}`, or ask for "
                                "library=pycocotools.") from error  # fmt: skip


def _as_coco(items: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Annotations and results in COCO's layout.

    Pictures and categories are numbered in the order of their names: COCO breaks ties between
    equal scores by the number of the picture.
    """
    rows = sorted(items, key=lambda item: (item["image"], item["category"]))
    places = [(item["image"], item["category"]) for item in rows]
    twice = next((one for one, other in pairwise(places) if one == other), None)
    if not rows or twice is not None:
        raise DataError("detections", expected="items, one a picture and category",
                        found="none" if not rows else f"two of {twice}")  # fmt: skip
    images = {name: number for number, name in enumerate(dict.fromkeys(p[0] for p in places), 1)}
    categories = {name: number for number, name in enumerate(sorted({p[1] for p in places}), 1)}
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for item in rows:
        image, category = images[item["image"]], categories[item["category"]]
        annotations += [
            # Numbered from 1 on: pycocotools takes 0 for "no match".
            {"id": number, "image_id": image, "category_id": category,
             "bbox": [left, top, right - left, bottom - top], "area": area, "iscrowd": crowd}
            for number, (left, top, right, bottom, area, crowd) in enumerate(
                item["truth"], start=len(annotations) + 1)
        ]  # fmt: skip
        results += [
            {"image_id": image, "category_id": category,
             "bbox": [left, top, right - left, bottom - top], "score": score}
            for left, top, right, bottom, score in item["predicted"]
        ]  # fmt: skip
    return {
        "images": [{"id": number, "width": 1, "height": 1} for number in images.values()],
        "annotations": annotations,
        "categories": [{"id": number, "name": str(name)} for name, number in categories.items()],
    }, results


def _area(box: Box) -> float:
    return (box.right - box.left) * (box.bottom - box.top)
