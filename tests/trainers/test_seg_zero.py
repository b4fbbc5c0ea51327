"""Seg-Zero's reward: equal to the official functions, soft and strict."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import media, plugins
from harness.errors import ParseError
from harness.masks import Rle
from harness.spec import parse
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.seg_zero import rewards
from harness.trainers.seg_zero.rewards import SegZeroReward, TargetObject, circles, ground_truth
from harness.types import Answer, AnswerForm, Box, Point, Query, Sample, Target

MEANT = TargetObject(Box(100, 100, 300, 300), (Point(150, 150), Point(250, 250)))
GOOD = {"bbox": [100, 100, 300, 300], "points_1": [150, 150], "points_2": [250, 250]}


def bits(response, meant, semantics):
    given = {"semantics": semantics}
    return [
        rewards.thinking_format(response),
        rewards.answer_format(response, **given),
        *rewards.place_terms(response, meant, **given).values(),
    ]


def said(value):
    return f"<think>so</think><answer>{json.dumps(value)}</answer>"


def test_ten_thousand_responses_are_worth_what_the_official_functions_say(official_cases):
    for (_, _, response, (box, *points)), row in official_cases:
        target = TargetObject(Box(*box), (Point(*points[0]), Point(*points[1])))
        assert bits(response, target, "soft") == row[3:8], response
        assert bits(response, target, "strict") == row[8:13], response


@pytest.mark.parametrize(
    ("value", "soft", "strict"),
    [
        (GOOD, [1, 1, 1, 1], [1, 1, 1, 1]),
        (
            {"Bbox_2d": GOOD["bbox"], "Points_a": [150, 150], "points_b": [250, 250]},
            [1, 1, 1, 1],
            [0, 0, 0, 0],
        ),
        (
            {"bbox": GOOD["bbox"], "point_1": [150, 150], "point_2": [250, 250]},
            [1, 1, 1, 0],
            [0, 1, 1, 0],
        ),
        ({**GOOD, "points_1": [350, 150]}, [1, 1, 1, 0], [1, 1, 1, 0]),
        (
            {**GOOD, "points_1": GOOD["points_2"], "points_2": GOOD["points_1"]},
            [1, 1, 1, 1],
            [1, 1, 1, 1],
        ),
        ({**GOOD, "bbox": [110, 110, 310, 310]}, [1, 1, 0, 1], [1, 1, 0, 1]),
        ({**GOOD, "bbox": "abcd"}, [1, 0, 0, 0], [0, 0, 0, 0]),
        ({**GOOD, "points_1": "ab"}, [1, 1, 1, 0], [0, 1, 1, 0]),
    ],
)
def test_keys_and_values_are_taken_as_each_form_does(value, soft, strict):
    assert bits(said(value), MEANT, "soft")[1:] == soft
    assert bits(said(value), MEANT, "strict")[1:] == strict


def test_points_are_right_below_a_hundred_pixels_on_average():
    for moved, right in ((99, 1), (100, 0)):
        target = TargetObject(
            Box(0, 0, 800, 800), (Point(200 + moved, 200), Point(200, 400 + moved))
        )
        value = {"bbox": [0, 0, 800, 800], "points_1": [200, 200], "points_2": [200, 400]}
        assert rewards.place_terms(said(value), target)["points_l1"] == right


def test_ten_thousand_malformed_responses_never_raise(huge):
    draw = random.Random(3)
    pieces = [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "{",
        "}",
        '"bbox":',
        '"points_1":',
        '"points_2":',
        "[1, 2, 3, 4]",
        "[1, 2]",
        "1e400",
        "null",
        "NaN",
        ",",
        *huge,
    ]
    boxes = [said(GOOD).replace(" 300]", f" {one}]") for one in huge]
    for number in range(5_000):
        text = "".join(draw.choices(pieces, k=draw.randrange(8)))
        for response in (draw.choice(boxes) if number % 20 == 0 else text, said(text)):
            for semantics in ("soft", "strict"):
                assert all(bit in (0, 1) for bit in bits(response, MEANT, semantics))


@given(st.text(), st.sampled_from(["soft", "strict"]))
def test_any_text_has_a_reward(text, semantics):
    for response in (
        text,
        said(text),
        "{" + text + "}",
        json.dumps({"bbox": text, "points_1": text}),
    ):
        assert all(bit in (0, 1) for bit in bits(response, MEANT, semantics))


def sample(answer, size=(420, 210)):
    shown = media.pixels(
        [np.zeros((size[1], size[0], 3), dtype=np.uint8)], times=[0.0], is_video=False, id="x"
    )
    query = Query(id="q", text="?", media=(shown,), forms=(AnswerForm.MASK,))
    return Sample(id="s", query=query, target=Target(answer=answer))


def dumb_bell():
    columns, rows = np.meshgrid(range(420), range(210))
    left = (columns - 100) ** 2 + (rows - 100) ** 2 <= 30**2
    right = (columns - 300) ** 2 + (rows - 100) ** 2 <= 20**2
    return left | right | ((abs(rows - 100) <= 2) & (columns > 100) & (columns < 300))


def test_two_circles_are_found_where_the_object_is_thick():
    first, second = circles(dumb_bell())
    assert abs(first.x - 100) + abs(first.y - 100) <= 2
    assert abs(second.x - 300) + abs(second.y - 100) <= 2
    assert ground_truth(sample(Answer(masks=(Rle.from_array(dumb_bell()),)))).box == (
        140,
        280,
        640,
        520,
    )
    single = np.zeros((9, 9), dtype=bool)
    single[4, 4] = True
    assert circles(single) == (Point(4, 4), Point(4, 4))


def discs(*centres):
    columns, rows = np.meshgrid(range(420), range(210))
    return np.logical_or.reduce([(columns - x) ** 2 + (rows - y) ** 2 <= 20**2 for x, y in centres])


@pytest.mark.parametrize("mask", [discs((100, 100)), discs((100, 100), (300, 60))])
def test_a_perfect_response_is_worth_five(mask):
    one = sample(Answer(masks=(Rle.from_array(mask),)))
    for canvas in (840, 168):
        model = plugins.build("models", parse(f"seg_zero(backend=stored,canvas={canvas})"))
        (response,) = model.write(one.query, one.target.answer)
        group = Group(
            sample=one,
            rollouts=(Rollout(text=response, tokens=9),),
            count_tokens=len,
            canvas=(canvas, canvas),
        )
        for semantics in ("soft", "strict"):
            assert SegZeroReward(semantics)(group)[0]["total"] == 5


def test_points_of_the_ground_truth_win_and_nothing_meant_is_no_ground_truth():
    points = (Point(10, 20), Point(30, 40))
    marked = sample(Answer(boxes=(Box(0, 0, 60, 60),), points=points))
    assert ground_truth(marked).points == ((20, 80), (60, 160))
    with pytest.raises(ParseError, match=r"^sample s: .*object.*none"):
        ground_truth(sample(Answer(no_target=True)))
