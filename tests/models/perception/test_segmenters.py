import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import plugins
from harness.errors import UsageError
from harness.models.segmenters.box import box
from harness.models.segmenters.grabcut import grabcut
from harness.models.segmenters.places import rectangle
from harness.segmentation import ObjectPrompt
from harness.types import Box, Point

BOTH = pytest.mark.parametrize("segmenter", [box(), grabcut()], ids=lambda found: found.name)
ROUND = Box(36, 30, 104, 98)  # loosely around the standing disc


def iou(one, other):
    return np.count_nonzero(one & other) / np.count_nonzero(one | other)


@pytest.mark.parametrize("name", ["box", "grabcut"])
def test_a_segmenter_is_found_by_its_name(name):
    assert plugins.build("segmenters", name).name == name


@BOTH
def test_no_prompts_give_no_masks(segmenter, standing):
    assert segmenter.segment(standing.image, []) == []


@BOTH
def test_each_prompt_gets_one_boolean_mask_of_the_images_size(segmenter, standing):
    prompts = [ObjectPrompt(box=ROUND), ObjectPrompt(positive=(Point(70, 64),))]
    masks = segmenter.segment(standing.image, prompts)
    assert [(mask.shape, mask.dtype) for mask in masks] == [((120, 160), np.bool_)] * 2
    assert all(mask.any() for mask in masks)


def test_box_fills_exactly_its_box(standing):
    (mask,) = box().segment(standing.image, [ObjectPrompt(box=Box(3, 5, 10, 6))])
    assert mask.sum() == 7
    assert mask[5, 3:10].all()


def test_box_spans_points_where_no_box_is_given(standing):
    points = (Point(4.2, 9.9), Point(6.0, 8.0))
    (mask,) = box().segment(standing.image, [ObjectPrompt(positive=points)])
    assert mask.sum() == 6
    assert mask[8:10, 4:7].all()


def test_grabcut_cuts_a_disc_out_of_a_loose_box(standing):
    (mask,) = grabcut().segment(standing.image, [ObjectPrompt(box=ROUND)])
    (rectangle_mask,) = box().segment(standing.image, [ObjectPrompt(box=ROUND)])
    assert iou(mask, standing.masks[0]) > 0.9 > iou(rectangle_mask, standing.masks[0])


def test_grabcut_cuts_a_disc_out_around_one_point(standing):
    (mask,) = grabcut().segment(standing.image, [ObjectPrompt(positive=(Point(70, 64),))])
    assert iou(mask, standing.masks[0]) > 0.9


def test_grabcut_keeps_a_negative_point_out(standing):
    inside = Point(60, 60)
    prompt = ObjectPrompt(box=ROUND, positive=(Point(80, 66),), negative=(inside,))
    (mask,) = grabcut().segment(standing.image, [prompt])
    assert not mask[60, 60]
    assert mask[66, 80]


def test_grabcut_stays_within_its_box(standing):
    half = Box(40, 30, 70, 98)
    (mask,) = grabcut().segment(standing.image, [ObjectPrompt(box=half)])
    assert mask.any()
    assert not mask[:, 70:].any()


def test_grabcut_falls_back_on_the_box_where_colours_say_nothing(plain):
    prompt = ObjectPrompt(box=Box(11, 7, 51, 33))
    (mask,) = grabcut().segment(plain.image, [prompt])
    (filled,) = box().segment(plain.image, [prompt])
    np.testing.assert_array_equal(mask, filled)


def test_grabcut_falls_back_on_exactly_the_box_in_a_shrunk_view():
    image = np.zeros((300, 1400, 3), dtype=np.uint8)
    prompt = ObjectPrompt(box=Box(101, 51, 1203, 54))
    (mask,) = grabcut().segment(image, [prompt])
    np.testing.assert_array_equal(mask, box().segment(image, [prompt])[0])


def test_grabcut_gives_the_whole_image_for_a_box_of_it(standing):
    (mask,) = grabcut().segment(standing.image, [ObjectPrompt(box=Box(-9, -9, 999, 999))])
    assert mask.all()


@BOTH
@pytest.mark.parametrize(
    "prompt",
    [
        ObjectPrompt(),
        ObjectPrompt(phrase="the disc"),
        ObjectPrompt(box=Box(200, 10, 300, 50)),
        ObjectPrompt(box=Box(-50, -50, -10, -10)),
        ObjectPrompt(box=Box(20, 20, 20, 60)),
        ObjectPrompt(box=Box(float("nan"), 0, 9, 9)),
        ObjectPrompt(negative=(Point(5, 5),)),
    ],
    ids=["nothing", "phrase", "right of it", "left of it", "no width", "not a number", "negative"],
)
def test_a_prompt_that_names_no_place_gets_an_empty_mask(segmenter, standing, prompt):
    (mask,) = segmenter.segment(standing.image, [prompt])
    assert mask.shape == (120, 160)
    assert not mask.any()


@BOTH
def test_a_box_that_reaches_outside_is_clipped(segmenter, standing):
    far, near = Box(-1e9, 30, 104, float("inf")), Box(0, 30, 104, 120)
    masks = segmenter.segment(standing.image, [ObjectPrompt(box=far), ObjectPrompt(box=near)])
    np.testing.assert_array_equal(*masks)
    assert masks[0].any()


@BOTH
def test_swapped_edges_are_put_in_order(segmenter, standing):
    swapped = Box(ROUND.right, ROUND.bottom, ROUND.left, ROUND.top)
    prompts = [ObjectPrompt(box=swapped), ObjectPrompt(box=ROUND)]
    np.testing.assert_array_equal(*segmenter.segment(standing.image, prompts))


@BOTH
def test_the_image_is_not_written_to_and_may_be_read_only(segmenter, standing):
    image = standing.image.copy()
    image.flags.writeable = False
    segmenter.segment(image, [ObjectPrompt(box=ROUND)])
    np.testing.assert_array_equal(image, standing.image)


def test_grabcut_depends_on_neither_other_prompts_nor_the_state_of_randomness(standing):
    prompts = [
        ObjectPrompt(box=ROUND),
        ObjectPrompt(box=Box(0, 0, 90, 90)),
        ObjectPrompt(positive=(Point(20, 20),)),
    ]
    together = grabcut().segment(standing.image, prompts)
    for index in (2, 0, 1):
        cv2.setRNGSeed(1000 + index)
        (alone,) = grabcut().segment(standing.image, [prompts[index]])
        np.testing.assert_array_equal(alone, together[index])


def test_grabcut_does_not_depend_on_the_number_of_threads(standing):
    before = cv2.getNumThreads()
    masks = []
    try:
        for threads in (1, 4):
            cv2.setNumThreads(threads)
            masks += grabcut().segment(standing.image, [ObjectPrompt(box=ROUND)])
    finally:
        cv2.setNumThreads(before)
    np.testing.assert_array_equal(*masks)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 24),
    st.integers(1, 24),
    st.lists(st.floats(-30, 60), min_size=4, max_size=4),
    st.integers(0, 2**32),
)
def test_every_size_and_box_gives_a_mask_within_the_box(width, height, edges, seed):
    random = np.random.Generator(np.random.Philox(key=seed))
    image = random.integers(0, 256, size=(height, width, 3), dtype=np.uint8)
    prompt = ObjectPrompt(box=Box(*edges), positive=(Point(0, 0),))
    (cut,), (filled,) = (part.segment(image, [prompt]) for part in (grabcut(), box()))
    assert cut.shape == filled.shape == (height, width)
    assert not (cut & ~filled).any()
    assert cut.any() == filled.any()


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ((0.4, 0.6, 2.4, 2.6), (0, 1, 2, 3)),
        ((0.5, 0.5, 1.5, 1.5), (0, 0, 1, 1)),
        ((2, 2, 3, 3), (2, 2, 3, 3)),
        ((7.2, 0, 7.4, 8), None),
    ],
)
def test_a_rectangle_holds_the_pixels_whose_centres_are_inside(edges, found):
    assert rectangle(Box(*edges), (8, 8)) == found


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(UsageError, match=r"grabcut\(iterations=…\): .*1.*found 0"):
        plugins.build("segmenters", "grabcut", iterations=0)
    with pytest.raises(UsageError, match=r"grabcut\(max_side=…\): .*32.*found 8"):
        grabcut(max_side=8)
