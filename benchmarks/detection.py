"""Time COCO AP by harness, by pycocotools and by faster libraries, side by side in one run.

    python benchmarks/detection.py [--images N] [--rounds N]

The same boxes go to all of them in turn, so that a busy machine slows all. Libraries that are not
installed (hotcoco, faster-coco-eval) are left out. `equal` says whether all twelve numbers are
those of pycocotools to the last bit, and otherwise by how much they differ. The last line is the
jackknife of AP over the first 30 images: all subsets at once, and one by one.
"""

import argparse
import contextlib
import io
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np

from harness.metrics.detection import average_precision, coco_statistics, detection_item
from harness.types import Box

CATEGORIES = 19


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    items = scenes(given.images)
    runs = {name: run for name, (package, run) in RUNS.items() if find_spec(package)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    found: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            found[name] = run(items)
            seconds[name].append(time.perf_counter() - start)
    counts = [sum(len(item[kind]) for item in items) for kind in ("ground_truth", "predicted")]
    print(
        f"{given.images} images, {counts[0]} true and {counts[1]} predicted boxes, "
        f"median of {given.rounds}"
    )
    print(f"{'':24}{'ms':>9}{'ratio':>8}  equal")
    slow = median(seconds["pycocotools"])
    for name, times in seconds.items():
        pairs = zip(found[name], found["pycocotools"], strict=True)
        gap = max(abs(one - other) for one, other in pairs)
        print(
            f"{name:24}{median(times) * 1e3:9.1f}{slow / median(times):8.1f}  "
            f"{'yes' if gap == 0 else f'{gap:.1e}'}"
        )
    subsets(items)


def subsets(items: list[dict[str, Any]], images: int = 30) -> None:
    """Time AP without each image in turn, and print how much faster all at once is."""
    statistic = average_precision("AP")
    blocks = [[one for one in items if one["image"] == number + 1] for number in range(images)]
    start = time.perf_counter()
    together = statistic.over(blocks, 1 - np.eye(images))
    middle = time.perf_counter()
    alone = [
        statistic([item for place, block in enumerate(blocks) if place != out for item in block])
        for out in range(images)
    ]
    ratio = (time.perf_counter() - middle) / (middle - start)
    gap = max(abs(one - other) for one, other in zip(together, alone, strict=True))
    print(f"{f'{images} images left out':24}{(middle - start) * 1e3:9.1f}{ratio:8.1f}  {gap:.1e}")


def scenes(images: int) -> list[dict[str, Any]]:
    """Items with about seven true boxes an image, a tenth of them crowds, three guesses each."""
    random = np.random.default_rng(0)
    items = []
    for image in range(images):
        for category in random.permutation(CATEGORIES)[:4].tolist():
            corners = random.integers(8, 200, (int(random.integers(1, 4)), 4)).tolist()
            ground_truth = [Box(x, y, x + width, y + height) for x, y, width, height in corners]
            moves = random.integers(-6, 7, (3 * len(ground_truth), 4)).tolist()
            output = [
                Box(*(side + step for side, step in zip(box, move, strict=True)))
                for box, move in zip(ground_truth * 3, moves, strict=True)
            ]
            items.append(
                detection_item(
                    image + 1,
                    category + 1,
                    ground_truth=ground_truth,
                    predicted=output,
                    scores=np.round(random.random(len(output)), 3).tolist(),
                    crowd=(random.random(len(ground_truth)) < 0.1).tolist(),
                )
            )
    return items


def plain(data: str, evaluation: str, name: str) -> Callable[[Any], list[float]]:
    """The library called as its own documentation does."""

    def run(items: list[dict[str, Any]]) -> list[float]:
        with contextlib.redirect_stdout(io.StringIO()):
            ground_truth, results = layout(items)
            known = import_module(data).COCO()
            if data == "pycocotools.coco":
                known.dataset = ground_truth
                known.createIndex()
            else:
                known = import_module(data).COCO(ground_truth)
            evaluator = getattr(import_module(evaluation), name)(
                known, known.loadRes(results), "bbox"
            )
            evaluator.evaluate()
            evaluator.accumulate()
            evaluator.summarize()
        return [float(value) for value in evaluator.stats[:12]]

    return run


def layout(items: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The items in COCO's own layout."""
    images = sorted({item["image"] for item in items})
    ground_truth: dict[str, Any] = {
        "images": [{"id": image, "width": 640, "height": 480} for image in images],
        "categories": [{"id": n + 1, "name": str(n)} for n in range(CATEGORIES)],
        "annotations": [],
    }
    results = []
    for item in items:
        place = {"image_id": item["image"], "category_id": item["category"]}
        for x, y, right, bottom, area, crowd in item["ground_truth"]:
            ground_truth["annotations"].append(
                {
                    **place,
                    "id": len(ground_truth["annotations"]) + 1,
                    "area": area,
                    "iscrowd": crowd,
                    "bbox": [x, y, right - x, bottom - y],
                }
            )
        results += [
            {**place, "bbox": [x, y, right - x, bottom - y], "score": score}
            for x, y, right, bottom, score in item["predicted"]
        ]
    return ground_truth, results


RUNS: dict[str, tuple[str, Callable[[Any], list[float]]]] = {
    "pycocotools": ("pycocotools", plain("pycocotools.coco", "pycocotools.cocoeval", "COCOeval")),
    "faster-coco-eval": (
        "faster_coco_eval",
        plain("faster_coco_eval", "faster_coco_eval", "COCOeval_faster"),
    ),
    "hotcoco": ("hotcoco", plain("hotcoco", "hotcoco", "COCOeval")),
    "harness (pycocotools)": (
        "pycocotools",
        lambda items: list(coco_statistics(items).values()),
    ),
    "harness (hotcoco)": (
        "hotcoco",
        lambda items: list(coco_statistics(items, library="hotcoco").values()),
    ),
}


if __name__ == "__main__":
    main()
