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
import importlib.util
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import numpy as np

from harness.masks import BoolArray, Rle
from harness.metrics.boundary import boundary_f_measure, boundary_f_measure_frame
from harness.metrics.region import region_similarity, region_similarity_frame

HEIGHT, WIDTH = 480, 854
RADII = {"small": 30, "medium": 80, "large": 180}
METRICS = {
    "J": ("db_eval_iou", region_similarity_frame, region_similarity),
    "F": ("db_eval_boundary", boundary_f_measure_frame, boundary_f_measure),
}
CALLS = 5
TRACK = 20
RESULTS = Path(__file__).parent / "results" / "metrics.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    official = load(given.official / "davis2017/metrics.py")
    cv2.setNumThreads(1)
    warnings.simplefilter("ignore", RuntimeWarning)
    found: dict[str, Any] = {
        "command": f"python benchmarks/metrics.py {' '.join(sys.argv[1:])}".replace(
            str(given.official), "FOLDER"
        ),
        "commits": {
            "harness": commit(Path(__file__).parent, "../harness/metrics", "../harness/masks.py"),
            "davis2017-evaluation": commit(given.official),
        },
        "versions": {"numpy": np.__version__, "opencv": cv2.__version__},
        "read_gb_s": bandwidth(),
        "frame": f"{HEIGHT} × {WIDTH}",
        "ms_a_frame": speeds(official, given.rounds),
    }
    if given.save:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("official", path)
    if spec is None or spec.loader is None or not path.is_file():
        sys.exit(f"{path} is not there: --official is a checkout of davis2017-evaluation")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commit(folder: Path, *watched: str) -> str:
    """The commit that a folder is at; "+" says that watched files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = watched and git("status", "--porcelain", "--", *watched)
    return (git("rev-parse", "HEAD") or "unknown") + ("+" if changed else "")


def bandwidth() -> float:
    """GB a second that one thread reads of an array that no cache holds."""
    empty = np.ones(2**27, dtype=np.bool_)
    empty[:] = False  # its pages exist
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        empty.argmax()
        seconds.append(time.perf_counter() - start)
    speed = empty.nbytes / min(seconds) / 1e9
    print(f"reads {speed:.0f} GB/s, a pair of frames in {2 * HEIGHT * WIDTH / speed / 1e6:.3f} ms")
    return round(speed, 1)


def speeds(official: Any, rounds: int) -> list[dict[str, Any]]:
    print(
        f"\n{HEIGHT} × {WIDTH}, one thread, ms a frame; fastest of {CALLS} calls, median of "
        f"{rounds} frames; a track is {TRACK} frames"
    )
    print(f"{'':16}{'official':>10}{'arrays':>10}{'':>8}{'run-lengths':>12}")
    rows = []
    for name, radius in RADII.items():
        pairs = [objects(radius, seed) for seed in range(rounds)]
        for metric, (theirs, frame, track) in METRICS.items():
            function = getattr(official, theirs)
            rows.append(
                {
                    "metric": metric,
                    "object": name,
                    "of": "frame",
                    **by_frame(function, frame, pairs),
                }
            )
            rows.append(
                {
                    "metric": metric,
                    "object": name,
                    "of": "track",
                    **by_track(function, track, pairs[:TRACK]),
                }
            )
            for row in rows[-2:]:
                show(row)
    for metric in METRICS:
        for of in ("frame", "track"):
            ratios = [
                median(
                    row["official"] / row[form]
                    for row in rows
                    if row["metric"] == metric and row["of"] == of
                )
                for form in ("arrays", "runs")
            ]
            print(f"{metric} {of}: median over objects {ratios[0]:.1f}× and {ratios[1]:.1f}×")
    return rows


def show(row: dict[str, Any]) -> None:
    base = row["official"]
    print(
        f"{row['metric']} {row['object']:7}{row['of']:7}{base:10.3f}"
        f"{row['arrays']:10.3f}{base / row['arrays']:7.1f}×"
        f"{row['runs']:12.3f}{base / row['runs']:7.1f}×"
    )


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


def by_frame(
    official: Callable[..., Any],
    ours: Callable[..., float],
    pairs: Sequence[tuple[BoolArray, BoolArray]],
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {"official": [], "arrays": [], "runs": []}
    for pair in pairs:
        # An answer holds parsed run-lengths, so that parsing is no part of scoring.
        both = [Rle.from_array(mask) for mask in pair]
        results = [
            fastest(seconds["official"], official, *pair),
            fastest(seconds["arrays"], ours, *pair),
            fastest(seconds["runs"], ours, *both),
        ]
        if len(set(map(float, results))) != 1:
            sys.exit(f"official, of arrays and of run-lengths: {results}")
    return {name: round(median(times) * 1e3, 4) for name, times in seconds.items()}


def fastest(seconds: list[float], metric: Callable[..., Any], *masks: Any) -> Any:
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        result = metric(*masks)
        times.append(time.perf_counter() - start)
    seconds.append(min(times))
    return result


def by_track(
    official: Callable[..., Any],
    ours: Callable[..., Any],
    pairs: Sequence[tuple[BoolArray, BoolArray]],
) -> dict[str, float]:
    arrays = [np.stack(masks) for masks in zip(*pairs, strict=True)]
    runs = [[Rle.from_array(mask) for mask in masks] for masks in zip(*pairs, strict=True)]
    seconds: dict[str, list[float]] = {"official": [], "arrays": [], "runs": []}
    for _ in range(CALLS):
        results = []
        for name, metric, tracks in (
            ("official", official, arrays),
            ("arrays", ours, arrays),
            ("runs", ours, runs),
        ):
            start = time.perf_counter()
            results.append(metric(*tracks))
            seconds[name].append((time.perf_counter() - start) / len(pairs))
        if not all((result == results[0]).all() for result in results):
            sys.exit(f"official, of arrays and of run-lengths: {results}")
    return {name: round(median(times) * 1e3, 4) for name, times in seconds.items()}


if __name__ == "__main__":
    main()
