"""The parts of `harness explain` by themselves: second readings compared, masks compared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli.overlap import FRAMES, compared, lines
from harness.cli.reread import differences
from harness.masks import Rle
from harness.types import Answer, Box, Failure, FailureKind, Prediction


def said(**fields):
    return Prediction(query_id="q", answer=Answer(**fields))


def failed(kind=FailureKind.PARSE):
    return Prediction(query_id="q", failure=Failure(kind, "why"))


MASK = Rle.full(4, 5)
BOX = Box(1, 2, 3, 4)


def test_equal_answers_do_not_differ_and_masks_are_compared_by_their_presence():
    assert differences(said(count=3), said(count=3)) == []
    assert differences(said(masks=(MASK,)), said(masks=(Rle.empty(4, 5),))) == []
    assert differences(said(masks=(MASK,)), said(count=1))[-1] == "masks: recorded, not said now"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"count": 3}, {"count": 4}),
        ({"choice": "A"}, {"choice": "B"}),
        ({"boxes": (BOX,)}, {"boxes": ()}),
        ({"count": 0}, {"count": 0, "no_target": True}),
    ],
)
def test_answers_that_differ_are_told_with_the_field(old, new):
    (line,) = differences(said(**old), said(**new))
    assert line.startswith(("count", "choice", "boxes", "no_target")) and "recorded" in line


def test_boxes_are_left_out_where_the_canvas_is_not_known():
    old, new = said(boxes=(BOX,), count=1), said(boxes=(Box(0, 0, 1, 1),), count=1)
    assert differences(old, new) and differences(old, new, places=False) == []


def test_an_answer_that_became_a_failure_differs_and_so_does_the_reverse():
    assert "no answer (why)" in differences(said(count=3), failed())[0]
    assert "now count 3" in differences(failed(), said(count=3))[0]
    assert differences(failed(), failed()) == []


def test_what_failed_after_the_reading_is_no_difference():
    assert differences(failed(FailureKind.MODEL), said(count=3)) == []


def blocks(*corners):
    mask = np.zeros((20, 30), dtype=np.bool_)
    for row, column in corners:
        mask[row : row + 4, column : column + 5] = True
    return Rle.from_array(mask)


def test_a_mask_is_told_by_area_box_and_pieces():
    table = compared(Answer(masks=(blocks((0, 0), (10, 20)),)), Answer(masks=(blocks((0, 0)),)))
    assert table["size"] == [30, 20]
    (row,) = table["frames"]
    assert row["prediction"] == {
        "area": 40,
        "share": pytest.approx(40 / 600),
        "box": [0, 0, 25, 14],
        "pieces": 2,
    }
    assert row["truth"]["pieces"] == 1 and row["iou"] == 0.5
    assert (
        "2 pieces; truth 20 pixels (3.3 %), box [0, 0, 5, 4], 1 piece; IoU 0.500" in lines(table)[1]
    )


def test_pixels_that_touch_by_a_corner_are_one_piece():
    (row,) = compared(Answer(masks=(blocks((0, 0), (4, 5)),)), None)["frames"]
    assert row["prediction"]["pieces"] == 1


def test_of_a_long_video_a_few_frames_are_told_the_first_and_the_last_among_them():
    masks = (blocks((0, 0)),) * 50
    table = compared(Answer(masks=masks), Answer(masks=masks))
    frames = [row["frame"] for row in table["frames"]]
    assert len(frames) == FRAMES and (frames[0], frames[-1]) == (0, 49)
    assert {row["iou"] for row in table["frames"]} == {1.0}


def test_what_is_not_there_or_empty_has_no_iou():
    empty = Answer(masks=(Rle.empty(20, 30),))
    assert compared(None, None) is None and compared(Answer(count=1), None) is None
    (both,) = compared(empty, empty)["frames"]
    (alone,) = compared(None, empty)["frames"]
    assert both["iou"] is None and alone["iou"] is None and alone["prediction"] is None
    assert "both empty" in lines(compared(empty, empty))[1]
    assert "prediction not given; truth empty; IoU none" in lines(compared(None, empty))[1]


def test_masks_of_another_size_have_no_iou():
    (row,) = compared(Answer(masks=(MASK,)), Answer(masks=(blocks((0, 0)),)))["frames"]
    assert row["iou"] is None


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_iou_is_symmetric_and_one_only_for_equal_masks(data):
    bits = st.lists(st.booleans(), min_size=12, max_size=12)
    one, other = (
        Answer(masks=(Rle.from_array(np.array(data.draw(bits)).reshape(3, 4)),)) for _ in range(2)
    )
    there, back = (compared(*pair)["frames"][0]["iou"] for pair in ((one, other), (other, one)))
    assert there == back
    assert (there == 1) == (one == other and one.masks[0].area > 0)
