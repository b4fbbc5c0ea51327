"""VisionReasoner's reward: equal to the official functions, and never at a loss for a number."""

import json
import math
import random
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import media, plugins
from harness.errors import ParseError
from harness.masks import Rle
from harness.models.grammar import Item
from harness.models.response_writer import without_specks
from harness.models.visionreasoner import grammar, scoring
from harness.spec import parse
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.sft.examples import examples_of
from harness.trainers.visionreasoner import rewards
from harness.trainers.visionreasoner.objects import check, ground_truth, objects, target_objects
from harness.types import Answer, AnswerForm, Box, Point, Query, Sample, Target

P = {"bbox_2d": [0, 0, 99, 99], "point_2d": [50, 50]}


def items(plain):
    return [Item(Box(*one["bbox_2d"]), Point(*one["point_2d"])) for one in plain]


def said(objects, think="so"):
    return f"<think>{think}</think><answer>{json.dumps(objects)}</answer>"


def accuracy(objects, meant, **given):
    return scoring.accuracy(said(objects), items(meant), **given).total


def boxed(*box, point=(50, 50)):
    return {"bbox_2d": list(box), "point_2d": list(point)}


def test_ten_thousand_responses_are_worth_what_the_official_functions_say(official_cases):
    assert len(official_cases) >= 10_000
    ours = [
        (
            scoring.thinking_format(response) + scoring.answer_format(response),
            scoring.accuracy(response, items(target)).total,
            scoring.non_repeat(response),
        )
        for (response, target, *_), _ in official_cases
    ]
    official = [row[:3] for _, row in official_cases]
    np.testing.assert_allclose(ours, official, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("objects", "meant", "worth"),
    [
        ([P], [P], 3.0),
        ([P], [boxed(0, 0, 99, 49)], 1.0),
        ([boxed(0, 0, 99, 99, point=(110, 50))], [boxed(0, 0, 99, 99, point=(110, 50))], 2.0),
        ([P, P], [P], 1.5),
        ([P], [boxed(0, 0, 99, 139)], 2.0),
        ([P], [boxed(0, 0, 99, 138)], 3.0),
        ([], [], 0.0),
        ([], [P], 0.0),
        ([boxed(math.nan, 0, 99, 99)], [P], 1.0 - 1.0),
        ([boxed("0", 0, 99, 99)], [P], 0.0),
        ([boxed(99, 99, 0, 0, point=(500, 500))], [P], 0.0),
    ],
)
def test_the_published_cases_are_worth_what_the_official_code_gives(objects, meant, worth):
    assert accuracy(objects, meant) == worth


@pytest.mark.parametrize(
    ("response", "worth"),
    [
        (said([P]), 3.0),
        (said([P]) + "\n", 2.0),
        (said([]), 1.0),
        (said([P, {"bbox_2d": [1, 2, 3, 4]}]), 2.5),
        (said([P, 7]), 2.0),
        (said({"bbox_2d": [1, 2, 3, 4]}), 1.0),
        ("", 0.0),
    ],
)
def test_a_format_is_worth_what_the_official_code_gives(response, worth):
    assert scoring.thinking_format(response) + scoring.answer_format(response) == worth


@pytest.mark.parametrize(
    ("response", "worth"),
    [("a. a. b.", 1.0), ("a. a. a.", 0.0), ("a. a. b. b.", 0.0), ("", 1.0), ("....", 1.0)],
)
def test_one_repetition_is_free_and_two_are_not(response, worth):
    assert scoring.non_repeat(response) == worth


coordinates = st.integers(-50, 900)
boxes = st.tuples(*[coordinates] * 4).map(lambda four: boxed(*four, point=four[:2]))
several = st.lists(boxes, min_size=1, max_size=5)


@given(several, several, st.randoms(use_true_random=False))
def test_the_order_of_objects_changes_nothing(found, meant, random):
    shuffled = random.sample(found, len(found))
    assert accuracy(shuffled, meant) == pytest.approx(accuracy(found, meant))


@given(several, several)
def test_accuracy_is_a_mean_of_bits(found, meant):
    right = scoring.accuracy(said(found), items(meant))
    limit = max(len(found), len(meant))
    assert all(0 <= part <= 1 for part in right)
    assert right.total * limit == pytest.approx(round(right.total * limit))
    paper = scoring.accuracy(said(found), items(meant), semantics="paper")
    assert all(0 <= part <= 1 for part in paper)


def test_the_papers_wording_sums_differences_and_matches_each_bit_alone():
    moved = [boxed(4, 4, 103, 103, point=(54, 54))]
    assert accuracy(moved, [P]) == 3.0
    assert accuracy(moved, [P], semantics="paper") == 2.0
    outside = [boxed(0, 0, 99, 99, point=(110, 50))]
    near = [boxed(0, 0, 99, 99, point=(100, 50))]
    assert (accuracy(outside, near), accuracy(outside, near, semantics="paper")) == (2.0, 3.0)


@given(st.integers(1, 4))
def test_numbers_of_a_smaller_canvas_are_worth_what_they_are_in_the_full_frame(shrink):
    small = {key: [number / 10 for number in numbers] for key, numbers in P.items()}
    small = {key: [number / shrink for number in numbers] for key, numbers in small.items()}
    canvas = (round(84 / shrink, 6), round(84 / shrink, 6))
    assert accuracy([small], [P], canvas=canvas) == 3.0


MALFORMED = [
    "<answer>" + "[" * 50_000 + "</answer>",
    "<think>" * 30_000,
    "</think>" + " " * 100_000 + "<answer>",
    "<think></think>" * 10_000 + "</answer>",
    said([7], think=". " * 50_000),
    "<answer>" + "9" * 100_000 + "</answer>",
    "{" * 100_000,
    "\ud800<answer>\udfff</answer>",
    said([[P] * 3] * 3),
    said([{"bbox_2d": [[1, 2], 3, 4, 5], "point_2d": [1, 2]}]),
]


@pytest.mark.parametrize("response", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_response_costs_no_time_and_raises_nothing(response):
    begin = time.perf_counter()
    scoring.thinking_format(response)
    scoring.answer_format(response)
    scoring.non_repeat(response)
    assert scoring.accuracy(response, items([P])).total == 0
    assert time.perf_counter() - begin < 3


def test_ten_thousand_malformed_responses_never_raise(huge):
    draw = random.Random(3)
    pieces = [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "[{",
        "}]",
        '"bbox_2d":',
        "NaN",
        ",",
        '"point_2d":',
        "[1, 2, 3, 4]",
        "[1, 2]",
        "1e400",
        "null",
        "\ud800",
        ". a. a.",
        *huge,
    ]
    boxes = [said([P]).replace(" 99]", f" {one}]") for one in huge]
    for number in range(10_000):
        text = "".join(draw.choices(pieces, k=draw.randrange(8)))
        response = draw.choice(boxes) if number % 20 == 0 else text
        found = (
            scoring.thinking_format(response),
            scoring.answer_format(response),
            scoring.non_repeat(response),
            scoring.accuracy(response, items([P])).total,
        )
        assert all(math.isfinite(value) for value in found)


@given(st.text(), st.text())
def test_any_text_has_a_reward(one, other):
    for response in (one, f"<think>{one}</think><answer>{other}</answer>"):
        assert 0 <= scoring.thinking_format(response) + scoring.answer_format(response) <= 3
        assert scoring.accuracy(response, items([P])).total == 0


def sample(answer, *, form=AnswerForm.MASK, size=(420, 210), frames=1):
    shown = media.pixels(
        [np.zeros((size[1], size[0], 3), dtype=np.uint8)] * frames,
        times=list(range(frames)),
        is_video=frames > 1,
        id="x",
    )
    return Sample(
        id="s",
        query=Query(id="q", text="?", media=(shown,), forms=(form,)),
        target=Target(answer=answer),
    )


def disc(size, x, y, radius):
    columns, rows = np.meshgrid(range(size[0]), range(size[1]))
    return (columns - x) ** 2 + (rows - y) ** 2 <= radius**2


def group(one, *texts, canvas=(840, 840), frames=((0,),)):
    rollouts = tuple(Rollout(text=text, tokens=len(text)) for text in texts)
    return Group(sample=one, rollouts=rollouts, canvas=canvas, count_tokens=len, frames=frames)


def test_a_mask_is_one_object_a_part_and_scaled_to_the_frame():
    mask = disc((420, 210), 100, 100, 20) | disc((420, 210), 300, 60, 30)
    one = sample(Answer(masks=(Rle.from_array(mask),)))
    large, small = ground_truth(one)
    assert large == Item(Box(540, 120, 660, 360), Point(600, 240))
    assert small.place == Point(200, 400)


def test_instances_are_the_objects_to_find_and_to_teach():
    left, right = disc((420, 210), 100, 100, 20), disc((420, 210), 300, 60, 30)
    near = disc((420, 210), 130, 100, 20)  # touches the left one
    parted, beside = Rle.from_array(left | right), Rle.from_array(near)
    masks = (parted.union(beside),)
    model = plugins.build("models", parse("visionreasoner(backend=stored)"))

    def found(*instances):
        answer = Answer(masks=masks, instances=tuple((mask,) for mask in instances) or None)
        one = sample(answer)
        task = SimpleNamespace(name="t", split="train", samples=lambda: [one])
        (taught,) = (example.response for example in examples_of(model, [task]))
        assert len(grammar.parse(taught).items) == len(objects(one))
        (terms,) = rewards.VisionReasonerReward()(group(one, taught))
        assert terms["accuracy"] == 3
        return [item.box for item in objects(one)]

    assert found(masks[0]) == [Box(80, 30, 330, 120)]
    assert found(beside, parted) == [Box(80, 30, 330, 120), Box(110, 80, 150, 120)]
    assert found() == [Box(270, 30, 330, 90), Box(80, 80, 150, 120)]


def test_a_boxs_point_is_on_its_own_instance():
    large, small = np.zeros((210, 420), bool), np.zeros((210, 420), bool)
    large[:200, :200] = True
    small[90:200, 150:160] = True  # in front of the large one
    large[small] = False
    boxes = (Box(0, 0, 200, 200), Box(150, 90, 160, 200))
    both = Rle.from_array(large | small)
    answer = Answer(masks=(both,), boxes=boxes)
    known = replace(answer, instances=tuple((Rle.from_array(one),) for one in (large, small)))

    def on(given, mask):
        return [mask[round(item.place.y), round(item.place.x)] for item in objects(sample(given))]

    assert on(known, large) == [True, False] and on(known, small) == [False, True]
    assert on(answer, both.to_array()) == [True, True]
    assert objects(sample(answer))[0].point != objects(sample(known))[0].point
    one_more = replace(known, instances=(*(known.instances or ()), (Rle.empty(210, 420),)))
    assert objects(sample(one_more)) == objects(sample(answer)), "whose is whose is not known"
    nowhere = replace(known, instances=((Rle.empty(210, 420),),) * 2)
    assert objects(sample(nowhere))[1].place == Point(155, 145), "the middle of the box"


def test_a_stray_pixel_is_no_object_to_find_though_it_is_written():
    mask = disc((420, 210), 100, 100, 20) | disc((420, 210), 300, 60, 30)
    mask[200, 400] = True
    one = sample(Answer(masks=(Rle.from_array(mask),)))
    assert len(objects(one)) == 2
    model = plugins.build("models", parse("visionreasoner(backend=stored)"))
    (response,) = model.write(one.query, one.target.answer)
    assert len(grammar.parse(response).items) == 3
    task = SimpleNamespace(name="t", split="train", samples=lambda: [one])
    (taught,) = (found.response for found in examples_of(model, [task]))
    assert len(grammar.parse(taught).items) == 2


def test_small_things_are_objects_where_they_are_not_next_to_nothing():
    birds = np.zeros((210, 420), bool)
    for index in range(12):
        birds[10 * index : 10 * index + 2, 5 * index : 5 * index + 3] = True  # all of one size
    assert len(objects(sample(Answer(masks=(Rle.from_array(birds),))))) == 12
    large = np.zeros((210, 420), bool)
    large[:200, :200] = True
    large[205:209, 400:404] = True  # 16 pixels, and far below 1 %
    assert len(objects(sample(Answer(masks=(Rle.from_array(large),))))) == 2


@given(st.integers(0, 999), st.sampled_from([0.0, 0.01, 0.3, 0.6, 1.0]), st.booleans())
def test_a_mask_without_specks_is_nearly_the_mask(seed, share, blob):
    array = np.random.default_rng(seed).random((30, 40)) < share
    array[5:20, 5:20] |= blob
    mask = Rle.from_array(array)
    kept = without_specks(mask).to_array()
    assert not (kept & ~array).any()
    assert array.sum() - kept.sum() < max(0.01 * array.sum(), 1)
    assert kept.any() == array.any()


def test_boxes_of_the_ground_truth_win_over_parts_of_its_mask():
    mask = disc((420, 210), 100, 100, 20) | disc((420, 210), 130, 100, 20)
    boxes = (Box(80, 80, 121, 121), Box(110, 80, 151, 121))
    one = sample(Answer(masks=(Rle.from_array(mask),), boxes=boxes))
    assert [item.box for item in objects(one)] == list(boxes)
    for item in objects(one):
        x, y = map(round, item.place)
        assert mask[y, x]
    marked = replace(one.target.answer, points=(Point(1, 2), Point(3, 4)))
    assert [item.point for item in objects(sample(marked))] == [Point(1, 2), Point(3, 4)]


def test_nothing_meant_is_no_object_and_no_place_is_no_ground_truth():
    assert ground_truth(sample(Answer(no_target=True))) == []
    for answer in (Answer(text="a cat"), Answer(points=(Point(1, 2),)), Answer(count=3)):
        with pytest.raises(ParseError, match=r"sample s: .*masks .*boxes.*none"):
            check(sample(answer, form=AnswerForm.COUNT))
    check(sample(Answer(count=1, boxes=(Box(1, 2, 3, 4),)), form=AnswerForm.COUNT))


def test_a_perfect_response_is_worth_seven():
    mask = disc((420, 210), 100, 100, 20)
    one = sample(Answer(masks=(Rle.from_array(mask),)))
    model = plugins.build("models", parse("visionreasoner(backend=stored)"))
    (response,) = model.write(one.query, one.target.answer)
    (terms,) = rewards.VisionReasonerReward()(group(one, response))
    assert terms == {
        "thinking_format": 1,
        "answer_format": 2,
        "bboxes_iou": 1,
        "bboxes_l1": 1,
        "points_l1": 1,
        "accuracy": 3,
        "non_repeat": 1,
        "total": 7,
    }
    small = plugins.build("models", parse("visionreasoner(backend=stored,canvas=168)"))
    (response,) = small.write(one.query, one.target.answer)
    assert rewards.VisionReasonerReward()(group(one, response, canvas=(168, 168)))[0]["total"] == 7


def test_a_video_is_judged_in_the_frame_that_is_named_or_shown():
    masks = [Rle.from_array(disc((420, 210), 100 + 40 * step, 100, 20)) for step in range(4)]
    one = sample(Answer(masks=tuple(masks)), form=AnswerForm.MASK_TRACK, frames=4)
    reward = rewards.VisionReasonerReward()

    def right(text, frames):
        return reward(group(one, text, frames=frames))[0]["accuracy"]

    for frame in range(4):
        response = grammar.write(ground_truth(one, frame))
        assert right(f"<frame>{frame}</frame>{response}", ((0, 1, 2, 3),)) == 3
        assert right(response, ((frame,),)) == 3
        assert right(response, ((0, 1, 2, 3),)) == 0
        assert right(f"<frame>{(frame + 2) % 4}</frame>{response}", ((0, 1, 2, 3),)) == 0
    assert right(f"<frame>9</frame>{response}", ((0, 1, 2, 3),)) == 0


def test_what_is_meant_is_found_once_a_frame(monkeypatch):
    requested = []
    one = sample(Answer(boxes=(Box(0, 0, 9, 9),)), form=AnswerForm.BOXES)
    monkeypatch.setattr(
        "harness.trainers.visionreasoner.objects.ground_truth",
        lambda sample, frame: requested.append(frame) or [],
    )
    target = target_objects(one)
    assert target(0) is target(0)
    assert requested == [0]


@given(several, several)
def test_the_rollouts_of_a_group_are_judged_alone(first, second):
    one = sample(Answer(boxes=(Box(0, 0, 50, 50),)), form=AnswerForm.BOXES)
    reward = rewards.VisionReasonerReward()
    both = reward(group(one, said(first), said(second)))
    assert both == [*reward(group(one, said(first))), *reward(group(one, said(second)))]
    assert all(0 <= terms["total"] <= 7 for terms in both)
