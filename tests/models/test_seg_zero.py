import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.errors import ParseError, UsageError
from harness.models.canvas import Canvas
from harness.models.grammar import Item
from harness.models.seg_zero import grammar
from harness.models.tracks import prompts_of
from harness.spec import parse
from harness.trainers.seg_zero.rewards import answer_format
from harness.types import AnswerForm, Box, FailureKind, Point

GOOD = {"bbox": [10, 20, 110, 120], "points_1": [30, 40], "points_2": [50, 60]}
ITEM = Item(Box(10, 20, 110, 120), Point(30, 40), second=Point(50, 60))


def said(value, think="so"):
    text = value if isinstance(value, str) else json.dumps(value)
    return f"<think>{think}</think><answer>{text}</answer>"


def test_the_request_is_the_official_one():
    assert grammar.build_prompt("The LEFT dog.") == (
        "Please find 'the left dog' with bbox and points."
        "Compare the difference between objects and find the most closely matched one."
        "Output the thinking process in <think> </think> and final answer in <answer> </answer> "
        "tags.Output the one bbox and points of two largest inscribed circles inside the "
        "interested object in JSON format.i.e., <think> thinking process here </think>"
        "<answer>{'bbox': [10,100,200,210], 'points_1': [30,110], 'points_2': [35,180]}</answer>"
    )
    assert "'what {answer}'" in grammar.build_prompt("What {Answer}")


@pytest.mark.parametrize(
    ("response", "noted"),
    [
        (said(GOOD), False),
        (said(str(GOOD)), True),
        (said({"Bbox_2d": GOOD["bbox"], "Points": [30, 40], "points_b": [50, 60]}), False),
        (said(GOOD, think="{1}"), False),
        (said(json.dumps(GOOD) + json.dumps({"bbox": 1})), True),
        (json.dumps(GOOD), False),
    ],
)
def test_the_first_braces_are_read(response, noted):
    result = grammar.parse(response)
    assert result.items == (ITEM,)
    assert bool(result.notes) == noted


@pytest.mark.parametrize(
    "response",
    [
        "",
        "{}",
        "{",
        said("{}"),
        said({"bbox": GOOD["bbox"]}),
        said({**GOOD, "bbox": [10, 20, 5, 30]}),
        said({**GOOD, "points_2": [1]}),
        said({**GOOD, "points_1": ["a", 2]}),
        said({"points_1": [1, 2], "points_2": [1, 2]}),
        "{" * 100_000,
        "{}" * 90_000,
        "{" + "a" * 150_000 + "}",
    ],
)
def test_a_malformed_response_is_an_error_and_never_raises(response):
    begin = time.perf_counter()
    result = grammar.parse(response)
    assert result.error and result.items == ()
    assert time.perf_counter() - begin < 2


@pytest.mark.parametrize(
    "response",
    [
        said(str(GOOD)),
        said(json.dumps(GOOD)[:-1] + ",}"),
        said({"Bbox_2d": GOOD["bbox"], "Points": [30, 40], "points_b": [50, 60]}),
        said({"bbox": GOOD["bbox"], "points_2": [50, 60], "points_3": [30, 40]}),
        said({"box": GOOD["bbox"], "points_1": [30, 40], "points_2": [50, 60]}),
        said({**GOOD, "points_2": [1]}),
        said({**GOOD, "bbox": "1234"}),
        said("{}"),
        "",
    ],
)
def test_what_the_strict_reward_refuses_is_refused_when_responses_are_read_strictly(response):
    assert answer_format(response, semantics="strict") == 0
    result = grammar.parse(response, semantics="strict")
    assert result.error and result.items == ()


@pytest.mark.parametrize("change", [{}, {"label": "dog"}, {"Points": [1, 2]}, {"a_bbox": [1]}])
def test_the_three_keys_are_read_strictly_whatever_stands_beside_them(change):
    for value in ({**GOOD, **change}, {**change, **GOOD}):
        assert answer_format(said(value), semantics="strict") == 1
        result = grammar.parse(said(value), semantics="strict")
        assert (result.items, result.notes) == ((ITEM,), ())


numbers = st.lists(st.integers(-9, 900) | st.none() | st.text(max_size=2), max_size=5)
keys = st.sampled_from(["bbox", "Bbox", "points_1", "points_2", "points_3", "point", "label"])


@given(st.dictionaries(keys, numbers | st.text(max_size=4) | st.integers(), max_size=6))
def test_what_is_read_strictly_is_what_the_strict_reward_gives_its_format_for(value):
    response = said(value)
    result = grammar.parse(response, semantics="strict")
    assert result.notes == ()
    if result.ok:
        assert answer_format(response, semantics="strict") == 1


def test_strict_reading_is_another_model_in_the_record_and_soft_reading_the_same_as_ever():
    soft, strict = (
        plugins.build("models", parse(f"seg_zero(backend=stored{given})")).describe()
        for given in ("", ",semantics=strict")
    )
    assert (soft["name"], soft["prompt"]) == ("seg_zero", "seg_zero")
    assert (strict["name"], strict["prompt"]) == ("seg_zero/strict", "seg_zero/strict")
    assert {key for key in soft if soft[key] != strict[key]} == {"name", "prompt"}
    with pytest.raises(UsageError, match="strict"):
        plugins.build("models", parse("seg_zero(backend=stored,semantics=kind)"))


def test_a_strict_model_fails_where_a_soft_one_repairs(ask):
    requested = ask(AnswerForm.BOXES)
    for semantics, failed in (("soft", False), ("strict", True)):
        model = plugins.build("models", parse(f"seg_zero(backend=stored,semantics={semantics})"))
        assert (model.read(requested, [said(str(GOOD))]).failure is not None) == failed
        assert model.read(requested, [said(GOOD)]).failure is None
        assert model.read(
            requested, model.write(requested, model.read(requested, [said(GOOD)]).answer)
        ).answer


@given(st.text())
def test_any_text_is_read_or_refused_without_raising(text):
    for response in (text, said(text), "{" + text + "}"):
        result = grammar.parse(response)
        assert result.ok != (result.error is not None)


whole = st.integers(0, 5000)


@given(whole, whole, st.integers(1, 99), whole, whole, st.none() | st.integers(0, 999))
def test_what_is_written_is_read_back(left, top, size, x, y, frame):
    item = Item(Box(left, top, left + size, top + size), Point(x, y), second=Point(y, x))
    result = grammar.parse(grammar.write([item], frame=frame))
    assert (result.items, result.frame, result.error) == ((item,), frame, None)


def test_several_parts_are_said_as_one_object():
    other = Item(Box(200, 5, 210, 15), Point(205, 10))
    (item,) = grammar.parse(grammar.write([ITEM, other])).items
    assert item == Item(Box(10, 5, 210, 120), Point(30, 40), second=Point(205, 10))
    (alone,) = grammar.parse(grammar.write([other])).items
    assert alone.point == alone.second == Point(205, 10)
    with pytest.raises(ParseError, match=r"^answer .*none"):
        grammar.write([])
    with pytest.raises(ParseError, match=r"^reasoning .*<answer>"):
        grammar.write([ITEM], think="<answer>")


def test_both_points_are_rescaled_and_reach_the_segmenter():
    moved = Canvas((840, 840), (420, 210)).to_image(ITEM)
    assert (moved.point, moved.second) == (Point(15, 10), Point(25, 15))
    (prompt,) = prompts_of([moved])
    assert prompt.positive == (Point(15, 10), Point(25, 15))


def test_a_response_becomes_a_mask(ask):
    model = plugins.build("models", parse("seg_zero(backend=stored,canvas=112,segmenter=grabcut)"))
    requested = ask(AnswerForm.MASK, size=(240, 180))
    (request,) = model.requests(requested)
    assert request.resize == (112, 112)
    disc = requested.media[0].frame(0)[:, :, 0] > 200
    rows, columns = (disc.any(axis=axis).nonzero()[0] for axis in (1, 0))
    box = Box(
        columns[0] / 240 * 112,
        rows[0] / 180 * 112,
        columns[-1] / 240 * 112 + 1,
        rows[-1] / 180 * 112 + 1,
    )
    response = grammar.write([Item(box, Item(box).place)])
    mask = model.read(requested, [response]).answer.masks[0].to_array()
    assert (mask & disc).sum() / (mask | disc).sum() > 0.75
    assert np.array_equal(model.read(requested, [response]).answer.masks[0].to_array(), mask)
    assert model.read(requested, ["no"]).failure.kind is FailureKind.PARSE
