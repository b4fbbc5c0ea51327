"""Time J and F against the official DAVIS code, side by side in one run, on one thread.

    python benchmarks/metrics.py --official FOLDER [--save]

FOLDER is a checkout of davis2017-evaluation, whose F needs scikit-image. Masks are an ellipse and
the same one a little moved and turned, in frames of 480 × 854.

*frame*: every implementation scores the same pair of masks, five calls in a row, of which the
fastest counts; the table has the median over pairs. *track*: all frames at once, as the official
evaluation calls its functions; the table has the time a frame, the median over rounds. Which
allocations the C library gives back to the system decides whether the official code also pays for
page faults, which is why its time a track can be several times that of its frames.

`--save` writes benchmarks/results/metrics.json.
"""

import argparse
import importlib
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import cv2
import numpy as np
from steps import RESULTS, write

from harness.masks import BoolArray, Rle
from harness.metrics.boundary import boundary_f_measure, boundary_f_measure_frame
from harness.metrics.overlap import region_similarity, region_similarity_frame

HEIGHT, WIDTH = 480, 854
RADII = {"small": 30, "medium": 80, "large": 180}
METRICS = {
    "J": ("db_eval_iou", region_similarity_frame, region_similarity),
    "F": ("db_eval_boundary", boundary_f_measure_frame, boundary_f_measure),
}
SIDES = ("official", "arrays", "runs")
CALLS = 5
TRACK = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    if not (given.official / "davis2017/metrics.py").is_file():
        parser.error(f"--official {given.official}: no checkout of davis2017-evaluation")
    sys.path.insert(0, str(given.official))
    official = importlib.import_module("davis2017.metrics")
    cv2.setNumThreads(1)
    warnings.simplefilter("ignore", RuntimeWarning)
    print(f"{HEIGHT} × {WIDTH}, one thread, ms a frame, and how many times as fast as the official")
    speed = bandwidth()
    print(
        f"memory: {speed:.0f} GB/s, a pair of frames in {2 * HEIGHT * WIDTH / speed / 1e6:.3f} ms"
    )
    rows = speeds(official, given.rounds)
    for metric in METRICS:
        for of in ("frame", "track"):
            own = [row for row in rows if (row["metric"], row["of"]) == (metric, of)]
            ratios = (median(row["official"] / row[side] for row in own) for side in SIDES[1:])
            text = " and ".join(f"{ratio:.1f}×" for ratio in ratios)
            print(f"{metric} {of}: median over objects {text}")
    if given.save:
        head = ["git", "-C", str(given.official), "rev-parse", "HEAD"]
        done = subprocess.run(head, capture_output=True, text=True, check=False)
        found = {
            "command": f"python benchmarks/metrics.py --official FOLDER --rounds {given.rounds}",
            "davis2017-evaluation": done.stdout.strip() or "unknown",
            "frame": f"{HEIGHT} × {WIDTH}",
            "read_gb_s": round(speed, 1),
            "ms_a_frame": rows,
        }
        write(RESULTS / "metrics.json", found)


def bandwidth() -> float:
    """Measure the GB a second that one thread reads of an array that no cache holds."""
    empty = np.ones(2**27, dtype=np.bool_)
    empty[:] = False  # its pages exist
    seconds = []
    for _ in range(3):
        start = perf_counter()
        empty.argmax()
        seconds.append(perf_counter() - start)
    return empty.nbytes / min(seconds) / 1e9


def speeds(official: Any, rounds: int) -> list[dict[str, Any]]:
    """Time and print each metric of each object, of frames and of tracks."""
    rows = []
    for name, radius in RADII.items():
        pairs = [objects(radius, seed) for seed in range(rounds)]
        tracks = [np.stack(masks) for masks in zip(*pairs[:TRACK], strict=True)]
        for metric, (theirs, frame, track) in METRICS.items():
            function = getattr(official, theirs)
            turns = {
                "frame": [timed(function, frame, pair, calls=CALLS) for pair in pairs],
                "track": [timed(function, track, tracks, calls=1) for _ in range(CALLS)],
            }
            for of, several in turns.items():
                parts = len(tracks[0]) if of == "track" else 1
                medians = (median(times) * 1e3 / parts for times in zip(*several, strict=True))
                ms = {side: round(one, 4) for side, one in zip(SIDES, medians, strict=True)}
                rows.append({"metric": metric, "object": name, "of": of, **ms})
                shown = (
                    f"{side} {one:.3f} {ms['official'] / one:.1f}×" for side, one in ms.items()
                )
                print(f"{metric} {name:7}{of:6}", *shown, sep="  ")
    return rows


def objects(radius: int, seed: int) -> tuple[BoolArray, BoolArray]:
    """Draw an ellipse, and the same one a little moved and turned."""
    random = np.random.default_rng(seed)
    x, y = int(random.integers(200, WIDTH - 200)), int(random.integers(190, HEIGHT - 190))
    masks = []
    for turn in (0, 10):
        mask = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
        axes = (radius, int(radius * 0.8))
        cv2.ellipse(mask, (x + turn // 2, y), axes, 30 + turn, 0, 360, 1, -1)
        masks.append(mask.astype(np.bool_))
    return masks[0], masks[1]


def parsed(mask: BoolArray) -> Rle:
    """Encode a mask as an answer holds it, parsed, so that parsing is no part of scoring."""
    encoded = Rle.from_array(mask)
    return Rle(encoded.height, encoded.width, encoded.counts)


def timed(
    official: Callable[..., Any], ours: Callable[..., Any], masks: Sequence[Any], *, calls: int
) -> list[float]:
    """Return the fewest seconds that each of `SIDES` takes for two masks or two tracks.

    Raises:
        SystemExit: their results differ.
    """
    runs = [parsed(one) if one.ndim == 2 else list(map(parsed, one)) for one in masks]
    seconds, results = [], []
    for metric, given in ((official, masks), (ours, masks), (ours, runs)):
        times = []
        for _ in range(calls):
            start = perf_counter()
            result = metric(*given)
            times.append(perf_counter() - start)
        seconds.append(min(times))
        results.append(result)
    if not all(np.array_equal(one, results[0]) for one in results):
        sys.exit(f"official, of arrays and of run-lengths: {results}")
    return seconds


if __name__ == "__main__":
    main()
