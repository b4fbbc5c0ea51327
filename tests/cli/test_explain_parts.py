"""The parts of `harness explain` by themselves: masks compared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.explained.masks import MAX_FRAMES, compare_masks, lines
from harness.masks import Rle
from harness.types import Answer

MASK = Rle.full(4, 5)


def blocks(*corners):
    mask = np.zeros((20, 30), dtype=np.bool_)
    for row, column in corners:
        mask[row : row + 4, column : column + 5] = True
    return Rle.from_array(mask)


def test_a_mask_is_told_by_area_box_and_pieces():
    table = compare_masks(
        Answer(masks=(blocks((0, 0), (10, 20)),)), Answer(masks=(blocks((0, 0)),))
    )
    assert table["size"] == [30, 20]
    (row,) = table["frames"]
    assert row["prediction"] == {
        "area": 40,
        "share": pytest.approx(40 / 600),
        "box": [0, 0, 25, 14],
        "pieces": 2,
    }
    assert row["ground_truth"]["pieces"] == 1 and row["iou"] == 0.5
    assert (
        "2 pieces; ground truth 20 pixels (3.3 %), box [0, 0, 5, 4], 1 piece; IoU 0.500"
        in lines(table)[1]
    )


def test_pixels_that_touch_by_a_corner_are_one_piece():
    (row,) = compare_masks(Answer(masks=(blocks((0, 0), (4, 5)),)), None)["frames"]
    assert row["prediction"]["pieces"] == 1


def test_of_a_long_video_a_few_frames_are_told_the_first_and_the_last_among_them():
    masks = (blocks((0, 0)),) * 50
    table = compare_masks(Answer(masks=masks), Answer(masks=masks))
    frames = [row["frame"] for row in table["frames"]]
    assert len(frames) == MAX_FRAMES and (frames[0], frames[-1]) == (0, 49)
    assert {row["iou"] for row in table["frames"]} == {1.0}


def test_what_is_not_there_or_empty_has_no_iou():
    empty = Answer(masks=(Rle.empty(20, 30),))
    assert compare_masks(None, None) is None and compare_masks(Answer(count=1), None) is None
    (both,) = compare_masks(empty, empty)["frames"]
    (alone,) = compare_masks(None, empty)["frames"]
    assert both["iou"] is None and alone["iou"] is None and alone["prediction"] is None
    assert "both empty" in lines(compare_masks(empty, empty))[1]
    assert "no prediction; ground truth empty; no IoU" in lines(compare_masks(None, empty))[1]


def test_masks_of_another_size_have_no_iou():
    (row,) = compare_masks(Answer(masks=(MASK,)), Answer(masks=(blocks((0, 0)),)))["frames"]
    assert row["iou"] is None


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_iou_is_symmetric_and_one_only_for_equal_masks(data):
    bits = st.lists(st.booleans(), min_size=12, max_size=12)
    one, other = (
        Answer(masks=(Rle.from_array(np.array(data.draw(bits)).reshape(3, 4)),)) for _ in range(2)
    )
    there, back = (
        compare_masks(*pair)["frames"][0]["iou"] for pair in ((one, other), (other, one))
    )
    assert there == back
    assert (there == 1) == (one == other and one.masks[0].area > 0)
