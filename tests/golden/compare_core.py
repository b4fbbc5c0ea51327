"""The first golden files against our numbers: DAVIS, MeViS, LISA, VisionReasoner."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from comparison import Comparison, gap

from harness.masks import Rle
from harness.metrics.boundary import boundary_f_measure, boundary_f_measure_frame
from harness.metrics.boxes import any_box_hits, box_iou
from harness.metrics.counting import absolute_error, exact
from harness.metrics.overlap import (
    lisa_iou,
    overlap,
    region_similarity,
    region_similarity_frame,
    visionreasoner_iou,
)
from harness.metrics.polygons import FILL_VERSIONS, rasterise
from harness.scores import Mean, Metric, Ratio, Totals

GOLDEN = Path(__file__).parent


def read(name: str) -> dict[str, Any]:
    plain = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    assert isinstance(plain, dict)
    return plain


def digest(painted: Any) -> str:
    """What `make_polygons.py` keeps of a mask."""
    return hashlib.blake2b(painted.tobytes(), digest_size=8).hexdigest()


def rle(case: dict[str, Any], name: str) -> Rle | None:
    return None if case[name] is None else Rle(*case["size"], case[name])


def comparisons() -> Iterator[Comparison]:
    """One line a protocol and official number."""
    yield from davis()
    yield from mevis()
    yield from polygons()
    yield from lisa()
    yield from visionreasoner()


def davis() -> Iterator[Comparison]:
    file = read("davis2017/pairs.json")
    worst = {"J": 0.0, "F": 0.0}
    functions = {"J": region_similarity_frame, "F": boundary_f_measure_frame}
    for case in file["cases"]:
        masks = rle(case, "ground_truth"), rle(case, "predicted")
        for name, function in functions.items():
            found = function(*masks, void=rle(case, "void"))
            worst[name] = max(worst[name], gap(found, case[name]))
    for name, deviation in worst.items():
        yield Comparison(
            f"rvos/*: {name}", "davis2017-evaluation", file["commit"], len(file["cases"]), deviation
        )


def mevis() -> Iterator[Comparison]:
    file = read("mevis/tracks.json")
    worst = 0.0
    for case in file["cases"]:
        size = case["size"]
        objects = [[Rle(*size, counts) for counts in track] for track in case["objects"]]
        ground_truth = [first.union(*rest) for first, *rest in zip(*objects, strict=True)]
        output = [Rle(*size, counts) for counts in case["predicted"]]
        worst = max(
            worst,
            gap(float(region_similarity(ground_truth, output).mean()), case["J"]),
            gap(float(boundary_f_measure(ground_truth, output).mean()), case["F"]),
        )
    yield Comparison("rvos/mevis", "MeViS eval_mevis.py", file["commit"], len(file["cases"]), worst)


def polygons() -> Iterator[Comparison]:
    for opencv in FILL_VERSIONS:
        file = read(f"lisa/polygons_cv{opencv}.json")
        different = sum(
            digest(rasterise(case["shapes"], *case["size"], opencv=opencv)) != case["mask"]
            for case in file["cases"]
        )
        yield Comparison(
            f"reason_seg: masks from polygons, OpenCV {file['opencv']}",
            "LISA get_mask_from_json",
            file["commit"],
            len(file["cases"]),
            float(different),
        )


def lisa() -> Iterator[Comparison]:
    file = read("lisa/overlap.json")
    sample = mean = 0.0
    count = 0
    for group in file["groups"]:
        totals = Totals((Metric("gIoU", epsilon=1e-5), Metric("cIoU", epsilon=1e-10)))
        for case in group["cases"]:
            shared, union = overlap(
                rle(case, "ground_truth"), rle(case, "predicted"), ignore=rle(case, "ignore")
            )
            iou = lisa_iou(shared, union)
            sample = max(sample, gap(iou, case["iou"]))
            totals.add({"gIoU": Mean(iou), "cIoU": Ratio(shared, union)})
            count += 1
        values = totals.values()
        mean = max(mean, *(gap(values[name], group[name]) for name in values))
    yield Comparison("seg/lisa: IoU of a sample", "LISA validate", file["commit"], count, sample)
    yield Comparison(
        "seg/lisa: gIoU, cIoU (LISA adds up in float32)",
        "LISA validate",
        file["commit"],
        len(file["groups"]),
        mean,
    )


def visionreasoner() -> Iterator[Comparison]:
    file = read("visionreasoner/overlap.json")
    totals = Totals((Metric("gIoU"), Metric("cIoU"), Metric("bbox_iou")))
    for case in file["cases"]:
        shared, union = overlap(rle(case, "ground_truth"), rle(case, "predicted"))
        totals.add(
            {
                "gIoU": Mean(visionreasoner_iou(shared, union)),
                "cIoU": Ratio(shared, union),
                "bbox_iou": Mean(float(any_box_hits(case["box"], case["boxes"]))),
            }
        )
    values = totals.values()
    worst = max(gap(values[name], file[name]) for name in values)
    yield Comparison(
        "seg/visionreasoner: gIoU, cIoU, bbox_AP",
        "VisionReasoner calculate_iou_with_bbox.py",
        file["commit"],
        len(file["cases"]),
        worst,
    )
    counts = read("visionreasoner/counting.json")
    rows = [row[:2] for row in counts["cases"]]
    accuracy = sum(exact(*row) for row in rows) / len(rows)
    error = sum(absolute_error(*row) for row in rows) / len(rows)
    worst = max(gap(accuracy, counts["correct_count"]), gap(error, counts["mae"]))
    yield Comparison(
        "count/exact", "VisionReasoner calculate_counting.py", counts["commit"], len(rows), worst
    )
    boxes = read("visionreasoner/boxes.json")
    ground_truth, output, expected = zip(*boxes["cases"], strict=True)
    found = box_iou(ground_truth, output)
    worst = max(gap(float(found[k, k]), value) for k, value in enumerate(expected))
    yield Comparison(
        "box IoU, right and bottom exclusive",
        "VisionReasoner compute_bbox_iou",
        boxes["commit"],
        len(boxes["cases"]),
        worst,
    )
