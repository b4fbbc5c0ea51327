"""VideoSeg-R1's search for the key segment and the target frame."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.models.tracks import nearest_index
from harness.models.videoseg_r1.sampler import (
    KeyChoice,
    Sampler,
    Segment,
    VoteRequest,
    read_interval,
    read_percentage,
    shares,
)

from .videoseg_r1_script import GOOD, interval, model, query


def drive(search: Any, answers: Any) -> tuple[KeyChoice, list[VoteRequest]]:
    """Run a search; `answers` says what is responded to an Ask."""
    asks: list[VoteRequest] = []
    responses = None
    while True:
        try:
            asks.append(search.send(responses))
        except StopIteration as end:
            return end.value, asks
        responses = answers(asks[-1])


def test_votes_are_averaged_start_by_start_and_end_by_end():
    times = [float(index) for index in range(100)]
    votes = [interval(10, 20), interval(20, 40)]
    place, asks = drive(
        Sampler(votes=2).search(times),
        lambda ask: votes if ask.kind == "segment" else ['{"percent": 50}'],
    )
    assert place.segment == Segment(15, 30)
    assert [ask.kind for ask in asks] == ["segment", "frame"]


def test_a_median_does_not_mix_two_stretches():
    votes = [(0.0, 4.0), (0.0, 4.0), (90.0, 94.0)]
    times = [float(index) for index in range(100)]
    whole = Segment(0, 99)
    assert Sampler(average="median").interval(whole, votes, times) == Segment(0, 4)
    assert Sampler(average="mean").interval(whole, votes, times) == Segment(30, 34)


def test_a_segment_that_is_too_long_is_asked_about_again_from_within():
    times = [index / 2 for index in range(40)]  # 20 s
    output = iter([interval(0, 15), interval(5, 9.5)])
    place, asks = drive(
        Sampler(votes=1).search(times),
        lambda ask: [next(output)] if ask.kind == "segment" else ['{"percent": 100}'],
    )
    assert [ask.segment for ask in asks] == [Segment(0, 39), Segment(0, 30), Segment(10, 19)]
    assert place == KeyChoice(Segment(10, 19), 19)


def test_a_later_round_cannot_leave_its_segment():
    times = [float(index) for index in range(100)]
    output = iter([interval(50, 90), interval(0, 60)])
    place, _ = drive(
        Sampler(votes=1).search(times),
        lambda ask: [next(output)] if ask.kind == "segment" else ["?"],
    )
    assert place.segment == Segment(50, 60)


def test_swapped_ends_are_put_in_order_and_ends_outside_are_clipped():
    times = [float(index) for index in range(10)]
    assert Sampler().interval(Segment(0, 9), [(99.0, 7.0)], times) == Segment(7, 9)


def test_votes_that_cannot_be_read_do_not_count():
    times = [float(index) for index in range(100)]
    responses = [
        "no idea",
        interval(40, 50),
        '{"start": "x", "end": 3}',
        '{"start": NaN, "end": 3}',
    ]
    place, _ = drive(
        Sampler().search(times), lambda ask: responses if ask.kind == "segment" else ["?"]
    )
    assert place == KeyChoice(Segment(40, 50), 45)


def test_without_a_vote_the_search_ends_in_the_middle_of_the_video():
    times = [float(index) for index in range(100)]
    place, asks = drive(Sampler().search(times), lambda ask: ["?"] * ask.votes)
    assert len(asks) == 2  # it does not ask the same again
    assert place == KeyChoice(Segment(35, 64), 49)


def test_a_network_that_never_converges_is_stopped_after_its_rounds():
    times = [float(index) for index in range(100)]
    place, asks = drive(
        Sampler(rounds=5, votes=1).search(times),
        lambda ask: [interval(ask.segment.start, ask.segment.end - 1)],
    )
    assert sum(ask.kind == "segment" for ask in asks) == 5
    assert len(place.segment) == 30


def test_the_target_is_the_frame_that_ends_its_share():
    ten = Segment(20, 29)
    inside = Sampler()
    assert [inside.frame(ten, [p]) for p in (0, 0.05, 0.1, 0.11, 0.3, 1)] == [
        20,
        20,
        20,
        21,
        22,
        29,
    ]
    literal = Sampler(target="literal")
    assert [literal.frame(ten, [p]) for p in (0, 0.05, 0.1, 0.11, 0.3, 1)] == [
        20,
        21,
        21,
        22,
        23,
        29,
    ]


def test_percentages_are_per_cent_if_one_is_above_one():
    assert shares(['{"percent": 20}', '{"percent": 1}']) == [0.2, 0.01]
    assert shares(['{"percent": 0.2}', '{"percent": 1}']) == [0.2, 1.0]
    assert shares(['{"percent": 250}', '{"percent": -3}', "half"]) == [1.0, 0.0, 0.5]


def test_a_single_frame_is_not_asked_about():
    assert drive(Sampler().search([0.0]), lambda ask: [])[0] == KeyChoice(Segment(0, 0), 0)
    assert drive(Sampler().search([0.0]), lambda ask: [])[1] == []


@pytest.mark.parametrize(
    ("switches", "place", "kinds"),
    [
        ({}, KeyChoice(Segment(10, 19), 12), ["segment", "frame"]),
        ({"target_frame": False}, KeyChoice(Segment(10, 19), 11), ["segment"]),
        ({"key_segment": False}, KeyChoice(Segment(0, 99), 29), ["frame"]),
        ({"key_segment": False, "target_frame": False}, KeyChoice(Segment(0, 99), 0), []),
    ],
)
def test_table_5_switches_each_stage_off(switches, place, kinds):
    found, asks = drive(
        Sampler(**switches).search([float(index) for index in range(100)], key="q"),
        lambda ask: [interval(10, 19)] if ask.kind == "segment" else ['{"percent": 30}'],
    )
    assert (found, [ask.kind for ask in asks]) == (place, kinds)


def test_a_random_target_is_any_frame_of_the_key_segment_and_repeats():
    def drawn(key: str, seed: int = 0) -> int:
        search = Sampler(target_frame=False, votes=1, seed=seed).search(
            [float(index) for index in range(100)], key=key
        )
        return drive(search, lambda ask: [interval(10, 19)])[0].target

    found = [drawn(f"q{number}") for number in range(200)]
    assert set(found) == set(range(10, 20))
    assert found == [drawn(f"q{number}") for number in range(200)]
    assert found != [drawn(f"q{number}", seed=1) for number in range(200)]


def test_without_a_key_segment_there_are_no_references():
    made = model({"frame": ['{"percent": 30}'], "reason": [GOOD]}, key_segment=False)
    made.predict([query(frames=40)])
    target, *keys = made.chat.asked[-1].frames
    assert target == (11,)
    assert (len(keys), keys[0], keys[-1]) == (8, (0,), (39,))
    assert "reference" not in made.chat.asked[-1].text


@given(
    times=st.lists(st.floats(0.01, 5), min_size=1, max_size=60),
    delta=st.floats(0.01, 0.99),
    average=st.sampled_from(["mean", "median"]),
    target=st.sampled_from(["inside", "literal"]),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_whatever_is_said_the_search_ends_inside_the_video(times, delta, average, target, data):
    clock = np.cumsum(times).tolist()
    numbers = st.one_of(st.floats(-100, 400), st.integers(-5, 500))
    responses = st.one_of(
        st.builds(lambda s, e: json.dumps({"start": s, "end": e}), numbers, numbers),
        st.builds(lambda p: json.dumps({"percent": p}), numbers),
        st.text(max_size=20),
    )
    sampler = Sampler(delta=delta, average=average, target=target, votes=3, percentages=2)
    place, asks = drive(
        sampler.search(clock),
        lambda ask: data.draw(st.lists(responses, min_size=ask.votes, max_size=ask.votes)),
    )
    segment = place.segment
    assert 0 <= segment.start <= place.target <= segment.end < len(clock)
    assert len(segment) <= sampler.limit(len(clock))
    assert len(asks) <= sampler.rounds + 1
    assert all(ask.segment.end < len(clock) for ask in asks)


@pytest.mark.parametrize("setting", [{"delta": 0.0}, {"delta": 1.0}, {"votes": 0}, {"rounds": 0}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(UsageError):
        Sampler(**setting)


def test_the_nearest_frame_is_by_time_where_the_rate_varies():
    assert [nearest_index([0, 1, 10], t) for t in (-5, 0.5, 0.51, 5.4, 5.6, 99)] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]


@given(st.text(max_size=300))
def test_no_response_of_the_sampler_raises(response):
    read_interval(response)
    read_percentage(response)


def test_answers_are_found_in_tags_fences_and_sentences():
    assert read_interval("```json\n{'start': 1, 'end': 2,}\n```") == (1.0, 2.0)
    assert read_interval('{"start": 9, "end": 9} <answer>{"start": 1, "end": 2}</answer>') == (1, 2)
    assert read_percentage('about {"percent": 40}!') == 40.0
    assert read_percentage('{"percent": "40"}') is None
