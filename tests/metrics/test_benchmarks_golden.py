"""Whole protocols of the benchmarks of 2025 and 2026 equal official scorers on golden files."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("family", ["benchmarks", "authors"])
def test_every_number_equals_the_official_one(compared, family):
    found = compared(family)
    assert not [one for one in found if one.deviation > 1e-12]
    assert found and all(one.cases and len(one.commit) == 40 for one in found)


def test_golden_points_lie_inside_outside_and_on_grey():
    cases = json.loads((GOLDEN / "pointing" / "where2place.json").read_text())["cases"]
    values = {case["accuracy"] for case in cases}
    assert {0.0, 1.0} <= values and len(values) > 10
    success = json.loads((GOLDEN / "pointing" / "pointbench.json").read_text())["cases"]
    assert {(case["count"] is None, case["success"]) for case in success} == {
        (one, other) for one in (True, False) for other in (True, False)
    }
