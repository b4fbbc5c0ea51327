"""Protocols on cases worked by hand, and laws that follow from their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.masks import Rle
from harness.tasks.counting.task import PROTOCOLS as COUNTING
from harness.tasks.mevis.task import PROTOCOLS as MEVIS
from harness.tasks.segmentation.protocols import PROTOCOLS as REASON_SEG
from harness.types import Answer, AnswerForm, Box, Point, Sample, Target

LISA, COPIES = REASON_SEG["seg/lisa"], REASON_SEG["seg/visionreasoner"]
SEG_ZERO = REASON_SEG["seg/segzero"]
SIZE = (6, 10)
NOTHING = Rle.empty(*SIZE)


def block(left, right, *, top=1, bottom=3, size=SIZE):
    """A mask of columns `left` to `right`, two rows unless said otherwise."""
    mask = np.zeros(size, bool)
    mask[top:bottom, left:right] = True
    return Rle.from_array(mask)


@pytest.fixture(scope="module")
def still(query):
    def made(ground_truth, ignore=None, number=0):
        return Sample(
            id=f"s{number}",
            query=query(number, AnswerForm.MASK, size=SIZE),
            target=Target(answer=Answer(masks=(ground_truth,)), ignore=ignore and (ignore,)),
        )

    return made


def said(mask):
    return Answer(masks=(mask,))


# ReasonSeg. Ground truth: 8 pixels in columns 0–3; ignored: 8 pixels in columns 4–7.


def lisa(intersection, union):
    """One sample's IoU as LISA's float32 has it, divided by one sample and its epsilon."""
    return float(np.float32(intersection) / (np.float32(union) + np.float32(1e-5))) / (1 + 1e-5)


@pytest.mark.parametrize(
    ("answer", "by_lisa", "by_copies"),
    [
        (block(0, 4), lisa(8, 8), 8 / 16),  # the target alone
        (block(0, 8), lisa(8, 8), 16 / 16),  # target and ignored region
        (block(4, 8), lisa(0, 8), 8 / 16),  # the ignored region alone
        (block(2, 10), lisa(4, 12), 12 / 20),  # half the target, and four pixels that count
    ],
)
def test_an_ignored_region_covers_false_positives_for_lisa_and_is_a_target_in_the_copies(
    still, numbers, answer, by_lisa, by_copies
):
    sample = still(block(0, 4), block(4, 8))
    assert numbers(LISA, [(sample, said(answer))])["gIoU"] == pytest.approx(by_lisa, abs=1e-12)
    assert numbers(COPIES, [(sample, said(answer))])["gIoU"] == by_copies


@pytest.mark.parametrize("ground_truth", [(NOTHING, None), (NOTHING, block(4, 8))])
def test_an_empty_answer_to_an_empty_ground_truth_is_right_for_lisa(still, numbers, ground_truth):
    found = numbers(LISA, [(still(*ground_truth), said(NOTHING))])
    assert found["gIoU"] == pytest.approx(1 / (1 + 1e-5), abs=1e-12)
    assert found["P@0.9"] == 1.0 and found["cIoU"] == 0.0  # 0 / 1e-10, as LISA has it


def test_an_empty_answer_to_an_empty_ground_truth_is_wrong_for_visionreasoner(still, numbers):
    found = numbers(COPIES, [(still(NOTHING), said(NOTHING))])
    assert found["gIoU"] == found["P@0.5"] == 0.0 and found["cIoU"] is None


def test_an_empty_answer_to_an_empty_ground_truth_is_left_out_by_seg_zero(still, numbers):
    right = [(still(block(0, 4), number=number), said(block(0, 4))) for number in range(2)]
    empty = (still(NOTHING, number=2), said(NOTHING))
    assert numbers(SEG_ZERO, [*right, empty])["gIoU"] == 1.0
    assert numbers(COPIES, [*right, empty])["gIoU"] == pytest.approx(2 / 3)
    # What evaluation.py and calculate_iou.py print of these six is 0.2667.
    half, missed = still(block(0, 4), number=3), still(block(0, 4), number=4)
    six = [
        right[0],
        (half, said(block(2, 6))),
        empty,
        (empty[0], said(block(0, 1))),
        (missed, None),
        (empty[0], None),
    ]
    assert numbers(SEG_ZERO, six)["gIoU"] == pytest.approx(4 / 15)


@pytest.mark.parametrize("protocol", [LISA, COPIES])
def test_any_pixel_on_an_empty_ground_truth_is_wrong(still, numbers, protocol):
    found = numbers(protocol, [(still(NOTHING), said(block(0, 1)))])
    assert found["gIoU"] == found["cIoU"] == 0.0


@pytest.mark.parametrize("protocol", [LISA, COPIES])
def test_a_failure_on_an_empty_ground_truth_is_wrong(still, numbers, protocol):
    found = numbers(protocol, [(still(NOTHING), None)])
    assert found["gIoU"] == found["P@0.5"] == 0.0


@pytest.mark.parametrize("masks", [None, (NOTHING,)])
def test_no_target_is_the_answer_of_an_empty_mask(still, numbers, masks):
    answer = Answer(no_target=True, masks=masks)
    for protocol in (LISA, COPIES):
        for ground_truth in (NOTHING, block(0, 4)):
            sample = still(ground_truth, block(4, 8))
            expected = numbers(protocol, [(sample, said(NOTHING))])
            assert numbers(protocol, [(sample, answer)]) == expected
    assert numbers(LISA, [(still(NOTHING), answer)])["P@0.9"] == 1.0


@pytest.mark.parametrize(("protocol", "area"), [(LISA, 8), (COPIES, 16)])
def test_a_failure_adds_its_whole_ground_truth_to_the_union(still, numbers, protocol, area):
    """I = 0 and U = area: 12 right pixels of 12, and a failed sample."""
    failed, right = still(block(0, 4), block(4, 8)), still(block(0, 6), number=1)
    found = numbers(protocol, [(failed, None), (right, said(block(0, 6)))])
    assert found["cIoU"] == pytest.approx(12 / (12 + area), abs=1e-10)
    assert found["gIoU"] == pytest.approx(0.5, abs=1e-5) and found["P@0.9"] == 0.5


def test_g_iou_is_a_mean_of_samples_and_c_iou_a_quotient_of_sums(still, numbers):
    pairs = [
        (still(block(0, 4), number=0), said(block(0, 2))),  # 4 / 8
        (still(block(0, 1), number=1), said(block(1, 2))),  # 0 / 4
        (still(block(0, 10), number=2), said(block(0, 10))),  # 20 / 20
    ]
    found = numbers(COPIES, pairs)
    assert found["gIoU"] == 0.5 and found["cIoU"] == 24 / 32
    assert (found["P@0.5"], found["P@0.6"]) == (2 / 3, 1 / 3)
    by_lisa = numbers(LISA, pairs)
    assert by_lisa["gIoU"] == pytest.approx(1.5 / (3 + 1e-5), abs=1e-6)
    assert by_lisa["gIoU"] < 0.5 and by_lisa["cIoU"] == pytest.approx(24 / 32, abs=1e-10)


MASKS = arrays(np.bool_, SIZE).map(Rle.from_array)


@given(MASKS, MASKS, MASKS, MASKS)
def test_lisa_never_looks_at_an_ignored_pixel(still, numbers, ground_truth, ignore, one, other):
    outside = ~ignore.to_array()
    ground_truth = Rle.from_array(ground_truth.to_array() & outside)
    mixed = np.where(outside, one.to_array(), other.to_array())
    sample = still(ground_truth, ignore)
    expected = numbers(LISA, [(sample, said(one))])
    assert numbers(LISA, [(sample, said(Rle.from_array(mixed)))]) == expected


@given(MASKS, MASKS)
def test_the_protocols_differ_by_an_epsilon_where_nothing_is_ignored(
    still, numbers, ground_truth, answer
):
    pair = (still(ground_truth), said(answer))
    by_lisa, by_copies = numbers(LISA, [pair]), numbers(COPIES, [pair])
    if ground_truth.area or answer.area:
        assert by_lisa["gIoU"] == pytest.approx(by_copies["gIoU"], abs=2.1e-5)
        assert by_lisa["cIoU"] == pytest.approx(by_copies["cIoU"], abs=1e-9)
    else:
        assert (round(by_lisa["gIoU"], 4), by_copies["gIoU"]) == (1.0, 0.0)


@given(MASKS, st.sampled_from([LISA, COPIES]))
def test_a_failure_is_never_better_than_an_empty_answer(still, numbers, ground_truth, protocol):
    failed = numbers(protocol, [(still(ground_truth), None)])
    empty = numbers(protocol, [(still(ground_truth), said(NOTHING))])
    assert failed["gIoU"] == 0.0 <= empty["gIoU"] and failed["cIoU"] == empty["cIoU"]


# MeViS

FRAMES = (40, 60)


def patch(left, right):
    return block(left, right, top=5, bottom=25, size=FRAMES)


VOID = Rle.empty(*FRAMES)
GROUND_TRUTH = (patch(0, 20), patch(0, 20), VOID, VOID)
ANSWER = (patch(0, 20), VOID, VOID, patch(0, 20))
"""Right, missed, rightly empty, invented: J and F are 1, 0, 1, 0."""


@pytest.fixture(scope="module")
def video(query):
    def made(ground_truth, number=0):
        form = AnswerForm.MASK_TRACK
        return Sample(
            id=f"v/{number}",
            query=query(number, form, size=FRAMES, frames=len(ground_truth)),
            target=Target(answer=Answer(masks=tuple(ground_truth))),
        )

    return made


RVOS = MEVIS["rvos/mevis"]


def test_j_and_f_are_means_over_all_frames(video, numbers):
    found = numbers(RVOS, [(video(GROUND_TRUTH), Answer(masks=ANSWER))])
    assert found == {"J": 0.5, "F": 0.5, "J&F": 0.5}


def test_j_counts_pixels_and_f_outlines(video, numbers):
    """The right half of a square, then the square moved by one pixel, within the tolerance."""
    half = numbers(RVOS, [(video([patch(0, 20)]), Answer(masks=(patch(10, 20),)))])
    assert half["J"] == 0.5 and 0 < half["F"] < 1
    assert half["J&F"] == (half["J"] + half["F"]) / 2
    moved = numbers(RVOS, [(video([patch(10, 30)]), Answer(masks=(patch(11, 31),)))])
    assert moved["J"] == pytest.approx(19 / 21) and moved["F"] == 1.0


def test_a_missing_answer_scores_nothing_even_where_the_ground_truth_is_empty(video, numbers):
    assert numbers(RVOS, [(video([VOID, VOID]), None)]) == {"J": 0.0, "F": 0.0, "J&F": 0.0}
    assert numbers(RVOS, [(video(GROUND_TRUTH), None)])["J&F"] == 0.0


@pytest.mark.parametrize("masks", [None, (VOID,) * 4])
def test_no_target_is_an_empty_mask_in_every_frame(video, numbers, masks):
    found = numbers(RVOS, [(video(GROUND_TRUTH), Answer(no_target=True, masks=masks))])
    assert found == {"J": 0.5, "F": 0.5, "J&F": 0.5}
    assert numbers(RVOS, [(video([VOID]), Answer(no_target=True))])["J&F"] == 1.0


def test_expressions_count_alike_however_long_their_videos_are(video, numbers):
    long = video([patch(0, 20)] * 9), Answer(masks=(patch(0, 20),) * 9)
    short = video([patch(0, 20)], number=1), Answer(masks=(patch(40, 60),))
    assert numbers(RVOS, [long, short, (video(GROUND_TRUTH, number=2), None)])[
        "J&F"
    ] == pytest.approx(1 / 3)


# Counting

COUNT = COUNTING["count/exact"]
BOX, POINT = Box(0, 0, 2, 2), Point(1, 1)


@pytest.fixture(scope="module")
def counted(query):
    def made(ground_truth, number=0):
        requested = query(number, AnswerForm.COUNT, size=SIZE)
        return Sample(
            id=f"c{number}", query=requested, target=Target(answer=Answer(count=ground_truth))
        )

    return made


@pytest.mark.parametrize(
    ("answer", "said_number"),
    [
        (Answer(count=3), 3),
        (Answer(boxes=(BOX,) * 4), 4),
        (Answer(points=(POINT,) * 5), 5),
        (Answer(boxes=(BOX,), points=(POINT,) * 5), 1),
        (Answer(count=7, boxes=(BOX,)), 7),
        (Answer(count=0, boxes=(BOX,)), 0),
        (Answer(boxes=()), 0),
        (Answer(no_target=True), 0),
        (Answer(no_target=True, count=0, boxes=()), 0),
        (None, 0),
    ],
)
def test_a_number_is_said_or_shown_by_boxes_or_points(counted, numbers, answer, said_number):
    found = numbers(COUNT, [(counted(10), answer)])
    assert found["MAE"] == 10 - said_number and found["accuracy"] == 0.0
    assert numbers(COUNT, [(counted(said_number), answer)])["accuracy"] == 1.0


def test_accuracy_mae_and_rmse_of_four_questions(counted, numbers):
    answers = [(2, Answer(count=2)), (3, Answer(count=5)), (5, Answer(boxes=(BOX,))), (7, None)]
    pairs = [
        (counted(ground_truth, place), answer)
        for place, (ground_truth, answer) in enumerate(answers)
    ]
    found = numbers(COUNT, pairs)
    assert (found["accuracy"], found["MAE"]) == (1 / 4, (0 + 2 + 4 + 7) / 4)
    assert found["RMSE"] == pytest.approx(math.sqrt((0 + 4 + 16 + 49) / 4), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=9))
def test_the_rmse_lies_between_the_mae_and_the_largest_error(counted, numbers, counts):
    pairs = [
        (counted(ground_truth, place), Answer(count=output))
        for place, (ground_truth, output) in enumerate(counts)
    ]
    found = numbers(COUNT, pairs)
    largest = max(abs(ground_truth - output) for ground_truth, output in counts)
    assert found["MAE"] - 1e-9 <= found["RMSE"] <= largest + 1e-9
    assert (found["accuracy"] == 1.0) == (largest == 0) == (found["MAE"] == 0)
