"""Write the golden files of LISA's masks from polygons, one for each OpenCV that draws otherwise.

    python tests/golden/make_polygons.py --official FOLDER [--real FOLDER]

FOLDER holds a checkout named `LISA` at the commit of `official.py`; its function is compiled from
there, and none of its code is kept here. Run it in an environment of its own with LISA's pins
(`numpy==1.24.2 opencv-python-headless==4.8.0.74`), and in another where OpenCV is 4.11.0.86: the
file is named after the OpenCV that drew it. Later numpy orders equally large shapes otherwise on
processors with AVX-512.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from inputs import shapes
from official import module, write

SEED = 20250101
SIZES = ((40, 60), (64, 48), (9, 12), (1, 5), (180, 240))


def nasty(rng: np.random.Generator, size: tuple[int, int]) -> list[list[int]]:
    """Corners of one polygon that is awkward to fill."""
    height, width = size
    count = int(rng.choice([1, 2, 3, 4, 6, 12, 40]))
    low, high = ((0.0, 1.0), (-0.7, 1.7), (-30.0, 30.0))[int(rng.integers(3))]
    points = np.floor(rng.uniform(low, high, (count, 2)) * [width, height])
    match int(rng.integers(9)):
        case 0:  # a star-shaped outline
            angles = np.sort(rng.uniform(0, 2 * np.pi, count))
            reach = rng.uniform(0.1, 1.0, count) * min(size) / 2
            away = np.stack([np.cos(angles), np.sin(angles)]) * reach
            points = np.floor(away.T + np.array([width / 2, height / 2]))
        case 1:  # the same corner again
            points = np.repeat(points, int(rng.integers(2, 4)), axis=0)
        case 2:  # a column
            points[:, 0] = points[0, 0]
        case 3:  # a row
            points[:, 1] = points[0, 1]
        case 4:  # a spike, out and back on the same line
            points = np.concatenate([points, points[:1], points[-1:]])
        case 5:  # a walk that crosses itself
            steps = rng.integers(-3, 4, (3 * count, 2))
            points = np.cumsum(steps, axis=0) + np.array([width // 2, height // 2])
        case 6:  # corners on a coarse grid: collinear, horizontal and vertical edges
            points = points // 4 * 4
        case 7:  # a pixel
            points = points[:1]
    return [[int(x), int(y)] for x, y in points]


def drawings() -> Iterator[tuple[tuple[int, int], list[dict[str, Any]]]]:
    """Sizes and labelled shapes: several an image with fractions, then nasty ones alone."""
    rng = np.random.default_rng(SEED + 3)
    for number in range(180):
        size = SIZES[number % len(SIZES)]
        yield size, shapes(rng, size)
    for number in range(300):
        size = SIZES[number % len(SIZES)]
        yield size, [{"label": "target", "points": nasty(rng, size)}]


def digest(painted: Any) -> str:
    """What tells one mask of 0, 1 and 255 from another."""
    return hashlib.blake2b(painted.tobytes(), digest_size=8).hexdigest()


def main(official: Path, real: Path | None) -> None:
    """Write the files of the OpenCV that is installed."""
    for tied in np.random.default_rng(0).integers(0, 3, (50, 16)).astype(np.uint64):
        if not np.array_equal(np.argsort(tied), np.argsort(tied, kind="stable")):
            sys.exit("numpy's argsort is vectorised here: install numpy 1.24.2, see above")
    opencv = ".".join(cv2.__version__.split(".")[:2])
    draw = module(official / "LISA/utils/data_processing.py").get_mask_from_json
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "case.json")
        for size, drawn in drawings():
            path.write_text(json.dumps({"shapes": drawn, "text": ["x"], "is_sentence": False}))
            painted, _, _ = draw(str(path), np.zeros((*size, 3), np.uint8))
            cases.append({"size": size, "shapes": drawn, "mask": digest(painted)})
    source = "utils/data_processing.py"
    write(f"lisa/polygons_cv{opencv}.json", "LISA", source, cases=cases)
    if real is not None:
        digests = {}
        for path in sorted((real / "reason_seg/ReasonSeg").glob("*/*.json")):
            painted, _, _ = draw(str(path), cv2.imread(str(path.with_suffix(".jpg"))))
            digests[f"{path.parent.name}/{path.stem}"] = [*painted.shape, digest(painted)]
        write(f"lisa/real_cv{opencv}.json", "LISA", source, cases=digests)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("--real", type=Path)
    main(**vars(parser.parse_args()))
