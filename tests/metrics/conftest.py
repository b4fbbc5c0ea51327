"""Golden files, and the comparisons of a set of metric modules with them.

A comparison takes the modules to test, so that the mutation tests can hand it spoiled ones, and
returns a line for every case that differs from the official tool.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest

from harness.masks import Rle
from harness.metrics import bits, boundary, boxes, counting, overlap, polygons

GOLDEN = Path(__file__).parents[1] / "golden"
Modules: TypeAlias = Any
Comparison: TypeAlias = Callable[[Modules], Iterator[str]]


@cache
def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@cache
def decoded(size: tuple[int, int], counts: str | None) -> tuple[Any, Any]:
    """The mask in both of its forms: run-length and array, or None twice."""
    if counts is None:
        return None, None
    runs = Rle(*size, counts)
    return runs, runs.to_array()


def forms(case: dict[str, Any], *names: str) -> Iterator[tuple[Any, ...]]:
    """The case's masks as run-lengths, and again as arrays."""
    size = tuple(case["size"])
    return zip(*(decoded(size, case[name]) for name in names), strict=True)


def differ(what: str, place: int, found: Any, expected: Any) -> Iterator[str]:
    """A line if two values are not equal, in type of number and every bit."""
    if not (found == expected and math.copysign(1, found) == math.copysign(1, expected)):
        yield f"{what} {place}: {found!r}, officially {expected!r}"


def davis_region(modules: Modules) -> Iterator[str]:
    for place, case in enumerate(golden("davis2017/pairs.json")["cases"]):
        for masks in forms(case, "ground_truth", "predicted", "void"):
            yield from differ(
                "J", place, modules.overlap.region_similarity_frame(*masks), case["J"]
            )


def davis_boundary(modules: Modules) -> Iterator[str]:
    for place, case in enumerate(golden("davis2017/pairs.json")["cases"]):
        for masks in forms(case, "ground_truth", "predicted", "void"):
            found = modules.boundary.boundary_f_measure_frame(*masks)
            yield from differ("F", place, found, case["F"])


def davis_radius(modules: Modules) -> Iterator[str]:
    for place, (height, width, radius) in enumerate(golden("davis2017/radius.json")["cases"]):
        found = modules.boundary.boundary_radius(height, width)
        yield from differ("radius", place, found, radius)


def mevis_tracks(modules: Modules) -> Iterator[str]:
    for place, case in enumerate(golden("mevis/tracks.json")["cases"]):
        size = tuple(case["size"])
        predicted = [decoded(size, counts)[0] for counts in case["predicted"]]
        tracks = [[decoded(size, counts)[0] for counts in track] for track in case["objects"]]
        ground_truth = [first.union(*rest) for first, *rest in zip(*tracks, strict=True)]
        for pair in ((ground_truth, predicted), (stacked(ground_truth), stacked(predicted))):
            region = modules.overlap.region_similarity(*pair)
            yield from differ("J", place, float(region.mean()), case["J"])
            outline = modules.boundary.boundary_f_measure(*pair)
            yield from differ("F", place, float(outline.mean()), case["F"])


def stacked(masks: list[Rle]) -> Any:
    return np.stack([mask.to_array() for mask in masks])


def lisa_samples(modules: Modules) -> Iterator[str]:
    for group in golden("lisa/overlap.json")["groups"]:
        for place, case in enumerate(group["cases"]):
            for masks in forms(case, "ground_truth", "predicted", "ignore"):
                counts = modules.overlap.overlap(*masks)
                yield from differ("intersection", place, counts.intersection, case["I"])
                yield from differ("union", place, counts.union, case["U"])
                yield from differ("IoU", place, modules.overlap.lisa_iou(*counts), case["iou"])


def lisa_polygons(modules: Modules) -> Iterator[str]:
    for opencv in ("4.8", "4.11"):
        for place, case in enumerate(golden(f"lisa/polygons_cv{opencv}.json")["cases"]):
            painted = modules.polygons.rasterise(case["shapes"], *case["size"], opencv=opencv)
            found = hashlib.blake2b(painted.tobytes(), digest_size=8).hexdigest()
            if found != case["mask"]:
                yield f"OpenCV {opencv}, {place}: another mask of {case['shapes']}"


def visionreasoner_samples(modules: Modules) -> Iterator[str]:
    for place, case in enumerate(golden("visionreasoner/overlap.json")["cases"]):
        for masks in forms(case, "ground_truth", "predicted"):
            counts = modules.overlap.overlap(*masks)
            yield from differ("intersection", place, counts.intersection, case["I"])
            yield from differ("union", place, counts.union, case["U"])
            found = modules.overlap.visionreasoner_iou(*counts)
            yield from differ("IoU", place, found, case["iou"])
        hit = modules.boxes.any_box_hits(case["box"], case["boxes"])
        yield from differ("hit", place, hit, case["hit"])


def boxes_exclusive(modules: Modules) -> Iterator[str]:
    cases = golden("visionreasoner/boxes.json")["cases"]
    ground_truth, predicted, expected = zip(*cases, strict=True)
    found = modules.boxes.box_iou(ground_truth, predicted)
    for place, value in enumerate(expected):
        yield from differ("IoU", place, found[place, place], value)


def boxes_inclusive(modules: Modules) -> Iterator[str]:
    for place, case in enumerate(golden("visionreasoner/boxes_inclusive.json")["cases"]):
        found = modules.boxes.box_iou_inclusive(case["ground_truth"], case["predicted"])
        if found.tolist() != case["iou"]:
            yield f"IoU {place}: {found.tolist()}, officially {case['iou']}"


def counts(modules: Modules) -> Iterator[str]:
    for place, row in enumerate(golden("visionreasoner/counting.json")["cases"]):
        ground_truth, predicted, exact, absolute, squared = row
        yield from differ("exact", place, modules.counting.exact(ground_truth, predicted), exact)
        found = modules.counting.absolute_error(ground_truth, predicted)
        yield from differ("absolute", place, found, absolute)
        found = modules.counting.squared_error(ground_truth, predicted)
        yield from differ("squared", place, found, squared)


def thresholds(modules: Modules) -> Iterator[str]:
    """No official file: by definition P@t reaches its threshold."""
    ious = [0.2, 0.5, 0.55, 0.6, 0.75, 0.9, 1.0, 0.0]
    expected = [0.75, 0.5, 0.375, 0.25, 0.25]
    found = modules.overlap.precision_at(ious)
    for place, (value, fraction) in enumerate(zip(found, expected, strict=True)):
        yield from differ("P@t", place, value, fraction)


def disks(modules: Modules) -> Iterator[str]:
    """No official file: by definition a disk is all pixels within its radius of a dot."""
    for radius in range(20):
        side = 2 * radius + 3
        rows, columns = np.indices((side, side)) - radius - 1
        dot = (rows == 0) & (columns == 0)
        packed = modules.bits.pack(dot, ~dot & dot, gap=radius)
        found, other = modules.bits.unpack(modules.bits.dilate_by_disk(packed, radius), side, side)
        if (found != (rows**2 + columns**2 <= radius**2)).any() or other.any():
            yield f"disk {radius}: {np.count_nonzero(found)} pixels"


COMPARISONS: dict[str, Comparison] = {
    function.__name__: function
    for function in (
        davis_region,
        davis_boundary,
        davis_radius,
        mevis_tracks,
        lisa_samples,
        lisa_polygons,
        visionreasoner_samples,
        boxes_exclusive,
        boxes_inclusive,
        counts,
        thresholds,
        disks,
    )
}


@pytest.fixture(params=COMPARISONS)
def comparison(request: pytest.FixtureRequest) -> Comparison:
    return COMPARISONS[request.param]


@pytest.fixture
def comparisons() -> dict[str, Comparison]:
    return COMPARISONS


@pytest.fixture
def read_golden() -> Callable[[str], dict[str, Any]]:
    return golden


@pytest.fixture
def modules() -> SimpleNamespace:
    return SimpleNamespace(
        bits=bits,
        boundary=boundary,
        overlap=overlap,
        polygons=polygons,
        boxes=boxes,
        counting=counting,
    )
