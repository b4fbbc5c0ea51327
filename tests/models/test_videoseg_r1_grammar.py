"""VideoSeg-R1's references, grammar and requests."""

import base64
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from harness import plugins
from harness.errors import ParseError
from harness.models.backends.inputs import processor_inputs
from harness.models.backends.request_format import RequestFormat, RequestOptions
from harness.models.backends.shown_media import squashed
from harness.models.grammar import Item
from harness.models.videoseg_r1 import grammar
from harness.models.videoseg_r1.frame_display import seconds
from harness.models.videoseg_r1.negatives import with_negatives
from harness.models.videoseg_r1.references import choose_references, key_frames
from harness.models.videoseg_r1.sampler import KeyChoice, Segment
from harness.spec import parse as spec
from harness.types import Box, Point

from .videoseg_r1_script import GOOD, interval, model, query


def test_twelve_adaptive_references_are_four_global_and_eight_local():
    found = choose_references(100, Segment(40, 49), wanted=12, strategy="adaptive")
    assert found == (0, 27, 36, 37, 38, 39, 50, 51, 52, 53, 72, 99)


def test_at_the_edge_of_a_video_the_other_side_gives_more():
    found = choose_references(100, Segment(0, 9), wanted=6, strategy="local")
    assert found == (10, 11, 12, 13, 14, 15)
    assert choose_references(14, Segment(2, 9), wanted=12, strategy="local") == (
        0,
        1,
        10,
        11,
        12,
        13,
    )


def test_global_references_are_spread_over_what_lies_outside():
    assert choose_references(30, Segment(10, 19), wanted=4, strategy="global") == (0, 6, 23, 29)


@given(
    total=st.integers(1, 80),
    start=st.integers(0, 79),
    length=st.integers(1, 80),
    wanted=st.integers(0, 20),
    strategy=st.sampled_from(["global", "local", "adaptive"]),
)
def test_references_are_as_many_as_wanted_or_all_there_are(total, start, length, wanted, strategy):
    segment = Segment(min(start, total - 1), min(start + length - 1, total - 1))
    found = choose_references(total, segment, wanted=wanted, strategy=strategy)
    assert list(found) == sorted(set(found))
    assert len(found) == min(wanted, total - len(segment))
    assert not set(found) & set(segment.frames())


def test_key_frames_are_spread_and_leave_out_the_target():
    assert key_frames(Segment(10, 39), 10, limit=4) == (11, 20, 30, 39)
    assert key_frames(Segment(3, 3), 3, limit=8) == ()
    assert key_frames(Segment(3, 9), 5, limit=0) == ()


def test_a_response_is_read_with_both_points():
    output = grammar.parse(GOOD)
    assert output.items == (Item(Box(84, 84, 168, 420), Point(126, 252), Point(200, 252)),)
    assert (output.think, output.notes, output.error) == ("the red one", (), None)
    assert grammar.parse(GOOD, strict=True).items == output.items


def response_of(**entry: Any) -> str:
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
    output = grammar.parse(response_of(**entry))
    assert (output.items[0].point, output.items[0].negative) == (point, negative)
    assert any(note in one for one in output.notes)
    assert grammar.parse(response_of(**entry), strict=True).error


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
    assert grammar.parse(response_of(**entry)).error


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


def test_the_prompt_asks_for_the_grammar_that_is_read():
    requested = grammar.build_prompt("Where is the {Answer} dog?")
    assert "where is the {answer} dog" in requested
    example = f"<answer>{grammar.template('example_answer.txt')}</answer>"
    assert example in requested
    assert len(grammar.parse(example, strict=True).items) == 2
    assert "<think>" in requested and "<think>" not in grammar.build_prompt("x", think=False)


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


def test_the_reasoner_is_shown_target_references_and_key_frames():
    made = model({"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]})
    made.predict([query(frames=40)])
    chat = made.chat
    request = chat.asked[-1]
    refer = choose_references(40, Segment(10, 14), wanted=12, strategy="adaptive")
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
    (as_clips,) = clips.reasoner_requests(requested, KeyChoice(Segment(10, 14), 12))
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
