"""Laws that hold for any response, number, interval, box and list of detections, and bad input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError
from harness.metrics import choices, detection, numeric, spar, tempcompass, vsi, vstar
from harness.metrics.boxes3d import box_iou_3d
from harness.metrics.intervals import temporal_iou, temporal_iou_of_hull
from harness.metrics.points import values_at
from harness.metrics.tracks import track_ious, track_overlap, video_iou
from harness.models.visionreasoner.scoring import object_accuracy
from harness.scores import Mean, Metric, Ratio, Totals
from harness.types import Box, Box3D, Interval

finite = st.floats(-1e6, 1e6, allow_nan=False)
whole = st.integers(0, 60)
spans = st.tuples(whole, whole).map(lambda two: Interval(min(two), max(two)))
sided = st.tuples(whole, whole, whole, whole).map(
    lambda four: Box(four[0], four[1], four[0] + four[2], four[1] + four[3])
)
tracks = st.lists(st.tuples(st.none() | sided, st.none() | sided), min_size=1, max_size=6)
cubes = st.tuples(*[st.integers(-9, 9)] * 3, *[st.integers(0, 9)] * 3).map(lambda six: Box3D(*six))
objects = st.lists(st.tuples(sided, st.tuples(whole, whole)), min_size=1, max_size=5)
READERS = (
    choices.video_mme_choice,
    choices.longvideobench_choice,
    choices.sti_bench_choice,
    choices.strict_choice,
    numeric.first_number,
    numeric.only_number,
    vsi.leading_number,
    vstar.read_rating,
    vstar.interval_in,
)


@given(st.text(max_size=80))
def test_no_text_makes_a_reader_fail(response):
    for reader in READERS:
        reader(response)
    tempcompass.multiple_choice(response, "A. x")
    tempcompass.yes_no(response, "yes")
    tempcompass.caption_match(response, "?\nCaption A: x\nCaption B: y", "Caption A: x")
    tempcompass.captioning(response, "A. x")
    for task in spar.LEVELS["Low"]:
        assert 0 <= spar.number_score(response, 1.5, task=task) <= 1
    assert 0 <= spar.view_change_score(response, "move_up:1") <= 1
    assert 0 <= spar.strict_view_change_score(response, "move_up:1") <= 1


@pytest.mark.parametrize(
    "response",
    [
        "9" * 5000,
        "[" * 5000,
        "(" * 5000,
        "{" * 300,
        "A" * 300_000,
        "1e999",
        "[1e999, 2]",
        "[" + "9" * 5000 + ", 1]",
        "\x00",
        "\ud800",
    ],
)
def test_a_hostile_response_is_read_as_something_or_nothing(response):
    for reader in READERS:
        reader(response)


@pytest.mark.parametrize("letter", "ABCD")
def test_strict_and_official_readers_agree_on_a_bare_letter(letter):
    for form in ("{}", "{}.", "({})", "{}) it"):
        response = form.format(letter)
        assert choices.strict_choice(response) == choices.video_mme_choice(response) == letter


@given(st.text(max_size=60))
def test_a_strict_choice_is_a_letter_of_the_response(response):
    found = choices.strict_choice(response)
    assert found is None or found in response.upper()


@given(st.text(max_size=20))
def test_a_seeded_choice_is_an_option_and_does_not_change(name):
    assert choices.seeded_choice(name, "ABCDE") == choices.seeded_choice(name, "ABCDE")
    assert choices.seeded_choice(name, "AB") in "AB"
    assert choices.seeded_choice(name, "C") == "C"


def test_seeded_choices_spread_evenly_over_the_options():
    drawn = [choices.seeded_choice(str(number), "ABCDE") for number in range(5000)]
    assert all(abs(drawn.count(letter) - 1000) < 120 for letter in "ABCDE")


@given(finite, finite, st.sampled_from([2.0, 0.5, 8.0]))
def test_relative_scores_do_not_depend_on_the_unit(said, true, factor):
    scaled = (said * factor, true * factor)
    exact = (scaled[0] / factor, scaled[1] / factor) == (said, true)
    if true and exact:  # half of the smallest number that there is is 0
        for score in (numeric.mean_relative_accuracy, numeric.relative_accuracy):
            assert score(said, true) == pytest.approx(score(*scaled))


@given(finite, finite, finite)
def test_relative_scores_do_not_grow_with_the_error(true, first, second):
    near, far = sorted((abs(first), abs(second)))
    for score in (numeric.mean_relative_accuracy, numeric.relative_accuracy):
        assert 0 <= score(true + far, true) <= score(true + near, true) + 1e-12
        assert score(true, true) == 1


@given(finite)
def test_what_is_no_number_scores_nothing(true):
    for output in (None, math.nan, math.inf, -math.inf):
        assert numeric.mean_relative_accuracy(output, true) == 0
        assert numeric.relative_accuracy(output, true) == 0


@given(st.integers(0, 999_999))
def test_a_number_in_words_is_read_as_in_digits(number):
    assert numeric.first_number(words_of(number)) == number == numeric.first_number(str(number))


def words_of(number):
    units = list(numeric.NUMBER_WORDS)[:20]
    if number >= 1000:
        rest = f" {words_of(number % 1000)}" if number % 1000 else ""
        return f"{words_of(number // 1000)} thousand{rest}"
    if number >= 100:
        rest = f" and {words_of(number % 100)}" if number % 100 else ""
        return f"{units[number // 100]} hundred{rest}"
    if number >= 20:
        tens = next(w for w, v in numeric.NUMBER_WORDS.items() if v == number // 10 * 10)
        return f"{tens}-{units[number % 10]}" if number % 10 else tens
    return units[number]


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_response_that_is_a_number_is_that_number(number):
    assert numeric.only_number(f"about {number!r} m") == number
    assert vsi.leading_number(f"{number!r} m") == number


@given(spans, spans)
def test_temporal_iou_is_symmetric_and_both_forms_agree_on_intervals_in_order(first, second):
    assert temporal_iou(first, second) == temporal_iou(second, first)
    assert 0 <= temporal_iou(first, second) <= 1
    assert temporal_iou(first, second) == pytest.approx(temporal_iou_of_hull(first, second))


@given(spans, spans, st.integers(-50, 50))
def test_temporal_iou_does_not_depend_on_when_the_clock_starts(first, second, shift):
    later = [Interval(one.start + shift, one.end + shift) for one in (first, second)]
    assert temporal_iou(*later) == temporal_iou(first, second)


@given(tracks)
def test_track_scores_are_symmetric_bounded_and_perfect_for_themselves(pairs):
    ground_truth, output = zip(*pairs, strict=True)
    assert track_ious(ground_truth, output).tolist() == track_ious(output, ground_truth).tolist()
    assert 0 <= video_iou(ground_truth, output) <= 1
    assert video_iou(ground_truth, output) <= track_ious(ground_truth, output).mean() + 1e-12
    shared, union = track_overlap(ground_truth, output)
    assert 0 <= shared <= union
    same = track_overlap(ground_truth, ground_truth)
    assert same.intersection == same.union
    if all(box is None or (box.left < box.right and box.top < box.bottom) for box in ground_truth):
        assert video_iou(ground_truth, ground_truth) == 1


@given(tracks, st.randoms())
def test_track_scores_do_not_depend_on_the_order_of_frames(pairs, random):
    mixed = random.sample(pairs, len(pairs))
    assert video_iou(*zip(*pairs, strict=True)) == pytest.approx(
        video_iou(*zip(*mixed, strict=True))
    )
    assert track_overlap(*zip(*pairs, strict=True)) == pytest.approx(
        track_overlap(*zip(*mixed, strict=True))
    )


@given(cubes, cubes)
def test_iou_in_space_is_symmetric_and_counts_unit_cubes(first, second):
    iou = box_iou_3d([first], [second])[0, 0]
    assert iou == box_iou_3d([second], [first])[0, 0]
    cells = [
        {
            (x, y, z)
            for x in range(int(2 * b.x - b.width), int(2 * b.x + b.width))
            for y in range(int(2 * b.y - b.height), int(2 * b.y + b.height))
            for z in range(int(2 * b.z - b.length), int(2 * b.z + b.length))
        }
        for b in (first, second)
    ]
    union = len(cells[0] | cells[1])
    assert iou == pytest.approx(len(cells[0] & cells[1]) / union if union else 0)


@given(cubes, st.permutations([0, 1, 2]))
def test_iou_in_space_does_not_depend_on_the_names_of_the_axes(cube, order):
    other = Box3D(1, 0, -1, 5, 6, 7)
    turned = [[*(b[i] for i in order), *(b[3 + i] for i in order)] for b in (cube, other)]
    assert box_iou_3d([cube], [other]) == pytest.approx(box_iou_3d(turned[:1], turned[1:]))


@given(objects, objects, st.randoms())
def test_the_joint_matching_is_bounded_and_does_not_depend_on_any_order(first, second, random):
    true, found = arrays(first), arrays(second)
    score = object_accuracy(found, true)
    assert all(0 <= part <= 1 for part in score)
    assert object_accuracy(arrays(random.sample(second, len(second))), true).total == pytest.approx(
        score.total
    )
    pairs, limit = min(len(first), len(second)), max(len(first), len(second))
    assert all(part <= pairs / limit for part in score), "one predicted object a true one"


@given(objects)
def test_a_copy_earns_every_bit_that_its_own_points_allow(rows):
    boxes, points = arrays(rows)
    inside = ((points >= boxes[:, :2]) & (points <= boxes[:, 2:])).all(axis=1)
    assert object_accuracy((boxes, points), (boxes, points)).total >= 2 + inside.mean() - 1e-12


def arrays(rows):
    return tuple(np.array(each) for each in zip(*rows, strict=True))


BOX, NAN = Box(0, 0, 4, 4), float("nan")
BAD = {
    "number that is none": lambda: numeric.mean_relative_accuracy(1, NAN),
    "relative to none": lambda: numeric.relative_accuracy(1, math.inf),
    "no options": lambda: choices.seeded_choice("x", ""),
    "no true option": lambda: tempcompass.multiple_choice("A", ""),
    "captions": lambda: tempcompass.caption_match("A", "?\nno colon", "Caption A: x"),
    "caption of one word": lambda: tempcompass.caption_match("A", "?\nA: x", "A: x"),
    "task without numbers": lambda: spar.number_score("1", 1, task="position_matching"),
    "view change": lambda: spar.strict_view_change_score("", "north"),
    "interval": lambda: temporal_iou(Interval(0, NAN), Interval(0, 1)),
    "reversed interval": lambda: temporal_iou(Interval(4, 1), Interval(0, 1)),
    "predicted interval": lambda: temporal_iou_of_hull(Interval(0, 1), Interval(0, math.inf)),
    "lengths of tracks": lambda: track_ious([BOX], [BOX, BOX]),
    "no frame": lambda: track_overlap([], []),
    "box of a track": lambda: video_iou([BOX], [Box(0, 0, NAN, 4)]),
    "boxes in space": lambda: box_iou_3d([[0, 0, 0, 1, 1]], []),
    "box in space": lambda: box_iou_3d([[0, 0, 0, 1, 1, NAN]], [[0] * 6]),
    "points": lambda: values_at([[0, 1, 2]], np.zeros((2, 2))),
    "text for points": lambda: values_at([("a", 0)], np.zeros((2, 2))),
    "chains": lambda: vstar.scores(3, [0.5], [np.zeros(1)]),
    "scores of boxes": lambda: detection.detection_item(
        1, 1, ground_truth=[], predicted=[BOX], scores=[]
    ),
    "score": lambda: detection.detection_item(1, 1, ground_truth=[], predicted=[BOX], scores=[NAN]),
    "twice": lambda: detection.coco_statistics(
        [detection.detection_item(1, 1, ground_truth=[], predicted=[], scores=[])] * 2
    ),
    "nothing": lambda: detection.coco_statistics([]),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_bad_input_is_an_error_that_says_what_was_expected(call):
    with pytest.raises(DataError, match="expected"):
        call()


def test_an_average_over_types_is_nothing_unless_every_type_has_a_sample():
    totals = Totals(vsi.METRICS)
    for kind in (*vsi.CHOICE_TYPES, *vsi.NUMBER_TYPES)[:-1]:
        totals.add({kind: Mean(1.0)})
    assert totals.values()["object_rel_direction"] == 1
    assert totals.values()["overall"] is None
    totals.add({vsi.NUMBER_TYPES[-1]: Mean(0.2)})
    assert totals.values()["overall"] == pytest.approx((7 + 0.2) / 8)


def test_derived_metrics_take_arrays_of_resamples():
    found = {m.name: m for m in (*vsi.METRICS, *spar.METRICS, *vstar.METRICS) if m.derived}
    rng = np.random.default_rng(0)
    for metric in found.values():
        parts = rng.random((len(metric.inputs), 5))
        together = metric.derived(*parts)
        alone = [metric.derived(*parts[:, place]) for place in range(5)]
        assert together == pytest.approx(alone)


def test_video_mme_leaves_unreadable_responses_out_officially_and_counts_them_strictly():
    metrics = (Metric("official"), Metric("strict"))
    totals = Totals(metrics)
    for response, answer in (("B", "B"), ("none", "C"), ("Because", "B"), ("A. x", "D")):
        letter = choices.video_mme_choice(response)
        strict = choices.strict_choice(response)
        totals.add(
            {
                "official": Ratio(letter == answer, letter is not None),
                "strict": Mean(strict == answer),
            }
        )
    assert totals.values() == {"official": 2 / 3, "strict": 1 / 4}


def test_a_sample_without_what_counts_officially_in_accuracy_alone():
    right = vstar.scores(3, [1.0, 1.0], [np.ones(2), np.ones(2)])
    official, strict = Totals(vstar.METRICS), Totals(vstar.METRICS)
    for totals, missing in (
        (official, vstar.unanswered_scores()),
        (strict, vstar.scores(None, [0, 0], [np.zeros(1)] * 2)),
    ):
        totals.add(right)
        totals.add(missing)
    assert official.values()["Acc"] == strict.values()["Acc"] == 0.5
    assert official.values()["m_tIoU1"] == 1
    assert strict.values()["m_tIoU1"] == 0.5
