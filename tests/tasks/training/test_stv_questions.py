"""What is asked of a clip: filters with their numbers, each type's answer, what is not asked."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.tasks.training.stv import spatial, temporal
from harness.tasks.training.stv.build import PER_CLIP, Settings, questions
from harness.tasks.training.stv.clips import Clip, Sight
from harness.tasks.training.stv.drafts import KINDS, Choice, Draft, Number
from harness.tasks.training.stv.filters import KEPT, SEVERAL, Limits, Tally, clear_at, cleared
from harness.tasks.training.stv.geometry import Place
from harness.tasks.training.stv.graphs import graphs_of
from harness.tasks.training.stv.letters import Letters
from harness.tasks.training.stv.sampling import shares, uniform
from harness.tasks.training.stv.statistics import Statistics, page
from harness.tasks.training.stv.wording import FIELD, exchanged, templates, worded
from harness.types import Box, Box3D
from harness.world.draws import Draws

WIDE = Box(0, 0, 40, 40)


def sight(track, category, box=WIDE, *, at=None, **more):
    """An object; `at` is its centre, and where it stands seen from above."""
    if at is not None:
        spot = Place(*map(float, at))
        more = {"centre": spot, "ground": Place(spot.x, spot.z, 0.0), **more}
    return Sight(track=track, category=category, box=box, visible=more.pop("visible", 1.0), **more)


def clip(*frames, source="kitti", **more):
    return Clip(id="c", source=source, pictures=tuple(f"{k}.png" for k in range(len(frames))),
                rate=2.0, size=(200, 100), sights=tuple(map(tuple, frames)), **more)  # fmt: skip


def kept(one):
    return cleared(one, Limits(), Tally())


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
    tally = Tally()
    (frame,) = cleared(clip([one]), Limits(), tally).sights
    assert frame[0].clear == (reason == KEPT)
    assert tally.to_json() == {"kitti": {reason: 1}}


def test_a_name_inside_another_is_ambiguous():
    tally = Tally()
    shown = cleared(clip([sight("1", "chair"), sight("2", "office chair"), sight("3", "armchair")]),
                    Limits(), tally)  # fmt: skip
    assert [one.clear for one in shown.sights[0]] == [False, True, True]
    assert tally.to_json() == {"kitti": {"ambiguous category": 1, KEPT: 2}}


@pytest.mark.parametrize(
    "wrong", [{"visible": 1.1}, {"pixels": -1}, {"nearest": 5.0, "farthest": 5.0}]
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError, match="limits"):
        Limits(**wrong)


def test_a_category_is_counted_if_all_of_it_is_clear():
    shown = clip([sight("1", "car"), sight("2", "car"), sight("3", "van"),
                  sight("4", "van", visible=0.1), sight("5", "tram")],
                 uncounted=frozenset({"tram"}))  # fmt: skip
    (asked,) = spatial.counting(kept(shown), Tally())
    assert asked.fields == {"object": "car"} and asked.answer.text() == "2"
    assert asked.wording == "image"


def test_a_video_counts_objects_and_not_their_frames():
    video = clip([sight("1", "car")], [sight("1", "car"), sight("2", "car")],
                 [sight("2", "car", visible=0.1)])  # fmt: skip
    (asked,) = spatial.counting(kept(video), Tally())
    assert (asked.wording, asked.answer.text()) == ("video", "2")


def test_an_object_has_a_name_only_where_it_is_the_only_one():
    """Also one that is too small to be asked about makes "the car" ambiguous."""
    video = kept(clip([sight("1", "car"), sight("2", "van")],
                      [sight("3", "car", visible=0.1), sight("2", "van")]))  # fmt: skip
    assert list(clear_at(video, 0)) == ["van"]
    assert list(clear_at(kept(video.picture(0)), 0)) == ["car", "van"]


def test_one_of_several_is_clear_and_is_not_tallied_as_kept():
    video = clip([sight("1", "car"), sight("2", "van")],
                 [sight("3", "car", visible=0.1), sight("2", "van")])  # fmt: skip
    tally = Tally()
    shown = cleared(video, Limits(), tally)
    assert [one.clear for frame in shown.sights for one in frame] == [True, True, False, True]
    assert tally.to_json() == {"kitti": {KEPT: 2, SEVERAL: 1, "less than 15% visible": 1}}


def test_directions_in_a_picture_need_a_margin():
    left, right = Box(0, 0, 40, 40), Box(100, 50, 140, 90)
    shown = kept(clip([sight("1", "cat", left), sight("2", "dog", right)], source="tao"))
    answers = {
        (one.fields["object_1"], one.answer.right) for one in spatial.direction(shown, Tally())
    }
    assert answers == {("cat", "left-up"), ("dog", "right-down")}
    level = Box(100, 4, 140, 44)  # 4 of 100 pixels lower: neither above nor below
    beside = clip([sight("1", "cat", left), sight("2", "dog", level)], source="tao")
    assert not list(spatial.direction(kept(beside), Tally()))


def test_directions_of_one_who_stands_beside_something():
    """At the car and facing the van, which is ahead, the tram to the right is on the right."""
    shown = kept(clip([sight("1", "car", at=(0, 0, 5)), sight("2", "van", at=(0, 0, 15)),
                       sight("3", "tram", at=(8, 0, 5))]))  # fmt: skip
    asked = {tuple(one.fields.values()): one.answer for one in spatial.direction(shown, Tally())}
    assert asked["car", "van", "tram"] == Choice("right", ("left", "back"))
    assert asked["car", "tram", "van"].right == "left"
    # From the van the car lies straight back, the tram at 38.7 degrees to its left.
    assert asked["van", "car", "tram"].right == "left"
    assert asked["van", "tram", "car"].right == "right"
    video = replace(shown, pictures=("0.png", "1.png"), sights=shown.sights * 2)
    assert not list(spatial.direction(video, Tally())), "who moves cannot be asked without a time"
    assert list(spatial.direction(replace(video, still=True), Tally()))


def test_distances_are_between_centres_in_metres():
    shown = kept(clip([sight("1", "car", at=(0, 0, 5)), sight("2", "van", at=(3, 4, 5)),
                       sight("3", "tram", at=(0, 0.05, 5))]))  # fmt: skip
    asked = {
        tuple(one.fields.values()): one.answer.text() for one in spatial.separation(shown, Tally())
    }
    assert asked == {("car", "van"): "5.00", ("tram", "van"): "4.96"}
    assert not list(spatial.separation(kept(clip([sight("1", "cat"), sight("2", "dog")])), Tally()))


def test_sizes_are_the_longest_side_and_the_room():
    shown = clip([sight("1", "bed", at=(0, 0, 2), sides=(1.4, 2.004, 0.5))], [], room=23.46,
                 source="scannet", still=True)  # fmt: skip
    bed, room = spatial.size(kept(shown), Tally())
    assert (bed.answer.text(), bed.wording) == ("2.00", "video")
    assert (room.answer.text(), room.wording) == ("23.5", "room")
    (only,) = spatial.size(kept(shown.picture(0)), Tally())
    assert only.wording == "image"


def test_a_place_is_a_box_in_space_where_depth_is_known():
    space = Box3D(0.004, -1, 5, 1, 2, 3)
    (asked,) = spatial.localization(
        kept(clip([sight("1", "car", at=(0, -1, 5), extent=space)])), Tally()
    )
    assert asked.answer == Box3D(0.0, -1, 5, 1, 2, 3) and asked.wording == "space_image"
    (asked,) = spatial.localization(
        kept(clip([sight("1", "cat", Box(-3.2, 1.4, 50.6, 99.9))], source="tao")), Tally()
    )
    assert asked.answer == Box(0, 1, 51, 100) and asked.fields["resolution"] == "200x100"


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
    (asked,) = temporal.order(kept(video), Tally())
    # The tram is there with the van, small as it is; the truck comes when the van is clear.
    assert asked.answer.right == "car, van, truck" and len(asked.answer.wrong) == 3
    assert asked.fields == {"object_list": "car, truck, van"}
    assert asked.answer.right not in asked.answer.wrong


def test_tracking_gives_one_box_and_asks_for_another():
    video = clip(
        [sight("1", "car", Box(0, 0, 40, 40), at=(0, 0, 9), extent=Box3D(0, 0, 9, 4, 1, 2))],
        [sight("1", "car", Box(20, 0, 60.4, 40), at=(1, 0, 9), extent=Box3D(1, 0, 9, 4, 1, 2))],
    )
    plane, space = temporal.tracking(kept(video), Tally())
    assert plane.answer == Box(20, 0, 60, 40) and plane.fields["box"] == "[0, 0, 40, 40]"
    assert (plane.fields["timestamp_1"], plane.fields["timestamp_2"]) == ("0.0 s", "0.5 s")
    assert space.answer == Box3D(1, 0, 9, 4, 1, 2)
    assert space.fields["box"] == "[0.0, 0.0, 9.0, 4.0, 1.0, 2.0]"
    resting = clip(*[[sight("1", "car", Box(0, 0, 40, 40))]] * 2)
    assert not list(temporal.tracking(kept(resting), Tally()))


def test_displacement_is_measured_in_the_world():
    def seen(x):
        return [sight("1", "car", at=(0, 0, 9), world=Place(x, 0.0, 0.0))]

    (asked,) = temporal.displacement(kept(clip(seen(0.0), seen(3.0))), Tally())
    assert asked.answer.text() == "3.00"
    assert not list(temporal.displacement(kept(clip(seen(0.0), seen(0.4))), Tally()))
    assert not list(temporal.displacement(kept(clip(seen(0.0), seen(3.0), still=True)), Tally()))
    lost = clip(*[[sight("1", "car", at=(0, 0, 9))]] * 2)
    assert not list(temporal.displacement(kept(lost), Tally())), "nobody knows where the camera was"


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
        clip([sight("1", "car"), sight("2", "van"), sight("3", "van", visible=0.1),
              sight("4", "tram")], uncounted=frozenset({"tram"})),
        1, {spatial.PARTLY_CLEAR: 1, spatial.PARTLY_LISTED: 1},
    ),
    "directions in a picture": (  # cat and cow are level, dog and cow one above the other
        spatial.direction,
        clip([sight("1", "cat", Box(0, 0, 40, 40)), sight("2", "dog", Box(100, 50, 140, 90)),
              sight("3", "cow", Box(104, 4, 144, 44))], source="tao"),
        2, {spatial.LEVEL: 4},
    ),
    "directions of one who stands": (  # from the car both are ahead; van and tram are too close
        spatial.direction, clip(ABREAST), 0, {spatial.BORDER: 2, spatial.TOGETHER: 4},
    ),
    "distances": (spatial.separation, clip(places(*CORNER)), 2, {spatial.TOUCHING: 1}),
    "more categories than are looked at": (  # all pairs of six
        spatial.separation, clip(places(*ROW)), 15,
        {"relative_distance: categories beyond the 6 that are looked at": 1},
    ),
    "sizes": (
        spatial.size, clip([sight("1", "bed", sides=(0.0, 0.0, 0.0))], [], room=0.9), 0,
        {spatial.FLAT: 1, spatial.CLOSET: 1},
    ),
    "orders in doubt": (  # of four triples and all four, only car, van, truck is beyond doubt
        temporal.order,
        clip([sight("1", "car")],
             [sight("1", "car"), sight("2", "van", SMALL), sight("3", "tram", SMALL)],
             [sight("2", "van")], [sight("3", "tram"), sight("4", "truck")]),
        1, {temporal.DOUBTFUL: 4},
    ),
    "orders beyond the first": (  # 20 triples and 15 fours of six
        temporal.order, clip(*[[sight(name, name)] for name in "abcdef"]), 12,
        {temporal.SURPLUS: 23},
    ),
    "tracking in space": (  # of three pairs of times the first shows no motion: two questions
        temporal.tracking, clip(*boxes(WIDE, WIDE, SHIFTED, extent=SOLID)), 4,
        {temporal.RESTING: 2},
    ),
    "tracking at the limit": (
        temporal.tracking, clip(*boxes(WIDE, LOWER)), 0, {temporal.RESTING: 1},
    ),
    "displacement": (
        temporal.displacement,
        clip(*[boxes(WIDE, world=Place(x, 0.0, 0.0))[0] for x in (0.0, 0.4, 3.0)]),
        2, {temporal.STAYING: 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DROPS)
def test_what_a_number_rules_out_is_counted(name):
    asks, shown, asked, reasons = DROPS[name]
    tally = Tally()
    assert len(list(asks(kept(shown), tally))) == asked
    assert tally.to_json() == {shown.source: reasons}
    assert {reason.partition(":")[0] for reason in reasons} < set(KINDS)


def test_all_that_is_dropped_of_a_clip_stands_on_the_page():
    """Three that rest, in a video of two frames and in a picture of one of them.

    Beyond three of a type: 3 of the video's 6 distances, 3 of the picture's 6 directions. The
    picture is not asked for an order, nor where anything went.
    """
    spots = {"car": (0, 0, 5), "van": (0, 0, 15), "tram": (8, 0, 5)}
    resting = [sight(name, name, at=at, world=Place(0.0, 0.0, 0.0)) for name, at in spots.items()]
    tally = Tally()
    asked = list(questions([clip(resting, resting)], Settings(pictures=1), tally))
    assert len(asked) == 15  # three each: objects and distances twice, directions of the picture
    assert tally.to_json() == {"kitti": {
        KEPT: 6, PER_CLIP: 6, temporal.DOUBTFUL: 1, temporal.RESTING: 3, temporal.STAYING: 3,
    }}  # fmt: skip
    statistics = Statistics()
    shown = page({"seed": 0, "questions": statistics.to_json(), "filters": tally.to_json()})
    for reason, number in tally.to_json()["kitti"].items():
        assert f"| kitti | {reason} | {number} |" in shown


def test_a_graph_has_the_nearest_of_each_category_and_how_many_there_are():
    shown = kept(clip(
        [sight("1", "car", at=(0, 0, 9)), sight("2", "car", at=(1, -0.5, 7)),
         sight("3", "van", at=(0, 0, 3)), sight("4", "tram", at=(0, 0, 70))],
        [sight("3", "van", at=(0, 0, 3)), sight("5", "cat")],
    ))  # fmt: skip
    assert graphs_of(shown) == [{"frame": 0, "nodes": [
        {"category": "car", "centre": [1.0, -0.5, 7.0], "count": 2},
        {"category": "van", "centre": [0.0, 0.0, 3.0], "count": 1},
    ]}]  # fmt: skip


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
    return [(kind, name, text) for kind in KINDS for name, texts in templates()[kind].items()
            for text in texts]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_all_wordings_of_a_case_have_the_same_fields(kind):
    for texts in templates()[kind].values():
        assert len({frozenset(FIELD.findall(text)) for text in texts}) == 1
        assert all(text[0].isupper() and text.rstrip()[-1] in "?.)" for text in texts)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_synonyms_never_touch_a_field(seed):
    for _, _, text in wordings():
        changed = exchanged(text, Draws(seed, text))
        assert FIELD.findall(changed) == FIELD.findall(text)


def test_synonyms_change_words_and_without_them_the_first_wording_stands():
    draft = Draft(
        "relative_distance", "image", Number(1.0), {"object_1": "number", "object_2": "b"}
    )
    told = {worded(draft, Draws(seed, "x")) for seed in range(30)}
    assert len(told) > 5
    assert all("number" in text for text in told), "an object's own name is never exchanged"
    assert worded(draft, Draws(0, "x"), synonyms=False) == (
        "From the center points of the number and the b, what is the direct distance separating "
        "them in meters?"
    )
