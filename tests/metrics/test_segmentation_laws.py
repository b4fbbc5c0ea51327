"""Laws of segmentation scores that hold for any masks, boxes and confidences, and bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.errors import DataError, MaskError
from harness.masks import Rle
from harness.metrics.generalised import (
    nonobject_box,
    nonobject_box_hit,
    nonobject_credit,
    rela_credit,
)
from harness.metrics.grec import confident, generalised_box_iou, grec_f1
from harness.metrics.normalised import llmseg_iou, nearest_resize, normalised_overlap
from harness.metrics.overlap import Overlap, overlap
from harness.metrics.referring import referring_mask
from harness.metrics.revos import (
    accuracy,
    foreground_track,
    in_percent,
    pixel_table,
    revos_scores,
    robustness,
)
from harness.metrics.unsupervised import (
    object_count,
    proposals,
    soft_argmax,
    unsupervised_scores,
)
from harness.types import Box

sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
corners = st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 12)] * 2).map(
    lambda box: (box[0], box[1], box[0] + box[2], box[1] + box[3])
)
boxes = st.lists(corners, max_size=5)


@st.composite
def masks(draw, count, size=None):
    size = size or draw(sizes)
    return [draw(arrays(np.bool_, size)) for _ in range(count)]


@st.composite
def label_maps(draw, largest):
    shape = draw(st.tuples(st.integers(1, 3), st.integers(2, 6), st.integers(2, 6)))
    ground_truth = draw(arrays(np.uint8, shape, elements=st.integers(0, largest)))
    ground_truth[0, 0, 0] = largest
    return ground_truth, draw(arrays(np.uint8, shape, elements=st.integers(0, largest)))


def annotated(labels):
    """The objects that the DAVIS scorer knows, and the void pixels."""
    numbers = range(1, object_count(labels[0]) + 1)
    return [labels == number for number in numbers], labels == 255


@given(st.integers(0, 400), st.integers(0, 400))
def test_llmseg_iou_of_perfect_answers_is_one_and_grows_with_the_intersection(shared, more):
    assert llmseg_iou(shared, shared) == 1
    assert 0 <= llmseg_iou(shared, shared + more) <= llmseg_iou(shared + 1, shared + 1 + more) <= 1


@given(masks(1), st.integers(1, 4))
def test_resizing_to_the_same_size_changes_nothing_and_to_a_multiple_repeats(one, times):
    (mask,) = one
    height, width = mask.shape
    assert (nearest_resize(mask, height=height, width=width) == mask).all()
    large = nearest_resize(mask, height=height * times, width=width * times)
    assert (large == mask.repeat(times, axis=0).repeat(times, axis=1)).all()


@given(masks(3), st.integers(1, 12))
def test_squares_score_run_lengths_as_arrays_and_equal_masks_as_equal(three, side):
    counts = normalised_overlap(*three, side=side)
    assert counts == normalised_overlap(*map(Rle.from_array, three), side=side)
    same = normalised_overlap(three[0], three[0], side=side)
    assert same.intersection == same.union <= side * side


@given(masks(3))
def test_both_readings_agree_unless_polygons_overlap(three):
    parts = [Rle.from_array(mask) for mask in three]
    strict, compat = (referring_mask(parts, form=form) for form in ("strict", "compat"))
    times = np.sum(three, axis=0)
    assert (strict.to_array() == (times > 0)).all()
    assert (compat.to_array() == (times == 1)).all()
    assert strict == referring_mask(parts[::-1], form="strict")


overlaps = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(
    lambda pair: Overlap(pair[0], sum(pair))
)


@given(overlaps, st.booleans(), st.booleans())
def test_saying_no_target_is_never_worse_without_one_and_never_better_with_one(counts, none, said):
    right = rela_credit(counts, no_target=none, predicted_no_target=none)
    other = rela_credit(counts, no_target=none, predicted_no_target=said)
    assert 0 <= other.iou <= right.iou <= 1
    assert other.intersection <= right.intersection <= counts.union
    if not none:
        assert other.union == counts.union  # a mask that is predicted all the same still counts


@given(overlaps, st.booleans(), st.integers(0, 3))
def test_without_boxes_only_an_empty_annotation_is_answered(counts, none, count):
    credit = nonobject_credit(counts, no_target=none, boxes=count)
    assert (credit.intersection, credit.union) == counts
    assert credit.iou == 1 if none and count == 0 else credit.iou <= 1


@given(masks(1))
def test_the_box_of_a_mask_holds_its_foreground(one):
    (mask,) = one
    box = nonobject_box(mask)
    assert box == nonobject_box(Rle.from_array(mask))
    if box is None:
        assert not mask.any()
    else:
        inside = mask[box.top : box.bottom + 1, box.left : box.right + 1]
        assert inside.sum() == mask.sum()
        assert inside[0].any() and inside[-1].any() and inside[:, 0].any() and inside[:, -1].any()


def test_a_hull_hits_where_no_box_does():
    halves = [Box(0, 0, 10, 4), Box(0, 4, 10, 8)]
    assert not nonobject_box_hit(Box(0, 0, 10, 10), halves[:1])
    assert nonobject_box_hit(Box(0, 0, 10, 10), halves)
    assert nonobject_box_hit(None, []) and not nonobject_box_hit(None, halves)
    assert not nonobject_box_hit(Box(0, 0, 10, 10), [])


@given(boxes, boxes)
def test_generalised_iou_is_symmetric_and_at_most_the_iou(ground_truth, predicted):
    found = generalised_box_iou(ground_truth, predicted)
    assert (found == generalised_box_iou(predicted, ground_truth).T).all()
    assert ((found > -1) & (found <= 1)).all()
    assert all(generalised_box_iou([box], [box]) == 1 for box in ground_truth)


@given(boxes, boxes, st.integers(1, 7))
def test_f1_does_not_depend_on_scale_and_is_one_for_the_ground_truth(
    ground_truth, predicted, scale
):
    assert grec_f1(ground_truth, ground_truth) == 1
    found = grec_f1(ground_truth, predicted)
    assert 0 <= found <= 1
    # a power of two, so that float32 rounds alike
    assert found == grec_f1(np.multiply(ground_truth, 2**scale), np.multiply(predicted, 2**scale))
    if found < 1 or not ground_truth:
        assert grec_f1(ground_truth, [*predicted, (900, 900, 990, 990)]) <= found


def test_only_confident_boxes_count():
    rows = [(0, 0, 4, 4), (8, 8, 12, 12)]
    assert confident(rows, [0.7, 0.71]) == [(8.0, 8.0, 12.0, 12.0)]
    assert confident([], []) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: generalised_box_iou([(0, 0, 4)], []),
        lambda: generalised_box_iou([(4, 0, 0, 4)], []),
        lambda: grec_f1([(0, 0, float("nan"), 4)], []),
        lambda: grec_f1(["box"], []),
        lambda: confident([(0, 0, 4, 4)], []),
        lambda: confident([(0, 0, 4, 4)], [float("nan")]),
    ],
)
def test_boxes_that_are_none_are_refused(call):
    with pytest.raises(DataError):
        call()


unit = st.floats(0, 1, width=32)


@given(st.lists(arrays(np.float32, (2, 2, 3), elements=unit), min_size=1, max_size=4))
def test_a_pixel_goes_to_an_object_exactly_if_one_reaches_a_half(confidences):
    labels = soft_argmax(confidences)
    stacked = np.stack(confidences)
    assert ((labels > 0) == (stacked.max(axis=0) >= 0.5)).all()
    winner = stacked.argmax(axis=0) + 1
    assert (labels[labels > 0] == winner[labels > 0]).all()


@given(label_maps(3), st.permutations([1, 2, 3]))
@settings(max_examples=40)
def test_objects_are_matched_whatever_their_numbers(maps, order):
    ground_truth, predicted = maps
    objects, void = annotated(ground_truth)
    plain = unsupervised_scores(objects, proposals(predicted), void)
    renamed = np.array([0, *order], dtype=np.uint8)[predicted]
    other = unsupervised_scores(objects, proposals(renamed), void)
    assert (plain.j + plain.f).sum() == pytest.approx((other.j + other.f).sum())
    own = unsupervised_scores(objects, proposals(ground_truth), void)
    assert (own.j == 1).all() and (own.f == 1).all()


@given(label_maps(2))
@settings(max_examples=40)
def test_run_lengths_and_arrays_of_objects_score_alike(maps):
    ground_truth, predicted = maps
    objects, void = annotated(ground_truth)
    arrays_ = unsupervised_scores(objects, proposals(predicted), void)
    runs = [
        [[Rle.from_array(frame) for frame in one] for one in group]
        for group in (objects, proposals(predicted), [void])
    ]
    found = unsupervised_scores(runs[0], runs[1], runs[2][0])
    assert (found.j == arrays_.j).all() and (found.f == arrays_.f).all()


def test_void_pixels_do_not_count_and_are_no_object():
    ground_truth = np.array([[[1, 1, 255, 0]]], dtype=np.uint8)
    objects, void = annotated(ground_truth)
    predicted = np.array([[[1, 1, 1, 0]]], dtype=np.uint8)
    assert len(objects) == 1
    assert unsupervised_scores(objects, proposals(predicted), void).j.tolist() == [1]
    assert unsupervised_scores(objects, proposals(predicted)).j.tolist() == [2 / 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda: soft_argmax([]),
        lambda: soft_argmax([np.full((1, 2, 2), 1.5)]),
        lambda: soft_argmax([np.full((1, 2, 2), np.nan)]),
        lambda: soft_argmax([np.zeros((1, 2, 2)), np.zeros((1, 2, 3))]),
        lambda: soft_argmax([np.zeros((2, 2))]),
        lambda: proposals(np.zeros((1, 2, 2), np.int64)),
        lambda: unsupervised_scores([], []),
        lambda: unsupervised_scores([np.ones((1, 2, 2), bool)], [np.ones((1, 2, 2), bool)] * 21),
        lambda: unsupervised_scores([np.ones((1, 2, 2), bool)], [np.ones((2, 2, 2), bool)]),
        lambda: referring_mask([], form="strict"),
        lambda: referring_mask([Rle.full(2, 2), Rle.full(2, 3)], form="compat"),
        lambda: nearest_resize(np.ones((2, 2), bool), height=0, width=2),
        lambda: nearest_resize(np.ones((2, 2)), height=2, width=2),
        lambda: normalised_overlap(np.ones((2, 2), bool), Rle.full(2, 2)),
        lambda: foreground_track([]),
        lambda: foreground_track([[Rle.full(2, 2)], [Rle.full(2, 2)] * 2]),
        lambda: revos_scores([], [Rle.full(2, 2)], [Rle.full(2, 2)], form="binary"),
        lambda: revos_scores([[Rle.full(2, 2)]], [], [Rle.full(2, 2)], form="binary"),
        lambda: revos_scores([[Rle.full(2, 2)]], [Rle.full(2, 3)], [Rle.full(2, 2)], form="binary"),
        lambda: revos_scores([[Rle.full(2, 2)]], [Rle.full(2, 2)], [Rle.full(3, 2)], form="binary"),
    ],
)
def test_masks_that_cannot_be_compared_are_refused(call):
    with pytest.raises(MaskError):
        call()


@given(masks(4, size=(4, 5)))
def test_pixels_are_counted_alike_with_and_without_decoding(four):
    predicted, first, second, third = four
    for objects in ([first], [first, second & ~first], [first, second], [first, second, third]):
        table = pixel_table([Rle.from_array(mask) for mask in objects], Rle.from_array(predicted))
        covered = np.sum(objects, axis=0)
        for level in range(len(table)):
            for output in (False, True):
                assert (
                    table[level, int(output)] == ((covered == level) & (predicted == output)).sum()
                )
        assert table.sum() == predicted.size


@given(masks(3, size=(4, 5)), st.sampled_from(["visa255", "binary", "strict"]))
def test_accuracy_and_robustness_lie_between_zero_and_one(three, form):
    predicted, ground_truth, around = map(Rle.from_array, three)
    table = pixel_table([ground_truth], predicted)
    assert 0 <= accuracy(table, form=form) <= 1
    assert 0 <= robustness(table, around.area, form=form) <= 1
    own = pixel_table([ground_truth], ground_truth)
    assert robustness(own, around.area, form=form) == 1
    assert accuracy(own, form="binary") == accuracy(own, form="strict") == 1
    assert accuracy(own, form="visa255") == pytest.approx(1 - ground_truth.area / 20)


def test_without_overlaps_binary_and_strict_agree_and_a_wrong_pixel_weighs_255_times_in_visa():
    ground_truth, predicted = Rle.from_array(np.eye(8, dtype=bool)), Rle.full(8, 8)
    table = pixel_table([ground_truth], predicted)
    binary, strict = (robustness(table, 20_000, form=form) for form in ("binary", "strict"))
    assert binary == strict
    assert 1 - robustness(table, 20_000, form="visa255") == pytest.approx(255 * (1 - binary))


def test_percents_are_rounded_by_numpy():
    assert in_percent(0.00125) == 0.12 and in_percent(0.00375) == 0.38  # halves go to even
    assert in_percent(1.0) == 100.0


@given(masks(2))
def test_scores_of_one_overlap_agree_with_the_counts(pair):
    counts = overlap(*pair)
    credit = rela_credit(counts, no_target=False, predicted_no_target=False)
    assert credit.iou == (counts.intersection / counts.union if counts.union else 0)
