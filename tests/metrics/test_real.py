"""Equality with the official tools on annotated frames of real videos, where they are present."""

import hashlib
import json
import runpy
from pathlib import Path

import pytest

from harness.image_file import header_size
from harness.masks import Rle
from harness.metrics.boundary import boundary_f_measure_frame
from harness.metrics.overlap import region_similarity_frame
from harness.metrics.polygons import rasterise

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared/real"
present = pytest.mark.skipif(not REAL.is_dir(), reason="no real videos beside the repository")


@present
def test_j_and_f_of_real_masks_equal_the_official_ones_bit_for_bit(read_golden):
    transformed = runpy.run_path(str(ROOT / "tests/golden/inputs.py"))["transformed"]
    tracks = json.loads((REAL / "mevis/valid_u/mask_dict.json").read_text())
    cases = read_golden("davis2017/real.json")["cases"]
    assert len(cases) >= 200
    for case in cases:
        track = tracks[case["track"]]
        ground_truth = Rle.from_json(track[case["frame"]])
        predicted = transformed(
            Rle.from_json(track[case["frame"] + case["later"]]).to_array(),
            shift=case.get("shift", (0, 0)),
            grow=case.get("grow", 0),
        )
        for pair in (
            (ground_truth, Rle.from_array(predicted)),
            (ground_truth.to_array(), predicted),
        ):
            assert region_similarity_frame(*pair) == case["J"], case
            assert boundary_f_measure_frame(*pair) == case["F"], case


@present
@pytest.mark.parametrize("opencv", ["4.8", "4.11"])
def test_masks_of_real_polygons_equal_the_official_ones_bit_for_bit(read_golden, opencv):
    folder = REAL / "reason_seg/ReasonSeg"
    cases = read_golden(f"lisa/real_cv{opencv}.json")["cases"]
    assert len(cases) >= 10
    for name, (height, width, digest) in cases.items():
        assert header_size(folder / f"{name}.jpg") == (width, height)
        shapes = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["shapes"]
        painted = rasterise(shapes, height, width, opencv=opencv)
        assert hashlib.blake2b(painted.tobytes(), digest_size=8).hexdigest() == digest, name
