"""What is asked of a clip: filters with their numbers, each type's answer, what is not asked."""

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stv_builder import spatial, temporal
from stv_builder.answers import LEAD, Answers
from stv_builder.build import PER_CLIP, TOO_OFTEN, BuildSettings, questions
from stv_builder.clips import Clip, ObjectView
from stv_builder.drafts import KINDS, Choice, Draft, Number
from stv_builder.filters import (
    KEPT,
    SEVERAL,
    UNSURE,
    FilterCounts,
    Limits,
    clear_at,
    with_clear_marks,
)
from stv_builder.geometry import Place
from stv_builder.graphs import graphs_of
from stv_builder.letters import Letters
from stv_builder.sampling import shares, uniform
from stv_builder.statistics import Statistics, page
from stv_builder.wording import FIELD, exchange_synonyms, question_text, templates

from harness.errors import UsageError
from harness.types import Box, Box3D
from harness.world.draws import Draws

WIDE = Box(0, 0, 40, 40)


def sight(track, category, box=WIDE, *, at=None, **more):
    """An object; `at` is its centre, and where it stands seen from above."""
    if at is not None:
        spot = Place(*map(float, at))
        more = {"centre": spot, "ground": Place(spot.x, spot.z, 0.0), **more}
    return ObjectView(
        track=track, category=category, box=box, visible=more.pop("visible", 1.0), **more
    )


def clip(*frames, source="kitti", **more):
    return Clip(
        id="c",
        source=source,
        images=tuple(f"{k}.png" for k in range(len(frames))),
        rate=2.0,
        size=(200, 100),
        sights=tuple(map(tuple, frames)),
        **more,
    )


def kept(one):
    return with_clear_marks(one, Limits(), FilterCounts())


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (sight("1", "car", visible=0.15), KEPT),
        (sight("1", "car", visible=0.149), "less than 15% visible"),
        (sight("1", "car", Box(0, 0, 20, 20)), KEPT),
        (sight("1", "car", Box(0, 0, 20, 19.9)), "smaller than 400 px"),
        (sight("1", "car", Box(-20, 0, 20, 19)), "smaller than 400 px"),
        (sight("1", "car", at=(0, 0, 0.5)), KEPT),
        (sight("1", "car", at=(0, 0.3, 0.3)), "nearer than 0.5 m"),
        (sight("1", "car", at=(0, 0, 60)), KEPT),
        (sight("1", "car", at=(36, 0, 48.1)), "farther than 60 m"),
        (sight("1", ""), "ambiguous category"),
    ],
)
def test_an_object_is_kept_or_dropped_for_a_reason_that_is_counted(one, reason):
    tally = FilterCounts()
    (frame,) = with_clear_marks(clip([one]), Limits(), tally).sights
    assert frame[0].clear == (reason == KEPT)
    assert tally.to_json() == {"kitti": {reason: 1}}


def test_a_name_inside_another_is_ambiguous():
    tally = FilterCounts()
    shown = with_clear_marks(
        clip([sight("1", "chair"), sight("2", "office chair"), sight("3", "armchair")]),
        Limits(),
        tally,
    )
    assert [one.clear for one in shown.sights[0]] == [False, True, True]
    assert tally.to_json() == {"kitti": {"ambiguous category": 1, KEPT: 2}}


@pytest.mark.parametrize(
    "wrong", [{"visible": 1.1}, {"pixels": -1}, {"nearest": 5.0, "farthest": 5.0}]
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError, match="limits"):
        Limits(**wrong)


def test_a_category_is_counted_if_all_of_it_is_clear():
    shown = clip(
        [
            sight("1", "car"),
            sight("2", "car"),
            sight("3", "van"),
            sight("4", "van", visible=0.1),
            sight("5", "tram"),
        ],
        uncounted=(frozenset({"tram"}),),
    )
    (requested,) = spatial.counting(kept(shown), FilterCounts())
    assert requested.fields == {"object": "car"} and requested.answer.text() == "2"
    assert requested.wording == "image"


def test_a_video_counts_objects_and_not_their_frames():
    video = clip(
        [sight("1", "car")],
        [sight("1", "car"), sight("2", "car")],
        [sight("2", "car", visible=0.1)],
    )
    (requested,) = spatial.counting(kept(video), FilterCounts())
    assert (requested.wording, requested.answer.text()) == ("video", "2")


def test_an_object_has_a_name_only_where_it_is_the_only_one():
    """Also one that is too small to be asked about makes "the car" ambiguous."""
    video = kept(
        clip(
            [sight("1", "car"), sight("2", "van")],
            [sight("3", "car", visible=0.1), sight("2", "van")],
        )
    )
    assert list(clear_at(video, 0)) == ["van"]
    assert list(clear_at(kept(video.image(0)), 0)) == ["car", "van"]


def test_one_of_several_is_clear_and_is_not_tallied_as_kept():
    video = clip(
        [sight("1", "car"), sight("2", "van")], [sight("3", "car", visible=0.1), sight("2", "van")]
    )
    tally = FilterCounts()
    shown = with_clear_marks(video, Limits(), tally)
    assert [one.clear for frame in shown.sights for one in frame] == [True, True, False, True]
    assert tally.to_json() == {"kitti": {KEPT: 2, SEVERAL: 1, "less than 15% visible": 1}}


ANYTHING = frozenset({"car", "van", "tram"})


def passing(category, track, x, **more):
    """An object with all that can be asked of it; it drives to the right."""
    spot = Place(x / 20, 0.0, 9.0)
    return sight(
        track,
        category,
        Box(x, 0, x + 40, 40),
        at=spot,
        world=spot,
        sides=(4.0, 2.0, 1.5),
        extent=Box3D(x / 20, 0, 9, 4, 1, 2),
        **more,
    )


def passing_by(*unannotated, **more):
    """A car and a van in three frames, which meet; what each frame may show beside them."""
    frames = [[passing("car", "1", 20 * k), passing("van", "2", 100 - 20 * k)] for k in range(3)]
    return clip(*frames, uncounted=unannotated, unnamed=unannotated, **more)


NONE = frozenset()


def test_what_may_be_there_unannotated_is_not_named_in_its_frame_alone():
    video = kept(passing_by(NONE, ANYTHING - {"van"}, NONE))
    assert [list(clear_at(video, k)) for k in range(3)] == [["car", "van"], ["van"], ["car", "van"]]
    times = [
        (one.fields["object"], one.fields["timestamp_1"], one.fields["timestamp_2"])
        for one in temporal.displacement(video, FilterCounts())
    ]
    assert times == [
        ("car", "0.0 s", "1.0 s"),
        ("van", "0.0 s", "0.5 s"),
        ("van", "0.0 s", "1.0 s"),
        ("van", "0.5 s", "1.0 s"),
    ]
    places = [
        (one.fields["object"], one.frame) for one in spatial.localization(video, FilterCounts())
    ]
    assert ("car", 1) not in places and len(places) == 5
    apart = [one.frame for one in spatial.separation(video, FilterCounts())]
    assert apart == [0, 2]
    still = replace(video, still=True)
    assert [list(clear_at(still, k)) for k in range(3)] == [["van"]] * 3, "it may be asked timeless"


def test_what_may_be_there_unannotated_is_not_counted():
    video = kept(passing_by(NONE, ANYTHING, NONE))
    tally = FilterCounts()
    assert not list(spatial.counting(video, tally))
    assert not list(spatial.size(video, tally)), "which car is not said by a time"
    assert tally.to_json() == {"kitti": {spatial.PARTLY_LISTED: 2, spatial.PARTLY_NAMED: 4}}
    for frame, number in enumerate((2, 0, 2)):
        image = video.image(frame)
        assert len(list(spatial.counting(image, FilterCounts()))) == number
        assert len(list(spatial.size(image, FilterCounts()))) == number
        assert len(list(spatial.localization(image, FilterCounts()))) == number


def test_what_is_too_far_to_be_annotated_is_not_counted_and_leaves_names_alone():
    video = kept(replace(passing_by(), uncounted=(NONE, ANYTHING, NONE)))
    plain, tally = kept(passing_by()), FilterCounts()
    assert not list(spatial.counting(video, tally))
    assert tally.to_json() == {"kitti": {spatial.PARTLY_LISTED: 2}}
    for requested in (
        spatial.size,
        spatial.localization,
        spatial.separation,
        temporal.displacement,
    ):
        assert (
            list(requested(video, FilterCounts())) == list(requested(plain, FilterCounts())) != []
        )
    assert not list(spatial.counting(video.image(1), FilterCounts()))
    assert len(list(spatial.localization(video.image(1), FilterCounts()))) == 2


def test_an_object_that_is_not_named_for_that_reason_is_tallied_once():
    several = passing_by(NONE, ANYTHING, NONE)
    several = replace(
        several, sights=(*several.sights[:2], (*several.sights[2], sight("3", "van")))
    )
    tally = FilterCounts()
    shown = with_clear_marks(several, Limits(), tally)
    assert all(one.clear for frame in shown.sights for one in frame)
    assert tally.to_json() == {"kitti": {KEPT: 2, UNSURE: 1, SEVERAL: 4}}


def test_images_are_of_frames_of_which_something_can_be_asked():
    video = passing_by(ANYTHING, NONE, ANYTHING)
    requested = questions([video], BuildSettings(images=2), FilterCounts())
    shown = [one.question for one in requested if one.question["data_type"] == "image"]
    assert {tuple(one["frames"]) for one in shown} == {("1.png",)}
    assert {"object_counting", "object_localization"} <= {one["task"] for one in shown}


@pytest.mark.parametrize(("doubt", "asked"), [(None, 1), (3, 1), (2, 1), (1, 0), (0, 0)])
def test_an_order_ends_where_something_may_have_been_there_before(doubt, asked):
    """Car, van and tram come in frames 0, 1 and 2; an unannotated tram may come before."""
    frames = [[sight("1", "car")], [sight("2", "van")], [sight("3", "tram")], []]
    unnamed = tuple(ANYTHING if frame == doubt else NONE for frame in range(4))
    found = list(temporal.order(kept(clip(*frames, unnamed=unnamed)), FilterCounts()))
    assert len(found) == asked


def test_directions_in_an_image_need_a_margin():
    left, right = Box(0, 0, 40, 40), Box(100, 50, 140, 90)
    shown = kept(clip([sight("1", "cat", left), sight("2", "dog", right)], source="tao"))
    answers = {
        (one.fields["object_1"], one.answer.right)
        for one in spatial.direction(shown, FilterCounts())
    }
    assert answers == {("cat", "left-up"), ("dog", "right-down")}
    level = Box(100, 4, 140, 44)  # 4 of 100 pixels lower: neither above nor below
    beside = clip([sight("1", "cat", left), sight("2", "dog", level)], source="tao")
    assert not list(spatial.direction(kept(beside), FilterCounts()))


def test_directions_of_one_who_stands_beside_something():
    """At the car and facing the van, which is ahead, the tram to the right is on the right."""
    shown = kept(
        clip(
            [
                sight("1", "car", at=(0, 0, 5)),
                sight("2", "van", at=(0, 0, 15)),
                sight("3", "tram", at=(8, 0, 5)),
            ]
        )
    )
    requested = {
        tuple(one.fields.values()): one.answer for one in spatial.direction(shown, FilterCounts())
    }
    assert requested["car", "van", "tram"] == Choice("right", ("left", "back"))
    assert requested["car", "tram", "van"].right == "left"
    # From the van the car lies straight back, the tram at 38.7 degrees to its left.
    assert requested["van", "car", "tram"].right == "left"
    assert requested["van", "tram", "car"].right == "right"
    video = replace(shown, images=("0.png", "1.png"), sights=shown.sights * 2)
    assert not list(spatial.direction(video, FilterCounts())), (
        "who moves cannot be asked without a time"
    )
    assert list(spatial.direction(replace(video, still=True), FilterCounts()))


def test_distances_are_between_centres_in_metres():
    shown = kept(
        clip(
            [
                sight("1", "car", at=(0, 0, 5)),
                sight("2", "van", at=(3, 4, 5)),
                sight("3", "tram", at=(0, 0.05, 5)),
            ]
        )
    )
    requested = {
        tuple(one.fields.values()): one.answer.text()
        for one in spatial.separation(shown, FilterCounts())
    }
    assert requested == {("car", "van"): "5.00", ("tram", "van"): "4.96"}
    assert not list(
        spatial.separation(kept(clip([sight("1", "cat"), sight("2", "dog")])), FilterCounts())
    )


def test_sizes_are_the_longest_side_and_the_room():
    shown = clip(
        [sight("1", "bed", at=(0, 0, 2), sides=(1.4, 2.004, 0.5))],
        [],
        room=23.46,
        source="scannet",
        still=True,
    )
    bed, room = spatial.size(kept(shown), FilterCounts())
    assert (bed.answer.text(), bed.wording) == ("2.00", "video")
    assert (room.answer.text(), room.wording) == ("23.5", "room")
    (only,) = spatial.size(kept(shown.image(0)), FilterCounts())
    assert only.wording == "image"


def test_a_place_is_a_box_in_space_where_depth_is_known():
    space = Box3D(0.004, -1, 5, 1, 2, 3)
    (requested,) = spatial.localization(
        kept(clip([sight("1", "car", at=(0, -1, 5), extent=space)])), FilterCounts()
    )
    assert requested.answer == Box3D(0.0, -1, 5, 1, 2, 3) and requested.wording == "space_image"
    (requested,) = spatial.localization(
        kept(clip([sight("1", "cat", Box(-3.2, 1.4, 50.6, 99.9))], source="tao")), FilterCounts()
    )
    assert requested.answer == Box(0, 1, 51, 100) and requested.fields["resolution"] == "200x100"


def test_order_is_asked_where_nobody_can_doubt_it():
    small = Box(0, 0, 5, 5)
    video = clip(
        [sight("1", "car")],
        [sight("1", "car"), sight("2", "van", small), sight("3", "tram", small)],
        [sight("2", "van")],
        [sight("3", "tram"), sight("4", "truck")],
    )
    first = temporal.first_seen(kept(video))
    assert first == {"car": (0, 0), "van": (1, 2), "tram": (1, 3), "truck": (3, 3)}
    (requested,) = temporal.order(kept(video), FilterCounts())
    # The tram is there with the van, small as it is; the truck comes when the van is clear.
    assert requested.answer.right == "car, van, truck" and requested.answer.offered == 3
    assert requested.fields == {"object_list": "car, truck, van"}
    assert set(requested.answer.wrong) == {
        "car, truck, van",
        "van, car, truck",
        "van, truck, car",
        "truck, car, van",
        "truck, van, car",
    }


def test_tracking_gives_one_box_and_asks_for_another():
    video = clip(
        [sight("1", "car", Box(0, 0, 40, 40), at=(0, 0, 9), extent=Box3D(0, 0, 9, 4, 1, 2))],
        [sight("1", "car", Box(20, 0, 60.4, 40), at=(1, 0, 9), extent=Box3D(1, 0, 9, 4, 1, 2))],
    )
    plane, space = temporal.tracking(kept(video), FilterCounts())
    assert plane.answer == Box(20, 0, 60, 40) and plane.fields["box"] == "[0, 0, 40, 40]"
    assert (plane.fields["timestamp_1"], plane.fields["timestamp_2"]) == ("0.0 s", "0.5 s")
    assert space.answer == Box3D(1, 0, 9, 4, 1, 2)
    assert space.fields["box"] == "[0.0, 0.0, 9.0, 4.0, 1.0, 2.0]"
    resting = clip(*[[sight("1", "car", Box(0, 0, 40, 40))]] * 2)
    assert not list(temporal.tracking(kept(resting), FilterCounts()))


def test_displacement_is_measured_in_the_world():
    def seen(x):
        return [sight("1", "car", at=(0, 0, 9), world=Place(x, 0.0, 0.0))]

    (requested,) = temporal.displacement(kept(clip(seen(0.0), seen(3.0))), FilterCounts())
    assert requested.answer.text() == "3.00"
    assert not list(temporal.displacement(kept(clip(seen(0.0), seen(0.4))), FilterCounts()))
    assert not list(
        temporal.displacement(kept(clip(seen(0.0), seen(3.0), still=True)), FilterCounts())
    )
    lost = clip(*[[sight("1", "car", at=(0, 0, 9))]] * 2)
    assert not list(temporal.displacement(kept(lost), FilterCounts())), (
        "nobody knows where the camera was"
    )


def places(*spots):
    return [sight(str(k), name, at=spot) for k, (name, spot) in enumerate(spots)]


def boxes(*found, **more):
    return [[sight("1", "car", box, **more)] for box in found]


SOLID = Box3D(0, 0, 9, 4, 1, 2)
SHIFTED, LOWER = Box(20, 0, 60, 40), Box(0, 0, 40, 36)
SMALL = Box(0, 0, 5, 5)
ABREAST = places(("car", (0, 0, 5)), ("van", (0, 0, 15)), ("tram", (0.3, 0, 15)))
CORNER = (("car", (0, 0, 5)), ("van", (3, 4, 5)), ("tram", (0, 0.05, 5)))
ROW = [(name, (0, 0, 5 + k)) for k, name in enumerate("abcdefg")]
DROPS = {
    "counting": (
        spatial.counting,
        clip(
            [
                sight("1", "car"),
                sight("2", "van"),
                sight("3", "van", visible=0.1),
                sight("4", "tram"),
            ],
            uncounted=(frozenset({"tram"}),),
        ),
        1,
        {spatial.PARTLY_CLEAR: 1, spatial.PARTLY_LISTED: 1},
    ),
    "directions in an image": (  # cat and cow are level, dog and cow one above the other
        spatial.direction,
        clip(
            [
                sight("1", "cat", Box(0, 0, 40, 40)),
                sight("2", "dog", Box(100, 50, 140, 90)),
                sight("3", "cow", Box(104, 4, 144, 44)),
            ],
            source="tao",
        ),
        2,
        {spatial.LEVEL: 4},
    ),
    "directions of one who stands": (  # from the car both are ahead; van and tram are too close
        spatial.direction,
        clip(ABREAST),
        0,
        {spatial.BORDER: 2, spatial.TOGETHER: 4},
    ),
    "distances": (spatial.separation, clip(places(*CORNER)), 2, {spatial.TOUCHING: 1}),
    "more categories than are looked at": (  # all pairs of six
        spatial.separation,
        clip(places(*ROW)),
        15,
        {"relative_distance: categories beyond the 6 that are looked at": 1},
    ),
    "sizes": (
        spatial.size,
        clip([sight("1", "bed", sides=(0.0, 0.0, 0.0))], [], room=0.9),
        0,
        {spatial.FLAT: 1, spatial.CLOSET: 1},
    ),
    "orders in doubt": (  # of four triples and all four, only car, van, truck is beyond doubt
        temporal.order,
        clip(
            [sight("1", "car")],
            [sight("1", "car"), sight("2", "van", SMALL), sight("3", "tram", SMALL)],
            [sight("2", "van")],
            [sight("3", "tram"), sight("4", "truck")],
        ),
        1,
        {temporal.DOUBTFUL: 4},
    ),
    "orders beyond the first": (  # 20 triples and 15 fours of six
        temporal.order,
        clip(*[[sight(name, name)] for name in "abcdef"]),
        12,
        {temporal.SURPLUS: 23},
    ),
    "tracking in space": (  # of three pairs of times the first shows no motion: two questions
        temporal.tracking,
        clip(*boxes(WIDE, WIDE, SHIFTED, extent=SOLID)),
        4,
        {temporal.RESTING: 2},
    ),
    "tracking at the limit": (
        temporal.tracking,
        clip(*boxes(WIDE, LOWER)),
        0,
        {temporal.RESTING: 1},
    ),
    "displacement": (
        temporal.displacement,
        clip(*[boxes(WIDE, world=Place(x, 0.0, 0.0))[0] for x in (0.0, 0.4, 3.0)]),
        2,
        {temporal.STAYING: 1},
    ),
}


@pytest.mark.parametrize("name", DROPS)
def test_what_a_number_rules_out_is_counted(name):
    asks, shown, requested, reasons = DROPS[name]
    tally = FilterCounts()
    assert len(list(asks(kept(shown), tally))) == requested
    assert tally.to_json() == {shown.source: reasons}
    assert {reason.partition(":")[0] for reason in reasons} < set(KINDS)


def test_all_that_is_dropped_of_a_clip_stands_on_the_page():
    """Three that rest, in a video of two frames and in an image of one of them.

    Beyond three of a type: 3 of the video's 6 distances, 3 of the image's 6 directions. The
    image is not asked for an order, nor where anything went.
    """
    spots = {"car": (0, 0, 5), "van": (0, 0, 15), "tram": (8, 0, 5)}
    resting = [sight(name, name, at=at, world=Place(0.0, 0.0, 0.0)) for name, at in spots.items()]
    tally = FilterCounts()
    requested = list(questions([clip(resting, resting)], BuildSettings(images=1), tally))
    assert len(requested) == 15  # three each: objects and distances twice, directions of the image
    assert tally.to_json() == {
        "kitti": {
            KEPT: 6,
            PER_CLIP: 6,
            temporal.DOUBTFUL: 1,
            temporal.RESTING: 3,
            temporal.STAYING: 3,
        }
    }
    statistics = Statistics()
    shown = page({"seed": 0, "questions": statistics.to_json(), "filters": tally.to_json()})
    for reason, number in tally.to_json()["kitti"].items():
        assert f"| kitti | {reason} | {number} |" in shown


def test_a_graph_has_the_nearest_of_each_category_and_how_many_there_are():
    shown = kept(
        clip(
            [
                sight("1", "car", at=(0, 0, 9)),
                sight("2", "car", at=(1, -0.5, 7)),
                sight("3", "van", at=(0, 0, 3)),
                sight("4", "tram", at=(0, 0, 70)),
            ],
            [sight("3", "van", at=(0, 0, 3)), sight("5", "cat")],
        )
    )
    assert graphs_of(shown) == [
        {
            "frame": 0,
            "nodes": [
                {"category": "car", "centre": [1.0, -0.5, 7.0], "count": 2},
                {"category": "van", "centre": [0.0, 0.0, 3.0], "count": 1},
            ],
        }
    ]


@settings(max_examples=30)
@given(st.integers(0, 40), st.integers(2, 5), st.integers(0, 5))
def test_every_letter_is_right_equally_often(number, options, seed):
    letters = Letters(seed)
    dealt = [letters.place("relative_direction", options) for _ in range(number)]
    counts = [dealt.count(place) for place in range(options)]
    assert max(counts) - min(counts) <= 1


def test_the_right_option_has_its_letter_and_the_others_are_all_there():
    letters, draws = Letters(0), Draws(0, "test")
    for _ in range(12):
        options, letter = letters.options("x", Choice("b", ("a", "c")), draws)
        assert options["ABC".index(letter)] == f"{letter}. b"
        assert sorted(option[3:] for option in options) == ["a", "b", "c"]
        assert [option[:3] for option in options] == ["A. ", "B. ", "C. "]


def test_wrong_options_are_drawn_and_each_as_often_as_another():
    letters, draws = Letters(0), Draws(0, "test")
    seen = Counter()
    for _ in range(400):
        options, letter = letters.options("x", Choice("r", tuple("abcde"), 3), draws)
        texts = [option[3:] for option in options]
        assert len(set(texts)) == 4 and texts["ABCD".index(letter)] == "r"
        seen.update(texts)
    assert all(200 < seen[name] < 280 for name in "abcde"), "240 expected, deviation 10"


def told(*rights):
    return [
        Draft(
            "relative_direction",
            "standing",
            Choice(one, tuple(SIDES - {one})),
            {"object_1": str(k)},
        )
        for k, one in enumerate(rights)
    ]


SIDES = frozenset(spatial.SIDES)


def test_of_the_same_options_the_one_that_was_right_least_often_comes_first():
    answers, image = Answers(), clip([])
    first, refused = answers.choose(image, told("left", "left", "right", "back"), 3)
    assert ([one.answer.right for one in first], refused) == (["left", "right", "back"], 0)
    (draft,), refused = answers.choose(image, told("left", "left"), 1)
    assert (draft.fields["object_1"], refused) == ("0", 0), "of equals the first"


def test_no_option_is_right_more_than_so_often_more_than_another():
    answers, image = Answers(), clip([])
    chosen, refused = answers.choose(image, told(*["left"] * 7), 100)
    assert (len(chosen), refused) == (LEAD, 7 - LEAD)
    assert answers.choose(image, told("left", "right"), 9)[0] == told("left", "right")[1:]
    for other in (replace(image, source="scannet"), clip([], [])):
        assert len(answers.choose(other, told("left"), 9)[0]) == 1, "another source, another medium"
    answers.choose(image, told("back", "right"), 9)
    assert len(answers.choose(image, told("left"), 9)[0]) == 1, "both others have come once"


def test_what_has_no_options_or_its_own_is_taken_as_it_comes():
    numbers = [Draft("object_size", "image", Number(1.0))] * 20
    orders = [Draft("appearance_order", "video", Choice("a, b", ("b, a",), 1))] * 20
    for drafts in (numbers, orders):
        assert Answers().choose(clip([]), drafts, 15) == (drafts[:15], 0)
    assert Answers().choose(clip([]), [], 3) == ([], 0)


def test_directions_that_are_right_too_often_are_counted():
    """A car, a van to its right and a tram far ahead: nothing is ever at one's back."""
    three = places(("car", (0, 0, 5)), ("van", (0, 0, 15)), ("tram", (8, 0, 5)))
    tally, requested = FilterCounts(), Counter()
    for number in range(10):
        shown = replace(clip(three), id=f"c{number}")
        requested.update(
            one.question["task"] for one in questions([shown], BuildSettings(), FilterCounts())
        )
    assert requested["relative_direction"] == 30, "each by itself"
    many = [replace(clip(three), id=f"c{number}") for number in range(10)]
    found = [one.question for one in questions(many, BuildSettings(), tally)]
    assert sum(one["task"] == "relative_direction" for one in found) == 2 * LEAD
    reasons = tally.to_json()["kitti"]
    refused = reasons[TOO_OFTEN.format("relative_direction")]
    # All six triples of each clip are asked, too many of the clip, or refused.
    assert 2 * LEAD + refused + reasons[PER_CLIP] == 60


HOUSEHOLD = ("bed", "chair", "desk", "door", "lamp", "plant", "sofa", "table")


def coming(number):
    """Four things, each in a frame of its own."""
    names = Draws(0, "coming", number).shuffle(HOUSEHOLD)[:4]
    return clip(*[[sight(name, name)] for name in names], source="tao")


def strewn(number, *, source, count):
    """Things anywhere on six by six metres, and anywhere in an image of 200 × 100 pixels."""
    draws = Draws(0, "strewn", number)
    things = []
    for name in draws.shuffle(HOUSEHOLD)[:count]:
        at = (draws.integer_between(-30, 30) / 10, 0, draws.integer_between(5, 65) / 10)
        x, y = draws.integer_below(160), draws.integer_below(60)
        things.append(
            sight(name, name, Box(x, y, x + 40, y + 40), at=None if source == "tao" else at)
        )
    return clip(things, things, source=source, still=source == "scannet")


WORLDS = {
    "orders": ("appearance_order", coming),
    "directions in an image": (
        "relative_direction",
        lambda number: strewn(number, source="tao", count=3),
    ),
    "directions in a room": (
        "relative_direction",
        lambda number: strewn(number, source="scannet", count=5),
    ),
    "directions on a road": (
        "relative_direction",
        lambda number: strewn(number, source="kitti", count=4).image(number % 2),
    ),
}


def unlike(one, other):
    """Pairs that two orders have the other way round; 1 for what is no order, if it differs."""
    first, second = (text.split(", ") for text in (one, other))
    if len(first) == 1:
        return one != other
    return sum(second.index(a) > second.index(b) for a, b in combinations(first, 2))


def distances(options):
    return [sum(unlike(one, other) for other in options) for one in options]


def ranked(place):
    return lambda options: options.index(sorted(options)[place])


RULES = {
    **{f"sorted, {place}": ranked(place) for place in (0, 1, 2, -1)},
    "most alike the others": lambda options: distances(options).index(min(distances(options))),
    "least alike the others": lambda options: distances(options).index(max(distances(options))),
    "first": lambda options: 0,
    "last": lambda options: len(options) - 1,
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_right_option_cannot_be_told_from_the_options(name):
    """Four standard deviations of guessing at most, for every rule that sees the options alone."""
    kind, made = WORLDS[name]
    lines = [
        one.question
        for one in questions(
            [replace(made(number), id=f"c{number}") for number in range(160)],
            BuildSettings(images=0),
            FilterCounts(),
        )
    ]
    found = {}
    for line in lines:
        if line["task"] == kind:
            options = [option[3:] for option in line["options"]]
            right = "ABCD".index(line["solution"].removeprefix("<answer>")[0])
            length = len(options[0].split(", "))
            found.setdefault(length, []).append((options, right))
    assert sorted(found) == ([3, 4] if kind == "appearance_order" else [1])
    for requested in found.values():
        number, chance = len(requested), 1 / len(requested[0][0])
        assert number > 80 and all(len(set(options)) == len(options) for options, _ in requested)
        limit = number * chance + 4 * math.sqrt(number * chance * (1 - chance))
        for rule, guess in RULES.items():
            hits = sum(guess(options) == right for options, right in requested)
            assert hits <= limit, f"{rule}: {hits} of {number}"


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 30), min_size=1), st.integers(1, 90))
def test_shares_are_as_even_as_what_there_is_allows(available, total):
    taken = shares(available, total)
    assert sum(taken.values()) == min(total, sum(available.values()))
    assert all(0 <= taken[name] <= available[name] for name in available)
    open_types = [taken[name] for name in available if taken[name] < available[name]]
    assert not open_types or max(taken.values()) <= min(open_types) + 1


def test_a_sample_takes_none_twice_and_follows_its_seed():
    ids = {"a": [f"a{k}" for k in range(9)], "b": ["b0"]}
    found = uniform(ids, 5, seed=1)
    assert len(set(found)) == 5 and "b0" in found
    assert found == uniform(ids, 5, seed=1)
    assert any(uniform(ids, 5, seed=seed) != found for seed in range(2, 6))
    with pytest.raises(UsageError):
        uniform(ids, 0, seed=1)


def wordings():
    return [
        (kind, name, text)
        for kind in KINDS
        for name, texts in templates()[kind].items()
        for text in texts
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_all_wordings_of_a_case_have_the_same_fields(kind):
    for texts in templates()[kind].values():
        assert len({frozenset(FIELD.findall(text)) for text in texts}) == 1
        assert all(text[0].isupper() and text.rstrip()[-1] in "?.)" for text in texts)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_synonyms_never_touch_a_field(seed):
    for _, _, text in wordings():
        changed = exchange_synonyms(text, Draws(seed, text))
        assert FIELD.findall(changed) == FIELD.findall(text)


def test_synonyms_change_words_and_without_them_the_first_wording_stands():
    draft = Draft(
        "relative_distance", "image", Number(1.0), {"object_1": "number", "object_2": "b"}
    )
    info = {question_text(draft, Draws(seed, "x")) for seed in range(30)}
    assert len(info) > 5
    assert all("number" in text for text in info), "an object's own name is never exchanged"
    assert question_text(draft, Draws(0, "x"), synonyms=False) == (
        "From the center points of the number and the b, what is the direct distance separating "
        "them in meters?"
    )
