"""Equality with the official scorers of segmentation, on stored inputs and outputs."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from harness.masks import Rle
from harness.metrics.overlap import overlap
from harness.metrics.referring import referring_mask

GOLDEN = Path(__file__).parents[1] / "golden"
FLOAT32_SUMS = 1e-6
"""LISA and LLMSeg add up samples in float32; sums are exactly rounded here."""
ONE_BY_ONE = 1e-13
"""Means in percent of numbers that the official code adds one by one in double precision."""
BOUNDS = {
    "llmseg_totals": FLOAT32_SUMS,
    "lisa_referring_totals": FLOAT32_SUMS,
    "rela_totals": ONE_BY_ONE,
    "nonobject_totals": ONE_BY_ONE,
    "davis_totals": ONE_BY_ONE,
    "revos_visa_totals": ONE_BY_ONE,
    "revos_sa2va_totals": ONE_BY_ONE,
}
FILES = {
    "llmseg/masks.json": 200,
    "lisa/referring.json": 80,
    "grefcoco/boxes.json": 400,
    "davis2017/unsupervised.json": 36,
    "referformer/argmax.json": 40,
    "visa/davis.json": 36,
    "revos/visa.json": 48,
    "revos/sa2va.json": 48,
}
GROUPED = {"rela/samples.json": 280, "visionreasoner/nonobject.json": 320}


def read(name):
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@pytest.fixture(params=["compare_segmentation", "compare_objects"])
def family(request, monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    return importlib.import_module(request.param)


def test_every_number_equals_the_official_one(family, compared):
    several = compared(family.__name__.removeprefix("compare_"))
    for (name, check), found in zip(family.CHECKS.items(), several, strict=True):
        assert found.protocol == check[0]
        assert found.deviation <= BOUNDS.get(name, 0), found
        assert found.cases > 0
        assert len(found.commit) == 40


@pytest.mark.parametrize(("name", "cases"), (FILES | GROUPED).items())
def test_golden_files_hold_many_cases_name_their_source_and_are_small(name, cases):
    file = read(name)
    groups = file["groups"] if name in GROUPED else [file]
    assert sum(len(group["cases"]) for group in groups) >= cases
    assert {"tool", "commit", "what"} <= set(file)
    assert (GOLDEN / name).stat().st_size < 1_000_000


def test_golden_samples_cover_all_cells_of_no_target():
    cases = [case for group in read("rela/samples.json")["groups"] for case in group["cases"]]
    for none in (True, False):
        for output in (True, False):
            cell = [case for case in cases if case["none"] is none and case["said"] is output]
            assert len(cell) >= 15
            assert any(case["U"] for case in cell) or (none and output)
    totals = [group["totals"] for group in read("rela/samples.json")["groups"]]
    assert totals[2]["T_acc"] == totals[2]["N_acc"] == 0  # no sample without target


def test_golden_masks_cover_resizing_empty_unions_and_ignored_pixels():
    cases = read("llmseg/masks.json")["cases"]
    assert sum(case["size"] != case["answer_size"] for case in cases) >= 80
    assert sum(case["U"] == 0 for case in cases) >= 5
    assert sum(case["ignore"] is not None for case in cases) >= 60


def test_golden_boxes_cover_scores_at_the_threshold_and_all_outcomes():
    cases = read("grefcoco/boxes.json")["cases"]
    assert sum(0.7 in case["scores"] for case in cases) >= 50
    assert sum(0 < case["f1"] < 1 for case in cases) >= 50
    for target in (True, False):
        for right in (0.0, 1.0):
            assert any(
                bool(case["ground_truth"]) is target and case["f1"] == right for case in cases
            )
    ious = np.concatenate([np.ravel(case["giou"]) for case in cases if "giou" in case])
    assert (ious == 0.5).sum() >= 20


def test_golden_videos_cover_void_pixels_and_too_few_and_too_many_proposals():
    cases = read("davis2017/unsupervised.json")["cases"]
    counts = [
        (len(case["J"]), max(int(key) for frame in case["predicted"] for key in ("0", *frame)))
        for case in cases
    ]
    assert any(output == 0 for _, output in counts)
    assert any(0 < output < true for true, output in counts)
    assert any(output == 20 for _, output in counts)
    assert sum(any("255" in frame for frame in case["ground_truth"]) for case in cases) >= 20
    late = [
        case
        for case in cases
        if max(int(key) for frame in case["ground_truth"] for key in frame if key != "255")
        > len(case["J"])
    ]
    assert len(late) >= 3  # an object that the first frame lacks is none


def test_golden_expressions_cover_overlapping_objects_and_differ_between_the_forms():
    visa, sa2va = (read(f"revos/{name}.json")["cases"] for name in ("visa", "sa2va"))
    assert (
        sum(one["scores"][2:] != two["scores"][2:] for one, two in zip(visa, sa2va, strict=True))
        >= 30
    )
    assert all(one["scores"][:2] == two["scores"][:2] for one, two in zip(visa, sa2va, strict=True))
    assert {case["type"] for case in visa} == {0, 1, 2}


def test_the_two_readings_of_polygons_give_different_scores():
    different = 0
    for case in read("lisa/referring.json")["cases"]:
        size = tuple(case["size"])
        for parts, output in zip(case["objects"], case["predicted"], strict=True):
            masks = [Rle(*size, part) for part in parts]
            counts = {
                overlap(referring_mask(masks, form=form), Rle(*size, output))
                for form in ("strict", "compat")
            }
            different += len(counts) == 2
    assert different >= 40
