"""Equality with the official tools, on stored inputs and outputs (made by tests/golden/make.py)."""

import math

import numpy as np
import pytest

from harness.metrics.overlap import LISA_CIOU_EPSILON, LISA_EPSILON
from harness.scores import Mean, Metric, Ratio, Totals

SIZES = {
    "davis2017/pairs.json": 300,
    "mevis/tracks.json": 24,
    "lisa/polygons_cv4.8.json": 480,
    "lisa/polygons_cv4.11.json": 480,
    "visionreasoner/overlap.json": 300,
    "visionreasoner/boxes.json": 300,
    "visionreasoner/counting.json": 200,
}


def test_every_number_equals_the_official_one_bit_for_bit(comparison, modules):
    assert list(comparison(modules)) == []


@pytest.mark.parametrize(("name", "cases"), SIZES.items())
def test_golden_files_hold_many_cases_and_name_their_source(read_golden, name, cases):
    file = read_golden(name)
    assert len(file["cases"]) >= cases
    assert len(file["commit"]) == 40


def test_golden_masks_cover_the_edge_cases(read_golden):
    pairs = read_golden("davis2017/pairs.json")["cases"]
    samples = [
        case for group in read_golden("lisa/overlap.json")["groups"] for case in group["cases"]
    ]
    assert len(samples) >= 300
    assert sum(case["ignore"] is not None for case in samples) >= 100
    assert sum(case["U"] == 0 for case in samples) >= 10
    assert sum(case["U"] > 0 and case["I"] == 0 for case in samples) >= 30
    assert sum(case["void"] is not None for case in pairs) >= 100
    assert sum(case["J"] == 1 for case in pairs) >= 30
    assert sum(0 < case["F"] < 1 for case in pairs) >= 100
    assert sum(case["J"] == 0 and case["F"] == 1 for case in pairs) >= 1  # full against empty
    assert {tuple(case["size"]) for case in pairs} >= {(1, 1), (480, 854), (720, 1280)}


def test_lisa_means_follow_from_its_samples_in_its_own_arithmetic(read_golden):
    for group in read_golden("lisa/overlap.json")["groups"]:
        total = shared = either = np.float32(0)
        for case in group["cases"]:
            total += np.float32(case["iou"])
            shared += np.float32(case["I"])
            either += np.float32(case["U"])
        count = np.float32(len(group["cases"]) + float(LISA_EPSILON))
        assert float(total / count) == group["gIoU"]
        assert float(shared / (either + np.float32(LISA_CIOU_EPSILON))) == group["cIoU"]


def test_lisa_means_of_exact_sums_are_within_a_millionth(read_golden, modules):
    metrics = (
        Metric("gIoU", epsilon=1e-5),
        Metric("cIoU", epsilon=LISA_CIOU_EPSILON),
    )
    for group in read_golden("lisa/overlap.json")["groups"]:
        totals = Totals(metrics)
        for case in group["cases"]:
            iou = modules.overlap.lisa_iou(case["I"], case["U"])
            totals.add({"gIoU": Mean(iou), "cIoU": Ratio(case["I"], case["U"])})
        values = totals.values()
        assert abs(values["gIoU"] - group["gIoU"]) <= 1e-6
        assert abs(values["cIoU"] - group["cIoU"]) <= 1e-6


def test_visionreasoner_means_equal_its_summary(read_golden, modules):
    file = read_golden("visionreasoner/overlap.json")
    cases = file["cases"]
    ious = [modules.overlap.visionreasoner_iou(case["I"], case["U"]) for case in cases]
    assert float(np.mean(ious)) == file["gIoU"]
    assert abs(math.fsum(ious) / len(ious) - file["gIoU"]) <= 1e-12
    assert sum(case["I"] for case in cases) / sum(case["U"] for case in cases) == file["cIoU"]
    hits = [modules.boxes.any_box_hits(case["box"], case["boxes"]) for case in cases]
    assert sum(hits) / len(hits) == file["bbox_iou"]
    assert 0 < file["bbox_iou"] < 1


def test_counting_means_equal_the_official_summary(read_golden, modules):
    file = read_golden("visionreasoner/counting.json")
    rows = [row[:2] for row in file["cases"]]
    assert np.mean([modules.counting.exact(*row) for row in rows]) == file["correct_count"]
    assert np.mean([modules.counting.absolute_error(*row) for row in rows]) == file["mae"]
    squares = [modules.counting.squared_error(*row) for row in rows]
    assert np.sqrt(np.mean(squares)) == file["rmse"]
