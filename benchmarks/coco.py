"""Whether hotcoco gives pycocotools' statistics to the last bit, and how many times as fast.

    python benchmarks/coco.py [--images 2000] [--categories 20]

Boxes are drawn, a third of the predictions beside their object. Each library computes the twelve
statistics of the same items three times, on one thread; the least time counts.
"""

import argparse
from time import perf_counter
from typing import get_args

import numpy as np

from harness.metrics.detection import Detections, Library, coco_statistics, detection_item
from harness.types import Box


def main() -> None:
    """Print the times; fail if a statistic differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--categories", type=int, default=20)
    given = parser.parse_args()
    generator = np.random.default_rng(0)
    items = [
        item(generator, f"{image}.jpg", f"category {category}")
        for image in range(given.images)
        for category in generator.choice(given.categories, 3, replace=False)
    ]
    seconds: dict[Library, float] = {}
    statistics: dict[Library, dict[str, float]] = {}
    for library in get_args(Library):
        times = []
        for _ in range(3):
            start = perf_counter()
            statistics[library] = coco_statistics(items, library=library)
            times.append(perf_counter() - start)
        seconds[library] = min(times)
        print(f"{library}: {seconds[library]:.2f} s, AP {statistics[library]['AP']:.6f}")
    assert statistics["hotcoco"] == statistics["pycocotools"], "a statistic differs"
    factor = seconds["pycocotools"] / seconds["hotcoco"]
    print(f"statistics of {len(items):,} items equal to the last bit, {factor:.1f} times as fast")


def item(generator: np.random.Generator, image: str, category: str) -> Detections:
    """Draw the objects of a category in an image, and what a detector answered."""
    objects = [box(generator) for _ in range(generator.integers(1, 6))]
    moved = [Box(*np.asarray(object_) + generator.normal(0, 4, 4)) for object_ in objects[::3]]
    predicted = [*moved, *(box(generator) for _ in range(generator.integers(0, 10)))]
    scores = generator.random(len(predicted)).tolist()
    return detection_item(image, category, ground_truth=objects, predicted=predicted, scores=scores)


def box(generator: np.random.Generator) -> Box:
    """Draw a box in an image of 640 × 480."""
    left, top = generator.uniform(0, 500), generator.uniform(0, 350)
    return Box(left, top, left + generator.uniform(5, 140), top + generator.uniform(5, 130))


if __name__ == "__main__":
    main()
