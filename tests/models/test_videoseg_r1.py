import base64
import io
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from harness import media, plugins
from harness.backend import Chat, ConversingChat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import ParseError, UsageError
from harness.interchange.journal_form import prediction_from_json, prediction_to_json
from harness.masks import Rle
from harness.model import ResponseReader
from harness.models.backends.ablation import ablation
from harness.models.backends.inputs import processor_inputs
from harness.models.backends.request_format import RequestFormat, RequestOptions
from harness.models.backends.shown_media import squashed
from harness.models.grammar import Item
from harness.models.multi_turn import ConversationScheduler
from harness.models.tracks import nearest_place
from harness.models.videoseg_r1 import frame_display, grammar
from harness.models.videoseg_r1.cues import Cues
from harness.models.videoseg_r1.frame_display import seconds
from harness.models.videoseg_r1.frame_search import search_frames
from harness.models.videoseg_r1.model import videoseg_r1
from harness.models.videoseg_r1.negatives import with_negatives
from harness.models.videoseg_r1.references import key_frames, references
from harness.models.videoseg_r1.sampler import (
    KeySegment,
    Sampler,
    Segment,
    VoteRequest,
    read_interval,
    read_percentage,
    shares,
)
from harness.run.batching import samples_of
from harness.run.verify import verify
from harness.segmentation import ObjectPrompt, Propagator, Segmenter
from harness.spec import Spec
from harness.spec import parse as spec
from harness.types import Answer, AnswerForm, Box, FailureKind, Point, Query

FORM = AnswerForm
GOOD = '<think>the red one</think><answer>[{"bbox_2d": [84, 84, 168, 420], "point_pos": [126, 252, 1], "point_neg": [200, 252, 0]}]</answer>'  # noqa: E501


@dataclass(frozen=True)
class Script(Chat):
    """A chat that answers by what it is asked for, on a canvas of its own."""

    says: Mapping[str, Sequence[str]]
    """By a part of the request's key: responses, the last of which is said again."""
    coordinates: str = "pixels"
    asked: list[ChatRequest] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    batch_size: int = 4

    def describe(self) -> Mapping[str, Any]:
        return {"backend": "script"}

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        self.calls.append(len(requests))
        return [self._response(request) for request in requests]

    def _response(self, request: ChatRequest) -> ChatResponse:
        kind = next((kind for kind in ("segment", "frame") if f":{kind}:" in request.key), "reason")
        before = sum(f":{kind}:" in one.key or kind == "reason" for one in self.asked)
        self.asked.append(request)
        output = self.says[kind]
        return ChatResponse(
            text=output[min(before, len(output) - 1)], prompt_tokens=7, completion_tokens=3
        )

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return request.resize or request.media[0].size

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def video(frames: int, *, size: tuple[int, int] = (420, 210), rate: float = 2.0) -> media.Media:
    images = [
        np.full((size[1], size[0], 3), index % 256, dtype=np.uint8) for index in range(frames)
    ]
    times = [index / rate for index in range(frames)]
    return media.pixels(images, times=times, is_video=frames > 1, id=f"v{frames}")


def query(form: AnswerForm = FORM.MASK_TRACK, *, frames: int = 20, name: str = "q") -> Query:
    return Query(id=name, text="the dog?", media=(video(frames),), forms=(form,))


def model(says: Mapping[str, Sequence[str]], **given: Any) -> Any:
    made = {
        "segmenter": plugins.build("segmenters", "box"),
        "propagator": plugins.build("propagators", "still"),
        "backend": Script(says),
    }
    return videoseg_r1(**{**made, **given})


def interval(start: float, end: float) -> str:
    return json.dumps({"start": start, "end": end})


def drive(search: Any, answers: Any) -> tuple[KeySegment, list[VoteRequest]]:
    """Run a search; `answers` says what is responded to an Ask."""
    asks: list[VoteRequest] = []
    responses = None
    while True:
        try:
            asks.append(search.send(responses))
        except StopIteration as end:
            return end.value, asks
        responses = answers(asks[-1])


# the sampler


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
    assert place == KeySegment(Segment(10, 19), 19)


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
    assert place == KeySegment(Segment(40, 50), 45)


def test_without_a_vote_the_search_ends_in_the_middle_of_the_video():
    times = [float(index) for index in range(100)]
    place, asks = drive(Sampler().search(times), lambda ask: ["?"] * ask.votes)
    assert len(asks) == 2  # it does not ask the same again
    assert place == KeySegment(Segment(35, 64), 49)


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
    assert drive(Sampler().search([0.0]), lambda ask: [])[0] == KeySegment(Segment(0, 0), 0)
    assert drive(Sampler().search([0.0]), lambda ask: [])[1] == []


@pytest.mark.parametrize(
    ("switches", "place", "kinds"),
    [
        ({}, KeySegment(Segment(10, 19), 12), ["segment", "frame"]),
        ({"target_frame": False}, KeySegment(Segment(10, 19), 11), ["segment"]),
        ({"key_segment": False}, KeySegment(Segment(0, 99), 29), ["frame"]),
        ({"key_segment": False, "target_frame": False}, KeySegment(Segment(0, 99), 0), []),
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
    assert [nearest_place([0, 1, 10], t) for t in (-5, 0.5, 0.51, 5.4, 5.6, 99)] == [
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


# frames beside the target


def test_twelve_adaptive_references_are_four_global_and_eight_local():
    found = references(100, Segment(40, 49), wanted=12, strategy="adaptive")
    assert found == (0, 27, 36, 37, 38, 39, 50, 51, 52, 53, 72, 99)


def test_at_the_edge_of_a_video_the_other_side_gives_more():
    found = references(100, Segment(0, 9), wanted=6, strategy="local")
    assert found == (10, 11, 12, 13, 14, 15)
    assert references(14, Segment(2, 9), wanted=12, strategy="local") == (0, 1, 10, 11, 12, 13)


def test_global_references_are_spread_over_what_lies_outside():
    assert references(30, Segment(10, 19), wanted=4, strategy="global") == (0, 6, 23, 29)


@given(
    total=st.integers(1, 80),
    start=st.integers(0, 79),
    length=st.integers(1, 80),
    wanted=st.integers(0, 20),
    strategy=st.sampled_from(["global", "local", "adaptive"]),
)
def test_references_are_as_many_as_wanted_or_all_there_are(total, start, length, wanted, strategy):
    segment = Segment(min(start, total - 1), min(start + length - 1, total - 1))
    found = references(total, segment, wanted=wanted, strategy=strategy)
    assert list(found) == sorted(set(found))
    assert len(found) == min(wanted, total - len(segment))
    assert not set(found) & set(segment.frames())


def test_key_frames_are_spread_and_leave_out_the_target():
    assert key_frames(Segment(10, 39), 10, limit=4) == (11, 20, 30, 39)
    assert key_frames(Segment(3, 3), 3, limit=8) == ()
    assert key_frames(Segment(3, 9), 5, limit=0) == ()


# the grammar


def test_a_response_is_read_with_both_points():
    output = grammar.parse(GOOD)
    assert output.items == (Item(Box(84, 84, 168, 420), Point(126, 252), Point(200, 252)),)
    assert (output.think, output.notes, output.error) == ("the red one", (), None)
    assert grammar.parse(GOOD, strict=True).items == output.items


def one(**entry: Any) -> str:
    whole = {"bbox_2d": [1, 2, 3, 4], "point_pos": [2, 3, 1], "point_neg": [9, 9, 0], **entry}
    kept = {key: value for key, value in whole.items() if value is not ...}
    return f"<answer>{json.dumps([kept])}</answer>"


@pytest.mark.parametrize(
    ("entry", "point", "negative", "note"),
    [
        ({"point_neg": ...}, Point(2, 3), None, "no point_neg"),
        ({"point_pos": ...}, None, Point(9, 9), "no point_pos"),
        ({"point_pos": [2, 3]}, Point(2, 3), Point(9, 9), "has no label"),
        ({"point_neg": [9, 9, 1]}, Point(2, 3), Point(9, 9), "has the label 1"),
        ({"point_pos": ..., "point_2d": [5, 6]}, Point(5, 6), Point(9, 9), "point_2d read as"),
    ],
)
def test_a_prediction_is_read_kindly_and_a_reward_is_not(entry, point, negative, note):
    output = grammar.parse(one(**entry))
    assert (output.items[0].point, output.items[0].negative) == (point, negative)
    assert any(note in one for one in output.notes)
    assert grammar.parse(one(**entry), strict=True).error


@pytest.mark.parametrize(
    "entry",
    [
        {"bbox_2d": ...},
        {"point_pos": "x"},
        {"point_neg": [1, 2, True]},
        {"point_pos": [1, 2, 3, 4]},
        {"bbox_2d": [3, 2, 1, 4]},
        {"point_neg": [1]},
    ],
)
def test_what_is_wrong_is_an_error_and_not_left_out(entry):
    assert grammar.parse(one(**entry)).error


def test_responses_to_images_say_nothing_of_a_frame():
    assert grammar.parse(GOOD).frame is None
    assert grammar.parse("<frame>7</frame>" + GOOD).frame == 7


def test_nothing_meant_is_an_empty_list():
    output = grammar.parse("<answer>[]</answer>")
    assert output.ok and output.items == ()


@given(
    st.lists(st.tuples(*[st.integers(0, 839)] * 8), max_size=4),
    st.one_of(st.none(), st.integers(0, 99)),
    st.booleans(),
)
def test_what_is_written_is_read_again(numbers, frame, think):
    items = [
        Item(Box(x, y, x + w + 1, y + h + 1), Point(px, py), Point(nx, ny))
        for x, y, w, h, px, py, nx, ny in numbers
    ]
    output = grammar.parse(grammar.Prompt(think=think).write(items, frame=frame))
    assert (list(output.items), output.frame, output.error) == (items, frame, None)
    assert output.notes == ()


def test_a_tag_in_the_reasoning_cannot_be_written():
    with pytest.raises(ParseError):
        grammar.write([], think="</think><answer>[]")


def random_responses(count: int, seed: int) -> list[str]:
    """Responses that are nearly right: cut, doubled, scrambled."""
    pieces = [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "[{",
        "}]",
        '"bbox_2d":',
        "[1,2,3,4]",
        '"point_pos":',
        "[1,2,1]",
        '"point_neg":',
        "[5,6,0]",
        ",",
        "null",
        "NaN",
        "1e999",
        "'",
        "```json",
        "```",
        "<frame>3</frame>",
        "é",
        "\ud800",
        "\x00",
        "[" * 70,
        "-" * 5,
    ]
    draw = np.random.default_rng(seed)
    made = []
    for index in range(count):
        if index % 2:
            chosen = draw.integers(0, len(pieces), size=int(draw.integers(0, 14)))
            made.append("".join(pieces[place] for place in chosen))
        else:
            text = list(GOOD)
            for _ in range(int(draw.integers(1, 5))):
                place = int(draw.integers(0, len(text)))
                text[place : place + int(draw.integers(0, 9))] = pieces[
                    int(draw.integers(0, len(pieces)))
                ]
            made.append("".join(text))
    return made


def test_ten_thousand_malformed_responses_are_read_without_an_exception():
    read = 0
    for response in random_responses(10_000, 0):
        kind, strict = grammar.parse(response), grammar.parse(response, strict=True)
        assert kind.ok or not strict.ok or not strict.items or kind.error
        read += kind.ok
    assert 100 < read < 9_900  # else they are not nearly right


# prompts


def test_the_prompt_asks_for_the_grammar_that_is_read():
    requested = grammar.build_prompt("Where is the {Answer} dog?")
    assert "where is the {answer} dog" in requested
    example = f"<answer>{grammar.template('example_answer.txt')}</answer>"
    assert example in requested
    assert len(grammar.parse(example, strict=True).items) == 2
    assert "<think>" in requested and "<think>" not in grammar.build_prompt("x", think=False)


# perfect responses


def test_a_negative_point_lies_close_beside_all_that_is_meant():
    target = np.zeros((200, 300), dtype=bool)
    target[50:100, 60:120] = True
    target[50:100, 125:180] = True
    items = [
        Item(Box(60, 50, 120, 100), Point(90, 75)),
        Item(Box(125, 50, 180, 100), Point(150, 75)),
    ]
    rows, columns = np.nonzero(target)
    for item in with_negatives(items, target):
        x, y = item.negative
        assert not target[int(y), int(x)]
        assert 2 <= np.min(np.abs(columns - x) + np.abs(rows - y)) <= 40 * 300 / 840


def test_no_room_beside_an_object_is_no_negative_point():
    item = Item(Box(0, 0, 9, 9), Point(4, 4))
    assert with_negatives([item], np.ones((9, 9), dtype=bool)) == [item]


# requests


def test_the_reasoner_is_shown_target_references_and_key_frames():
    made = model({"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]})
    made.predict([query(frames=40)])
    chat = made.chat
    request = chat.asked[-1]
    refer = references(40, Segment(10, 14), wanted=12, strategy="adaptive")
    assert request.frames == tuple((frame,) for frame in (12, *refer, 10, 11, 13, 14))
    assert request.media == (request.media[0],) * 17
    assert [request.squash(place) for place in range(17)] == [(840, 840), *[(280, 280)] * 16]
    assert "at 6.0 s of a video that ends at 19.5 s" in request.text
    assert (
        f"12 reference frame(s) follow, from {seconds(request.media[0], refer)} s" in request.text
    )
    assert "from 5.0 s to 7.0 s" in request.text
    assert 'Please find "the dog"' in request.text


def test_every_backend_shows_the_network_the_same_images(tiny_qwen, monkeypatch):
    """As one image each, in one order: none joins frames that are far from each other."""
    made = model({"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]})
    made.predict([query(frames=40)])
    request = made.chat.asked[-1]
    expected = [
        squashed(request.media[place].frame(frame), request.squash(place))
        for place, frames in enumerate(request.frames)
        for frame in frames
    ]
    network = plugins.build("backends", spec(f"transformers(checkpoint={tiny_qwen})"))
    handed = []
    processor = network.processor
    monkeypatch.setattr(
        type(processor), "__call__", lambda self, **given: handed.append(given) or {}
    )
    processor_inputs(processor, [request])
    monkeypatch.undo()
    assert "videos" not in handed[0]
    form = RequestFormat(
        options=RequestOptions(), model="m", repetition_penalty=None, fit=None, plain=str
    )
    content = json.loads(form.body(request))["messages"][-1]["content"]
    sent = [part for part in content if part["type"] != "text"]
    assert {part["type"] for part in sent} == {"image_url"}
    inside = plugins.build("backends", spec(f"vllm(checkpoint={tiny_qwen})"))._prompt(request)
    assert set(inside["multi_modal_data"]) == {"image"}
    shown = {
        "transformers": handed[0]["images"],
        "openai": [decoded(part["image_url"]["url"]) for part in sent],
        "vllm": inside["multi_modal_data"]["image"],
    }
    for backend, images in shown.items():
        assert len(images) == len(expected) == 17, backend
        for one, other in zip(images, expected, strict=True):
            assert np.array_equal(np.asarray(one), other), backend


def decoded(url):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))


@pytest.mark.parametrize(
    ("strategy", "wanted", "refer"),
    [
        ("global", 0, ()),
        ("local", 0, ()),
        ("adaptive", 0, ()),
        ("global", 6, (0, 7, 19, 25, 32, 39)),
        ("local", 6, (7, 8, 9, 15, 16, 17)),
        ("adaptive", 6, (0, 8, 9, 15, 16, 39)),
        ("global", 12, (0, 3, 6, 9, 17, 20, 24, 27, 30, 33, 36, 39)),
        ("local", 12, (4, 5, 6, 7, 8, 9, 15, 16, 17, 18, 19, 20)),
        ("adaptive", 12, (0, 6, 7, 8, 9, 15, 16, 17, 18, 22, 30, 39)),
    ],
)
def test_table_b1_chooses_the_references_that_the_reasoner_is_shown(strategy, wanted, refer):
    says = {"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]}
    made, requested = model(says, references=strategy, reference_frames=wanted), query(frames=40)
    (output,) = made.predict([requested])
    request = made.chat.asked[-1]
    keys = (10, 11, 13, 14)
    assert request.frames == tuple((frame,) for frame in (12, *refer, *keys))
    clips = replace(made, showing=replace(made.showing, beside="clips"))
    (as_clips,) = clips.reasoner_requests(requested, KeySegment(Segment(10, 14), 12))
    assert as_clips.frames == (((12,), refer, keys) if refer else ((12,), keys))
    assert len(request.media) == len(request.frames)
    target = "objects are marked in this frame. "
    times = ", ".join(str(frame / 2) for frame in refer)
    info = f"For context, {wanted} reference frame(s) follow, from {times} s. " if refer else ""
    assert f"{target}{info}Then 4 frame(s) of the key segment, from 5.0 s to 7.0 s" in request.text
    sent = output.calls[-1].request
    assert [one.frames for one in sent.shown] == list(request.frames) and sent.text == request.text
    assert {one.medium for one in sent.shown} == {0}


def test_votes_have_keys_of_their_own():
    made = model(
        {"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]},
        votes=3,
        percentages=2,
    )
    made.predict([query(name="a"), query(name="b")])
    keys = [request.key for request in made.chat.asked]
    assert sorted(keys) == sorted(
        f"{name}{rest}"
        for name in "ab"
        for rest in [":segment:0:0", ":segment:0:1", ":segment:0:2", ":frame:0:0", ":frame:0:1", ""]
    )
    assert made.chat.calls == [6, 4, 2]  # a turn of all queries is asked together


def test_the_sampler_sees_few_small_frames_and_their_times():
    made = model(
        {"segment": [interval(0, 1)], "frame": ["?"], "reason": [GOOD]},
        sampler_frames=4,
        context=168,
    )
    made.predict([query(frames=31)])
    first = made.chat.asked[0]
    assert (first.frames, first.resize) == (((0, 10, 20, 30),), (168, 168))
    assert "0.0, 5.0, 10.0, 15.0 s" in first.text


# predictions


def test_a_video_is_segmented_in_the_frame_that_was_found_and_propagated():
    @dataclass(frozen=True)
    class Watching(Propagator):
        started: list[int] = field(default_factory=list)
        name: str = "watching"

        def propagate(self, shown, start, masks):
            self.started.append(start)
            return [
                [mask if index == start else ~mask for index in range(len(shown))] for mask in masks
            ]

    watching = Watching()
    made = model(
        {"segment": [interval(5, 7)], "frame": ['{"percent": 100}'], "reason": [GOOD]},
        propagator=watching,
    )
    (output,) = made.predict([query(frames=40)])
    assert watching.started == [14]
    assert output.answer.masks[14].area == 42 * 84  # half of the canvas's box each way
    assert output.answer.masks[13].area == 420 * 210 - 42 * 84
    assert output.responses[-1] == f"<frame>14</frame>{GOOD}"
    assert len(output.responses) == 5 + 5 + 1
    assert output.usage.frames == 5 * 16 + 5 * 5 + 1 + 12 + 4
    assert output.usage.prompt_tokens == 11 * 7


def test_a_prediction_is_read_again_from_its_record():
    made = model({"segment": [interval(2, 4)], "frame": ["?"], "reason": [GOOD]})
    (output,) = made.predict([query()])
    kept = prediction_from_json(prediction_to_json(output))
    again = made.read(query(), kept.responses)
    assert (again.answer, again.responses) == (output.answer, output.responses)
    alone = made.read(query(), kept.responses[-1:])
    assert alone.answer == output.answer


@pytest.mark.parametrize(
    ("switches", "forms"),
    [
        ({}, (FORM.MASK_TRACK,)),
        ({"target_frame": False, "percentages": 5}, (FORM.MASK_TRACK,)),
        ({"key_segment": False, "votes": 5}, (FORM.MASK_TRACK, FORM.NUMBER)),
        (
            {"key_segment": False, "votes": 5, "target_frame": False, "percentages": 5},
            (FORM.MASK_TRACK,),
        ),
        ({}, (FORM.NUMBER,)),
    ],
)
def test_the_record_holds_every_call_in_order(switches, forms):
    made = model(
        {
            "segment": [interval(0, 9), interval(5, 7)],
            "frame": ['{"percent": 50}', "?"],
            "reason": [GOOD],
        },
        **{"votes": 2, "percentages": 2, **switches},
    )
    requested = replace(query(frames=40), forms=forms)
    (output,) = made.predict([requested])
    kept = prediction_from_json(json.loads(json.dumps(prediction_to_json(output))))
    assert kept == output
    assert [
        (requested.id + one.key, one.request.text, [shown.frames for shown in one.request.shown])
        for one in kept.calls
    ] == [(one.key, one.text, list(one.frames)) for one in made.chat.asked]
    marks = [
        response.removesuffix(call.response)
        for call, response in zip(kept.calls, kept.responses, strict=True)
    ]
    assert all(mark == "" or mark.startswith("<frame>") for mark in marks)
    times = requested.media[0].times()
    for shown in (shown for call in kept.calls for shown in call.request.shown):
        assert shown.times == tuple(times[frame] for frame in shown.frames)


def test_the_record_says_that_the_network_was_shown_other_media():
    chat = Script({"segment": [interval(5, 7)], "frame": ["?"], "reason": [GOOD]})
    made = model({}, backend=ablation(chat=chat, images="grey"))
    (output,) = made.predict([query(frames=40)])
    media = {shown.medium for call in output.calls for shown in call.request.shown}
    assert media == {one.media[0].id for one in chat.asked}, "none of them is the query's own"


def test_a_frame_that_the_network_names_itself_does_not_count():
    made = model(
        {
            "segment": [interval(2, 4)],
            "frame": ['{"percent": 0}'],
            "reason": [f"<frame>19</frame>{GOOD}"],
        }
    )
    (output,) = made.predict([query()])
    assert output.answer is not None
    assert output.responses[-1].startswith("<frame>4</frame><frame>19</frame>")


def test_an_image_is_a_video_of_one_frame_without_a_search():
    made = model({"reason": [GOOD]})
    (output,) = made.predict([query(FORM.MASK, frames=1)])
    (request,) = made.chat.asked
    assert (request.frames, request.resize) == (((0,),), (840, 840))
    assert output.answer.masks[0].area == 42 * 84
    assert output.responses == (GOOD,)


def test_a_question_in_words_is_asked_without_a_search():
    made = model({"reason": ["<answer>A</answer>"]})
    requested = replace(query(FORM.CHOICE), options=("yes", "no"))
    (output,) = made.predict([requested])
    assert output.answer.choice == "A"
    assert len(made.chat.asked) == 1


def test_a_response_outside_the_grammar_is_a_failure():
    made = model({"segment": ["?"], "frame": ["?"], "reason": ["I cannot"]})
    (output,) = made.predict([query()])
    assert output.failure.kind is FailureKind.PARSE


@pytest.mark.parametrize(
    ("switches", "shown"),
    [
        ({}, (True, True, True)),
        ({"box": False}, (False, True, True)),
        ({"central": False}, (True, False, True)),
        ({"negative": False}, (True, True, False)),
        ({"box": False, "negative": False}, (False, True, False)),
    ],
)
def test_table_6_chooses_what_the_segmenter_is_shown(switches, shown):
    @dataclass(frozen=True)
    class Seeing(Segmenter):
        seen: list[ObjectPrompt] = field(default_factory=list)
        name: str = "seeing"

        def segment(self, image, prompts):
            self.seen.extend(prompts)
            return [np.zeros(image.shape[:2], dtype=bool) for _ in prompts]

    seeing = Seeing()
    model({"reason": [GOOD]}, segmenter=seeing, **switches).predict([query(FORM.MASK, frames=1)])
    (prompt,) = seeing.seen
    assert (prompt.box is not None, bool(prompt.positive), bool(prompt.negative)) == shown
    if shown[2]:
        assert prompt.negative == (Point(100, 63),)


def test_no_prompt_at_all_is_refused():
    with pytest.raises(UsageError):
        model({}, box=False, central=False)
    assert Cues(segmenter=plugins.build("segmenters", "box"), box=False).name == "box"


def test_it_reads_perfect_responses_with_the_ground_truth_for_perception():
    ground_truth = np.zeros((210, 420), dtype=bool)
    ground_truth[20:60, 30:90] = True
    masks = tuple(
        Rle.from_array(ground_truth if index == 3 else ground_truth & False) for index in range(20)
    )

    @dataclass(frozen=True)
    class Knows(Segmenter, Propagator):
        name: str = "knows"

        def segment(self, image, prompts):
            assert image[0, 0, 0] == 3
            assert all(prompt.negative for prompt in prompts)
            return [ground_truth for _ in prompts]

        def propagate(self, shown, start, given):
            assert start == 3
            return [[mask.to_array() for mask in masks] for _ in given]

    made = model({})
    assert isinstance(made, ResponseReader)
    responses = made.write(query(), Answer(masks=masks))
    assert responses[0].startswith("<frame>3</frame><think></think>")
    assert made.with_perception(Knows(), Knows()).read(query(), responses).answer.masks == masks


def test_its_record_says_every_setting():
    plain = model({}, references="global", box=False).describe()
    assert plain["name"] == "videoseg_r1"
    assert plain["sampler"]["delta"] == 0.3
    assert plain["showing"]["strategy"] == "global"
    assert plain["segmenter"] == {"name": "box", "box": False, "central": True, "negative": True}
    json.dumps(plain)


@pytest.mark.parametrize("setting", [{"canvas": 0}, {"reference_frames": -1}, {"temperature": -1}])
def test_wrong_numbers_are_refused(setting):
    with pytest.raises(UsageError):
        model({}, **setting)


# generated videos


@dataclass(frozen=True)
class Sees(Chat):
    """A chat that has the ground truth of some samples: where, and in which frames, things are."""

    ground_truth: Mapping[str, Any]
    reader: Any
    coordinates: str = "pixels"
    batch_size: int = 4

    def describe(self) -> Mapping[str, Any]:
        return {"backend": "sees"}

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        return [ChatResponse(text=self.says(request)) for request in requests]

    def says(self, request: ChatRequest) -> str:
        sample = self.ground_truth[request.key.partition(":")[0]]
        masks, times = sample.target.answer.masks, request.media[0].times()
        seen = [index for index, mask in enumerate(masks) if mask.area]
        best = max(range(len(masks)), key=lambda index: masks[index].area)
        if ":segment:" in request.key:
            return interval(times[max(best - 1, 0)], times[min(best + 1, len(times) - 1)])
        if ":frame:" in request.key:
            return '{"percent": 50}'
        (target,) = request.frames[0]
        assert target in seen
        here = Answer(masks=(masks[target],))
        still = media.pixels([request.media[0].frame(target)], times=[0], is_video=False, id="x")
        requested = Query(id="x", text="x", media=(still,), forms=(FORM.MASK,))
        return self.reader.write(requested, here)[0]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return request.resize or request.media[0].size

    def count_tokens(self, text: str) -> int:
        return len(text.split())


@pytest.fixture(scope="module")
def mevis():
    root = Path(__file__).resolve().parents[2] / "tasks" / "mevis" / "example"
    return plugins.build("tasks", "mevis", root)


def test_a_network_that_sees_segments_generated_videos(mevis):
    samples = list(samples_of(mevis))
    assert all(any(mask.area for mask in one.target.answer.masks) for one in samples)
    ground_truth = {sample.query.id: sample for sample in samples}
    given = {
        "segmenter": plugins.build("segmenters", "grabcut"),
        "votes": 1,
        "percentages": 1,
        "propagator": plugins.build("propagators", "flow"),
    }
    made = videoseg_r1(backend=Sees(ground_truth, model({})), **given)
    found = made.predict([sample.query for sample in samples])
    overlaps = []
    for sample, output in zip(samples, found, strict=True):
        assert output.failure is None
        for one, other in zip(output.answer.masks, sample.target.answer.masks, strict=True):
            both, either = one.intersection(other).area, one.union(other).area
            overlaps.append(both / either if either else 1.0)
    assert np.mean(overlaps) > 0.6


def test_perfect_responses_reach_the_ceiling_of_a_benchmark(mevis):
    verdicts = list(verify(mevis, model({})))
    assert [verdict.way for verdict in verdicts] == ["answers", "responses"]
    assert all(verdict.is_passed for verdict in verdicts), verdicts


# a real network


@pytest.fixture
def short_votes(monkeypatch):
    """Votes of few tokens: a network without training writes as many as it may."""
    monkeypatch.setattr(frame_display, "SAMPLER_TOKENS", 12)


@pytest.mark.usefixtures("short_votes")
def test_a_network_in_process_votes_and_reasons_with_weights_loaded_once(tiny_qwen, ask):
    made = plugins.build(
        "models",
        "videoseg_r1",
        checkpoint=str(tiny_qwen),
        canvas=56,
        context=56,
        votes=2,
        percentages=2,
        sampler_frames=4,
        reference_frames=2,
        key_frames=2,
        max_new_tokens=8,
        segmenter=plugins.build("segmenters", "box"),
    )
    requested = ask(FORM.MASK_TRACK, frames=8)
    made.prepare()
    assert made.voters is made.chat
    assert (made.showing.temperature, made.chat.temperature) == (0.7, 0.0)
    (output,) = made.predict([requested])
    assert len(output.responses) == 2 + 2 + 1
    assert output.responses[0] != output.responses[1]  # votes are drawn under keys of their own
    assert made.predict([requested])[0] == output


def in_process(tiny_qwen, **given):
    return plugins.build(
        "models",
        "videoseg_r1",
        **{
            "checkpoint": str(tiny_qwen),
            "canvas": 56,
            "context": 56,
            "votes": 3,
            "percentages": 2,
            "sampler_frames": 4,
            "reference_frames": 2,
            "key_frames": 2,
            "max_new_tokens": 4,
            "segmenter": plugins.build("segmenters", "box"),
            "propagator": plugins.build("propagators", "flow"),
            **given,
        },
    )


@pytest.mark.usefixtures("short_votes")
def test_searches_that_wait_for_each_other_find_the_same(tiny_qwen, ask):
    requested = [
        ask(FORM.MASK_TRACK, frames=frames, name=f"{frames}") for frames in (9, 3, 1, 14)
    ]  # the image is not looked for

    class Turns:
        """The voters, without a way of their own to converse."""

        def __init__(self, chat):
            self.generate = chat.generate

    made = in_process(tiny_qwen)
    made.voters.network.double()  # batches of other shapes round otherwise, and so might draw
    given = {"sampler": made.sampler, "showing": made.showing}
    found = search_frames(requested, voters=made.voters, **given)
    assert found == search_frames(requested, voters=Turns(made.voters), **given)
    assert [one and len(one.responses) for one in found] == [5, 3, None, 5]
    assert found[3] == search_frames(requested[3:], voters=made.voters, **given)[0]


@pytest.mark.usefixtures("short_votes")
@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, {"9:segment:0:0", "14:segment:0:0"}),
        ({"key_segment": False, "votes": 5}, {"9:frame:0:0", "14:frame:0:0"}),
        (
            {"key_segment": False, "votes": 5, "target_frame": False, "percentages": 5},
            {"9", "14"},
        ),
    ],
)
def test_what_a_batch_shows_first_is_made_while_another_is_asked(
    tiny_qwen, ask, monkeypatch, switches, expected
):
    requested = [replace(ask(FORM.MASK_TRACK, frames=frames), id=f"{frames}") for frames in (9, 14)]
    made = []

    def noted(processor, chosen):
        made.extend((one.key, threading.current_thread().name) for one in chosen)
        return processor_inputs(processor, chosen)

    model = in_process(tiny_qwen, **switches)
    model.prepare()
    output = model.predict(requested)
    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", noted)
    model.prepare_next(requested)
    assert model.predict(requested) == output
    threads = dict(made)
    assert len(threads) == len(made), "each is made once"
    assert {key for key, thread in threads.items() if thread.startswith("expected")} == expected


@pytest.mark.usefixtures("short_votes")
def test_a_network_whose_images_are_altered_votes_on_them(tiny_qwen, ask, monkeypatch):
    made = plugins.build(
        "models",
        "videoseg_r1",
        checkpoint=str(tiny_qwen),
        canvas=56,
        context=56,
        votes=2,
        percentages=2,
        max_new_tokens=4,
        backend=spec("ablation(images=grey)"),
        segmenter=plugins.build("segmenters", "box"),
    )
    shown = []
    within = type(made.chat.chat)

    def noted(chat, requests):
        shown.extend((one.temperature, one.media[0].frame(0).max()) for one in requests)
        return generate(chat, requests)

    generate = within.generate
    monkeypatch.setattr(within, "generate", noted)
    made.predict([ask(FORM.MASK_TRACK, frames=8)])
    assert shown == [(0.7, 128)] * 4 + [(None, 128)]


@pytest.mark.parametrize(
    ("given", "expected"), [({}, 0.7), ({"temperature": 0.3}, 0.3), ({"own": 0.1}, 0.1)]
)
def test_voters_of_their_own_vote_at_the_temperature_that_is_theirs(tiny_qwen, given, expected):
    own = given.pop("own", None)
    sampler = Spec("transformers", {} if own is None else {"temperature": own})
    made = in_process(tiny_qwen, sampler=sampler, **given)
    assert made.voters is not made.chat
    assert made.voters.temperature == expected
    assert made.showing.temperature is None


@pytest.mark.usefixtures("short_votes")
def test_voters_of_their_own_with_the_same_weights_come_to_the_same(tiny_qwen, ask):
    requested = [ask(FORM.MASK_TRACK, frames=frames, name=f"{frames}") for frames in (9, 1, 14)]
    apart = in_process(tiny_qwen, sampler=Spec("transformers"))
    alone = apart.predict(requested)
    assert (
        apart.wait_seconds
        == apart.voters.wait_seconds + apart.chat.wait_seconds
        > apart.chat.wait_seconds
        > 0
    )
    assert replace(apart, voters=Script({})).wait_seconds is None
    one = in_process(tiny_qwen)
    without = [replace(output, calls=()) for output in (*one.predict(requested), *alone)]
    assert without[:3] == without[3:], "votes of their own are drawn at their own temperature"
    assert one.wait_seconds == one.chat.wait_seconds > 0
    assert [len(one.responses) for one in alone] == [6, 1, 6]


def test_a_search_that_is_over_goes_on_to_the_reasoner_while_others_vote():
    class Hasty(Script, ConversingChat):
        """What was asked for last is answered first."""

        def converse_as_completed(self, conversations, *, go_on=False):
            scheduler = ConversationScheduler(conversations)
            while places := scheduler.pending_places():
                scheduler.receive(places[-1], self._response(scheduler.requests[places[-1]]))
            yield from enumerate(scheduler.ends())

    says = {"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]}
    made = model({}, backend=Hasty(says))
    requested = [query(name="first"), query(name="second")]
    together = made.generate(requested)
    keys = [one.key for one in made.chat.asked]
    assert keys.index("second") < keys.index("first:segment:0:4")
    assert together == [made.generate([one])[0] for one in requested]


class Unequal(Script):
    """A search of one round for `first`, of two for `second`; each reasons about itself."""

    def _response(self, request: ChatRequest) -> ChatResponse:
        self.asked.append(request)
        name, _, requested = request.key.partition(":")
        if requested.startswith("segment"):
            long = name == "second" and requested.startswith("segment:0")
            return ChatResponse(text=interval(0, 8) if long else interval(5, 7))
        if requested:
            return ChatResponse(text='{"percent": 50}')
        return ChatResponse(text=f"{request.prefix or f'<think>{name}</think>'}<answer>[]</answer>")


def of_unequal_rounds() -> list[Query]:
    """Videos whose searches end one after the other, and images; no two show the same."""
    frames = {"first": 20, "still": 1, "second": 20, "other": 1}
    shown = np.zeros((210, 420, 3), dtype=np.uint8)
    return [
        replace(
            query(name=name),
            media=(
                media.pixels(
                    [shown] * number, times=np.arange(number) / 2, is_video=number > 1, id=name
                ),
            ),
        )
        for name, number in frames.items()
    ]


def test_reasoning_is_swapped_between_queries_whatever_the_rounds_of_their_searches():
    made = model({}, backend=ablation(chat=Unequal({}), reasoning="swapped"))
    found = made.generate(of_unequal_rounds())
    assert [len(one.responses) for one in found] == [11, 1, 16, 1]
    thoughts = [one.responses[-1].text.partition("<think>")[2].partition("<")[0] for one in found]
    assert thoughts == ["still", "second", "other", "first"]


def test_images_are_swapped_between_queries_whatever_the_rounds_of_their_searches():
    made = model({}, backend=ablation(chat=Unequal({}), images="swapped"))
    made.generate(of_unequal_rounds())
    shown = {one.key: one.media[0].id for one in made.chat.chat.asked if ":" not in one.key}
    assert shown == {"first": "second", "second": "first", "still": "other", "other": "still"}


@dataclass(frozen=True)
class Expecting(Script):
    """Without a way of its own to converse; a call of `generate` for each turn."""

    expected: list[list[ChatRequest]] = field(default_factory=list)
    begun: list[list[ChatRequest]] = field(default_factory=list)

    def prepare_next(self, requests: Sequence[ChatRequest], *, go_on: bool = False) -> None:
        assert not go_on or isinstance(self, ConversingChat)
        self.expected.append([*requests])

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        self.begun.append([*requests])
        return super().generate(requests)


class Conversing(Expecting, ConversingChat):
    """With one, for which it expects other things."""

    def prepare_next(self, requests: Sequence[ChatRequest], *, go_on: bool = False) -> None:
        assert go_on == any(":" in one.key for one in requests)
        super().prepare_next(requests, go_on=go_on)

    def converse_as_completed(self, conversations: Any, *, go_on: bool = False) -> Any:
        scheduler = ConversationScheduler(conversations)
        while places := scheduler.pending_places():
            output = self.generate([scheduler.requests[place] for place in places])
            for place, response in zip(places, output, strict=True):
                scheduler.receive(place, response)
        yield from enumerate(scheduler.ends())


@pytest.mark.parametrize("frames", [(20, 1), (1, 1), (20, 30)])
@pytest.mark.parametrize("kind", [Expecting, Conversing])
@pytest.mark.parametrize("apart", [False, True])
def test_what_is_expected_is_what_a_network_is_asked_first(kind, apart, frames):
    says = {"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]}
    voters = {"sampler": kind(says)} if apart else {}
    made = model({}, backend=kind(says), votes=1, **voters)
    requested = [query(frames=number, name=f"{place}") for place, number in enumerate(frames)]
    made.prepare_next(requested)
    made.generate(requested)
    first = made.chat if frames == (1, 1) else made.voters
    assert first.expected == first.begun[:1]
    if apart:
        other = made.voters if frames == (1, 1) else made.chat
        assert not other.expected


@pytest.mark.usefixtures("short_votes")
@pytest.mark.parametrize("roll", [True, False])
def test_votes_and_images_that_are_begun_together_are_made_once(tiny_qwen, ask, monkeypatch, roll):
    """Fewer of them than rows, of unequal settings, and no two with one prompt."""
    made = []

    def noted(processor, chosen):
        made.extend((one.key, threading.current_thread().name) for one in chosen)
        return processor_inputs(processor, chosen)

    alone = in_process(
        tiny_qwen, votes=1, backend=Spec("transformers", {"continuous_batching": roll})
    )
    requested = [replace(ask(FORM.MASK_TRACK, frames=frames), id=f"{frames}") for frames in (9, 1)]
    alone.prepare()
    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", noted)
    alone.prepare_next(requested)
    alone.generate(requested)
    keys = [key for key, _ in made]
    assert len(keys) == len({*keys}), "each is made once"
    ahead = {key for key, thread in made if thread.startswith("expected")}
    assert ahead == ({"9:segment:0:0", "1"} if roll else {"1"})  # those of the lowest limit
