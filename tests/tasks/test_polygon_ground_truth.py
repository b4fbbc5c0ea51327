"""ReasonSeg's ground truth does not depend on the OpenCV that is installed."""

import json

import cv2
import numpy as np
import pytest

TRIANGLE = [[1.9, 6.2], [1.0, 5.0], [2.5, 7.9]]  # cut to (1, 6), (1, 5), (2, 7)


@pytest.fixture
def lisa_files(tmp_path):
    """One image of 4 × 8 with a triangle."""
    folder = tmp_path / "reason_seg/ReasonSeg/val"
    folder.mkdir(parents=True)
    cv2.imwrite(str(folder / "a.jpg"), np.zeros((8, 4, 3), dtype=np.uint8))
    shapes = [{"label": "target", "points": TRIANGLE}]
    text = json.dumps({"text": ["it"], "is_sentence": False, "shapes": shapes})
    (folder / "a.json").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("protocol", "corner"),
    [("seg/lisa", True), ("seg/lisa@cv4.11", False), ("seg/visionreasoner", True)],
)
def test_a_protocol_says_whose_pixels_the_ground_truth_has(
    build, lisa_files, protocol, corner, monkeypatch
):
    for drawing in ("fillPoly", "polylines", "line"):
        monkeypatch.delattr(cv2, drawing)
    (sample,) = build(f"reason_seg(protocol={protocol})", lisa_files).samples()
    ground_truth = sample.target.answer.masks[0].to_array()
    assert ground_truth.sum() == 3 + corner
    assert ground_truth[6, 2] == corner
