"""Time J and F against the official DAVIS code, side by side in one run, on one thread.

    python benchmarks/metrics.py --official FOLDER

FOLDER is a checkout of davis2017-evaluation, whose F needs scikit-image. Each round times each
implementation once on the same pair of masks, in turn, so that a busy machine slows all of them.
"""

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import numpy as np

from harness.masks import BoolArray, Rle
from harness.metrics.boundary import boundary_f_measure_frame
from harness.metrics.region import region_similarity_frame

HEIGHT, WIDTH = 480, 854
RADII = {"small": 30, "medium": 80, "large": 180}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    official = load(given.official / "davis2017/metrics.py")
    cv2.setNumThreads(1)
    warnings.simplefilter("ignore", RuntimeWarning)
    print(f"{HEIGHT} × {WIDTH}, one thread; ms a frame, median of {given.rounds} frames")
    print(f"{'':10}{'official':>10}{'arrays':>10}{'':>8}{'run-lengths':>12}")
    for name, radius in RADII.items():
        pairs = [objects(radius, seed) for seed in range(given.rounds)]
        report(f"J {name}", official.db_eval_iou, region_similarity_frame, pairs)
        report(f"F {name}", official.db_eval_boundary, boundary_f_measure_frame, pairs)


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("official", path)
    if spec is None or spec.loader is None or not path.is_file():
        sys.exit(f"{path} is not there: --official is a checkout of davis2017-evaluation")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def objects(radius: int, seed: int) -> tuple[BoolArray, BoolArray]:
    """An ellipse, and the same one a little moved and turned."""
    random = np.random.default_rng(seed)
    x, y = int(random.integers(200, WIDTH - 200)), int(random.integers(190, HEIGHT - 190))
    masks = []
    for turn in (0, 10):
        mask = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
        axes = (radius, int(radius * 0.8))
        cv2.ellipse(mask, (x + turn // 2, y), axes, 30 + turn, 0, 360, 1, -1)
        masks.append(mask.astype(np.bool_))
    return masks[0], masks[1]


def report(
    name: str,
    official: Callable[..., Any],
    ours: Callable[..., float],
    pairs: list[tuple[BoolArray, BoolArray]],
) -> None:
    seconds: dict[str, list[float]] = {"official": [], "arrays": [], "runs": []}
    for pair in pairs:
        # An answer holds parsed run-lengths, so that parsing is no part of scoring.
        both = [Rle.from_array(mask) for mask in pair]
        expected = clock(seconds["official"], official, *pair)
        found = clock(seconds["arrays"], ours, *pair)
        runs = clock(seconds["runs"], ours, *both)
        if not expected == found == runs:
            sys.exit(f"{name}: {found!r} and {runs!r}, officially {expected!r}")
    base, arrays, encoded = (median(times) * 1e3 for times in seconds.values())
    print(
        f"{name:10}{base:10.3f}{arrays:10.3f}{base / arrays:7.1f}×"
        f"{encoded:12.3f}{base / encoded:7.1f}×"
    )


def clock(seconds: list[float], metric: Callable[..., Any], *masks: Any) -> Any:
    start = time.perf_counter()
    result = metric(*masks)
    seconds.append(time.perf_counter() - start)
    return result


if __name__ == "__main__":
    main()
