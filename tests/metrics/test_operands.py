"""What cannot be compared is refused by name, and nothing is broadcast."""

import numpy as np
import pytest

from harness.errors import DataError, MaskError
from harness.masks import Rle
from harness.metrics.boundary import boundary_f_measure, boundary_f_measure_frame
from harness.metrics.boxes import any_box_hits, box_iou, box_iou_inclusive
from harness.metrics.counting import absolute_error, exact, squared_error
from harness.metrics.overlap import overlap, region_similarity, region_similarity_frame

FRAME = np.ones((4, 6), dtype=np.bool_)
TRACK = np.ones((2, 4, 6), dtype=np.bool_)
RUNS = Rle.full(4, 6)
frame_metrics = pytest.mark.parametrize(
    "metric", [overlap, region_similarity_frame, boundary_f_measure_frame]
)
track_metrics = pytest.mark.parametrize("metric", [region_similarity, boundary_f_measure])


@frame_metrics
@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (FRAME[:, :5], "4 × 5 bool"),
        (FRAME[:1], "1 × 6 bool"),
        (FRAME[None], "1 × 4 × 6 bool"),
        (FRAME[0], "6 bool array"),
        (np.array(True), "scalar"),
        (FRAME.astype(np.float32), "4 × 6 float32 array"),
        (FRAME.astype(np.uint8), "4 × 6 uint8 array"),
        (RUNS, "4 × 6 run-length"),
        (FRAME.tolist(), "4 frame(s)"),
        (None, "NoneType"),
    ],
)
def test_another_size_or_type_is_refused_with_both_shapes(metric, other, shown):
    for pair in ((FRAME, other), (other, FRAME)):
        with pytest.raises(MaskError) as refused:
            metric(*pair)
        assert shown in str(refused.value)
        assert "4 × 6 bool" in str(refused.value)


@frame_metrics
def test_ignored_pixels_must_be_of_the_same_size_and_kind(metric):
    with pytest.raises(MaskError, match="4 × 5 bool"):
        metric(FRAME, FRAME, FRAME[:, :5])
    with pytest.raises(MaskError, match="3 × 6 run-length"):
        metric(RUNS, RUNS, Rle.full(3, 6))


@frame_metrics
def test_run_lengths_of_two_sizes_are_refused_with_both(metric):
    with pytest.raises(MaskError, match="4 × 6 run-length and 6 × 4 run-length"):
        metric(RUNS, Rle.full(6, 4))


@frame_metrics
def test_wrong_masks_are_refused_even_when_equal_in_shape(metric):
    with pytest.raises(MaskError, match="0 × 6 bool"):
        metric(FRAME[:0], FRAME[:0])
    with pytest.raises(MaskError, match="float64"):
        metric(FRAME.astype(float), FRAME.astype(float))


@track_metrics
@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (TRACK, TRACK[:1], "1 × 4 × 6 bool"),
        (TRACK, FRAME, "2 × 4 × 6 bool array and 4 × 6 bool array"),
        (FRAME, FRAME, "4 × 6 bool array and 4 × 6 bool array"),
        (TRACK, TRACK.astype(np.float32), "float32"),
        (TRACK, [RUNS, RUNS], "2 frame(s)"),
        ([RUNS], [RUNS, RUNS], "1 frame(s) and 2 frame(s)"),
        ([RUNS, RUNS], [RUNS, Rle.full(4, 7)], "4 × 6 run-length and 4 × 7 run-length"),
        ([], [], "0 frame(s)"),
        (TRACK[:0], TRACK[:0], "0 × 4 × 6"),
    ],
)
def test_tracks_that_do_not_fit_are_refused_with_both_shapes(metric, first, second, shown):
    with pytest.raises(MaskError) as refused:
        metric(first, second)
    assert shown in str(refused.value)


@track_metrics
def test_void_must_have_as_many_frames(metric):
    with pytest.raises(MaskError, match="1 × 4 × 6 bool"):
        metric(TRACK, TRACK, TRACK[:1])
    with pytest.raises(MaskError, match="1 frame"):
        metric([RUNS, RUNS], [RUNS, RUNS], [RUNS])


@pytest.mark.parametrize("metric", [box_iou, box_iou_inclusive])
@pytest.mark.parametrize(
    "boxes",
    [[(0, 0, 1)], (0, 0, 1, 1), [(0, 0, 1, float("nan"))], [(0, 0, float("inf"), 1)], [[0, 0], 1]],
)
def test_what_is_no_list_of_boxes_is_refused(metric, boxes):
    with pytest.raises(DataError, match="boxes"):
        metric([(0, 0, 1, 1)], boxes)
    with pytest.raises(DataError, match="boxes"):
        metric(boxes, [(0, 0, 1, 1)])


def test_no_boxes_have_no_pairs():
    assert box_iou([(0, 0, 1, 1)], []).shape == (1, 0)
    assert box_iou_inclusive([], [(0, 0, 1, 1)]).shape == (0, 1)
    assert not any_box_hits((0, 0, 1, 1), [])


@pytest.mark.parametrize("metric", [exact, absolute_error, squared_error])
@pytest.mark.parametrize("count", [-1, 1.0, True, "1", None, float("nan")])
def test_what_is_no_count_is_refused(metric, count):
    with pytest.raises(DataError, match=rf"^true .*found {count!r}$"):
        metric(count, 1)
    with pytest.raises(DataError, match=rf"^predicted .*found {count!r}$"):
        metric(1, count)
