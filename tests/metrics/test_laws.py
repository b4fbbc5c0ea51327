"""Laws that hold for any masks and boxes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.masks import Rle
from harness.metrics.bits import dilate_by_disk, pack, unpack
from harness.metrics.boundary import boundary_f_measure, boundary_f_measure_frame
from harness.metrics.boxes import box_iou, box_iou_inclusive
from harness.metrics.overlap import (
    lisa_iou,
    overlap,
    precision_at,
    region_similarity,
    region_similarity_frame,
    visionreasoner_iou,
)

sizes = st.tuples(st.integers(1, 12), st.one_of(st.integers(1, 12), st.integers(62, 67)))


@st.composite
def masks(draw, count):
    """As many masks of one size; some are rectangles, for noise has outlines everywhere."""
    height, width = draw(sizes)
    found = []
    for _ in range(count):
        if draw(st.booleans()):
            mask = draw(arrays(np.bool_, (height, width)))
        else:
            top, left = draw(st.integers(0, height)), draw(st.integers(0, width))
            mask = np.zeros((height, width), dtype=np.bool_)
            mask[top : draw(st.integers(top, height)), left : draw(st.integers(left, width))] = True
        found.append(mask)
    return found


boxes = st.lists(
    st.tuples(*[st.integers(-20, 20)] * 2, *[st.integers(0, 30)] * 2).map(
        lambda box: (box[0], box[1], box[0] + box[2], box[1] + box[3])
    ),
    min_size=1,
    max_size=5,
)


@given(masks(2))
def test_j_and_f_do_not_depend_on_the_order_of_the_arguments(pair):
    first, second = pair
    assert region_similarity_frame(first, second) == region_similarity_frame(second, first)
    # precision and recall change roles, and their harmonic mean stays
    assert boundary_f_measure_frame(first, second) == boundary_f_measure_frame(second, first)


@given(masks(3))
def test_j_and_f_lie_between_zero_and_one(three):
    for metric in (region_similarity_frame, boundary_f_measure_frame):
        assert 0 <= metric(*three[:2]) <= 1
        assert 0 <= metric(*three) <= 1


@given(masks(2))
def test_a_mask_equals_itself(pair):
    mask, void = pair
    for metric in (region_similarity_frame, boundary_f_measure_frame):
        assert metric(mask, mask) == 1
        assert metric(mask, mask, void) == 1


@given(masks(3))
def test_run_lengths_score_as_arrays_do(three):
    runs = [Rle.from_array(mask) for mask in three]
    for metric in (overlap, region_similarity_frame, boundary_f_measure_frame):
        assert metric(*runs) == metric(*three)
        assert metric(*runs[:2]) == metric(*three[:2])


@given(masks(3), st.randoms(use_true_random=False))
def test_j_does_not_depend_on_where_pixels_are(three, random):
    order = list(range(three[0].size))
    random.shuffle(order)
    moved = [mask.ravel()[order].reshape(mask.shape) for mask in three]
    assert region_similarity_frame(*moved) == region_similarity_frame(*three)


@given(masks(3), st.tuples(*[st.integers(0, 5)] * 4))
def test_an_empty_margin_does_not_change_j(three, margin):
    top, bottom, left, right = margin
    padded = [np.pad(mask, ((top, bottom), (left, right))) for mask in three]
    assert region_similarity_frame(*padded) == region_similarity_frame(*three)


@given(masks(3))
def test_f_is_the_same_for_transposed_masks(three):
    # The crop of run-lengths relies on this.
    assert boundary_f_measure_frame(*(mask.T for mask in three)) == boundary_f_measure_frame(*three)


@given(masks(2))
def test_memory_order_does_not_matter(pair):
    other = [np.asfortranarray(mask) for mask in pair]
    assert boundary_f_measure_frame(*other) == boundary_f_measure_frame(*pair)
    assert overlap(*other) == overlap(*pair)


@given(masks(3), st.tuples(*[st.sampled_from([1, 2, 128, 255])] * 3))
def test_bytes_of_true_do_not_matter_to_f(three, bytes_of_true):
    viewed = [
        (mask * np.uint8(byte)).view(np.bool_)
        for mask, byte in zip(three, bytes_of_true, strict=True)
    ]
    assert boundary_f_measure_frame(*viewed[:2]) == boundary_f_measure_frame(*three[:2])
    assert boundary_f_measure_frame(*viewed) == boundary_f_measure_frame(*three)


@given(masks(4))
def test_a_track_is_scored_frame_by_frame(four):
    ground_truth, predicted = np.stack(four[:2]), np.stack(four[2:])
    for track, frame in (
        (region_similarity, region_similarity_frame),
        (boundary_f_measure, boundary_f_measure_frame),
    ):
        found = track(ground_truth, predicted)
        assert found.dtype == np.float64
        assert found.tolist() == [frame(four[0], four[2]), frame(four[1], four[3])]


@given(masks(2))
def test_scoring_changes_no_mask(pair):
    before = [mask.copy() for mask in pair]
    region_similarity_frame(*pair, pair[0])
    boundary_f_measure_frame(*pair, pair[0])
    assert all((mask == copy).all() for mask, copy in zip(pair, before, strict=True))


@given(masks(3))
def test_ignored_pixels_could_as_well_be_wrong(three):
    ground_truth, predicted, ignore = three
    assert overlap(ground_truth, predicted, ignore) == overlap(
        ground_truth | ignore, predicted & ~ignore, ignore
    )


@given(masks(2), st.integers(0, 6))
@settings(max_examples=50)
def test_dilation_reaches_every_pixel_within_the_radius(pair, radius):
    height, width = pair[0].shape
    expected = np.zeros((2, height, width), dtype=bool)
    rows, columns = np.indices(pair[0].shape)
    for image, row, column in np.argwhere(pair):
        expected[image] |= (rows - row) ** 2 + (columns - column) ** 2 <= radius**2
    found = unpack(dilate_by_disk(pack(*pair, gap=radius), radius), height, width)
    assert found.shape == expected.shape
    assert (found == expected).all()


@given(masks(2))
def test_unpacking_inverts_packing(pair):
    assert (unpack(pack(*pair, gap=3), *pair[0].shape) == np.stack(pair)).all()


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_lisa_and_visionreasoner_differ_by_the_epsilon_and_where_nothing_is_seen(shared, more):
    union = shared + more
    lisa, exact = lisa_iou(shared, union), visionreasoner_iou(shared, union)
    if union == 0:
        assert (lisa, exact) == (1, 0)
    else:
        assert lisa == pytest.approx(exact, rel=1.1e-5)
        assert lisa <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_precision_falls_with_the_threshold_and_averages_over_samples(ious):
    found = precision_at(ious)
    assert (np.diff(found) <= 0).all()
    assert found == pytest.approx(np.mean([precision_at(iou) for iou in ious], axis=0))


def test_precision_of_no_samples_is_zero():
    assert precision_at([]).tolist() == [0] * 5


@given(boxes, boxes)
def test_iou_of_boxes_is_that_of_their_pixels(ground_truth, predicted):
    def painted(box, rim):
        left, top, right, bottom = (side + 20 for side in box)
        image = np.zeros((80, 80), dtype=np.bool_)
        image[top : bottom + rim, left : right + rim] = True
        return image

    for rim, metric in ((0, box_iou), (1, box_iou_inclusive)):
        found = metric(ground_truth, predicted)
        assert found.shape == (len(ground_truth), len(predicted))
        assert (found == metric(predicted, ground_truth).T).all()
        for row, first in enumerate(ground_truth):
            for column, second in enumerate(predicted):
                counts = overlap(painted(first, rim), painted(second, rim))
                assert found[row, column] == visionreasoner_iou(*counts)


def test_boxes_turned_inside_out_overlap_nothing():
    assert box_iou([(0, 0, 10, 10)], [(8, 0, 2, 10), (8, 8, 2, 2)]).tolist() == [[0, 0]]
    assert box_iou([(5, 5, 5, 5)], [(5, 5, 5, 5)]).tolist() == [[0]]
