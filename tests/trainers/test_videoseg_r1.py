"""VideoSeg-R1's reward, budgets, difficulties and draws."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import DataError, ParseError, StoreError, UsageError
from harness.masks import Rle
from harness.models.videoseg_r1.drawing import Drawing, visible
from harness.run.batching import samples_of
from harness.spec import Spec, parse
from harness.trainer import TrainingRun
from harness.trainers import session
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.sample_checks import SkippedSample
from harness.trainers.sft.examples import examples_of
from harness.trainers.videoseg_r1 import difficulty, rewards
from harness.trainers.videoseg_r1.budgets import Budgets, budgets_of, length_factor
from harness.trainers.videoseg_r1.descriptions import (
    count_words,
    textual_description,
    visual_description,
)
from harness.trainers.videoseg_r1.difficulty import (
    ChatRater,
    GeometricRater,
    await_ratings,
    geometric_rating,
    rate_samples,
)
from harness.trainers.videoseg_r1.ratings import read_rating, read_ratings
from harness.trainers.videoseg_r1.samples import TrainingRequests, check_sample, key_of, of_set
from harness.trainers.videoseg_r1.trainer import as_videoseg, rater_of, videoseg_r1
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target

BOX = {"bbox_2d": [100, 200, 300, 400], "point_pos": [200, 300, 1], "point_neg": [320, 300, 0]}


def square(left=100, top=200, right=300, bottom=400, size=(840, 840)):
    mask = np.zeros((size[1], size[0]), dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def sample(
    *masks: Any, name="s", text="the red square", form=AnswerForm.MASK_TRACK, size=(840, 840)
):
    frames = max(1, len(masks))
    grey = [np.full((size[1], size[0], 3), index, np.uint8) for index in range(frames)]
    shown = media.pixels(grey, times=range(frames), is_video=frames > 1, id=name)
    answer = (
        Answer(masks=tuple(Rle.from_array(mask) for mask in masks))
        if masks
        else Answer(boxes=(Box(100, 200, 300, 400),))
    )
    query = Query(id=name, text=text, media=(shown,), forms=(form,))
    return Sample(id=name, query=query, target=Target(answer=answer))


ONE = sample(square())


def said(*objects: Any, think="it is there", answer: str | None = None) -> str:
    text = json.dumps(list(objects)) if answer is None else answer
    return f"<think>{think}</think><answer>{text}</answer>"


def group(*texts: str, of=ONE, canvas=(840, 840), frames=((0,),)) -> Group:
    return Group(
        sample=of,
        rollouts=tuple(Rollout(text=text, tokens=9) for text in texts),
        canvas=canvas,
        count_tokens=lambda text: len(text.split()),
        frames=frames,
    )


def terms(text: str, reward: Any = None, **given: Any) -> dict[str, float]:
    return dict((reward or rewards.VideoSegR1Reward())(group(text, **given))[0])


def without(*names: str) -> dict[str, Any]:
    return {key: value for key, value in BOX.items() if key not in names}


# the reward of a right answer


def test_a_right_answer_is_worth_eight():
    found = terms(said(BOX))
    assert found["thinking_format"] == 1
    assert found["answer_format"] == pytest.approx(2)
    assert found["accuracy"] == 3
    assert found["negative_points"] == 1
    assert found["non_repeat"] == 1
    assert found["total"] == pytest.approx(8)


def test_the_canvas_of_a_smaller_network_is_worth_the_same():
    small = {
        "bbox_2d": [20, 40, 60, 80],
        "point_pos": [40, 60, 1],
        "point_neg": [64, 60, 0],
    }
    assert terms(said(small), canvas=(168, 168))["total"] == pytest.approx(8)


def test_objects_are_matched_one_to_one_in_any_order():
    masks = square() | square(500, 500, 600, 600)
    two = {"bbox_2d": [500, 500, 600, 600], "point_pos": [550, 550, 1], "point_neg": [610, 550, 0]}
    of = sample(masks)
    assert terms(said(BOX, two), of=of)["accuracy"] == 3
    assert terms(said(two, BOX), of=of)["accuracy"] == 3
    assert terms(said(two), of=of)["accuracy"] == 1.5
    assert terms(said(two, two, BOX), of=of)["accuracy"] == 2


def test_as_many_objects_are_meant_as_a_frame_shows_instances_of():
    two = {"bbox_2d": [500, 500, 600, 600], "point_pos": [550, 550, 1], "point_neg": [610, 550, 0]}
    around = {**BOX, "bbox_2d": [100, 200, 600, 600]}
    parted = Rle.from_array(square() | square(500, 500, 600, 600))
    here, gone = Rle.from_array(square()), Rle.empty(840, 840)
    of = sample(square() | square(500, 500, 600, 600), square())

    def accuracy(*objects, instances, frame=0):
        answer = replace(of.target.answer, instances=instances)
        requested = replace(of, target=Target(answer=answer))
        return terms(said(*objects), of=requested, frames=((frame,),))["accuracy"]

    one = ((parted, here),)
    assert accuracy(around, instances=one) == 3
    assert accuracy(BOX, two, instances=one) < 1.5
    apart = ((here, here), (Rle.from_array(square(500, 500, 600, 600)), gone))
    assert accuracy(BOX, two, instances=apart) == 3
    assert accuracy(BOX, instances=apart) == 1.5
    assert accuracy(BOX, instances=apart, frame=1) == 3, "the other is not to be seen there"


def test_the_central_point_must_be_near_and_in_its_own_box():
    assert terms(said({**BOX, "point_pos": [228, 300, 1]}))["points_l1"] == 1
    assert terms(said({**BOX, "point_pos": [240, 300, 1]}))["points_l1"] == 0
    assert terms(said({**BOX, "bbox_2d": [205, 200, 405, 400]}))["points_l1"] == 0


# the format


@pytest.mark.parametrize(
    ("entry", "credit"),
    [
        (BOX, 3),
        (without("point_neg"), 2),
        (without("point_pos", "point_neg"), 1),
        ({}, 0),
        ({**BOX, "point_neg": [1, 2]}, 2),
        ({**BOX, "point_neg": [1, 2, 1]}, 2),
        ({**BOX, "point_pos": [1, 2, 0]}, 2),
        ({**BOX, "point_pos": [1, 2, True]}, 2),
        ({**BOX, "bbox_2d": [1, 2, 3]}, 2),
        ("text", 0),
        (None, 0),
    ],
)
def test_the_answers_format_is_rescaled_from_three_to_two(entry, credit):
    assert rewards.answer_format(said(entry)) == pytest.approx(credit * 2 / 3)


def test_the_answers_format_is_a_mean_over_objects():
    assert rewards.answer_format(said(BOX, {})) == pytest.approx(1)
    assert rewards.answer_format(said()) == 0
    assert rewards.answer_format(said(answer='{"bbox_2d": [1,2,3,4]}')) == 0


def test_a_missing_negative_point_costs_format_alone():
    found = terms(said(without("point_neg")))
    assert (found["accuracy"], found["negative_points"]) == (3, 0)
    assert found["answer_format"] == pytest.approx(4 / 3)


def test_one_wrong_object_makes_the_accuracy_nothing():
    assert terms(said(BOX, without("point_pos")))["accuracy"] == 0
    assert terms(said(BOX, "x"))["accuracy"] == 0
    assert terms(said({**BOX, "bbox_2d": [float("nan"), 1, 2, 3]}))["accuracy"] == 0


def test_without_reasoning_its_form_is_not_paid_for():
    plain = f"<answer>{json.dumps([BOX])}</answer>"
    direct = rewards.VideoSegR1Reward(think=False)
    assert terms(plain)["thinking_format"] == 0
    assert terms(plain, direct)["total"] == pytest.approx(7)
    assert terms(said(BOX), direct)["thinking_format"] == 0


# negative points


@pytest.mark.parametrize(
    ("point", "worth"),
    [((299, 300), 0), ((300, 300), 1), ((339, 300), 1), ((340, 300), 0), ((200, 300), 0)],
)
def test_a_negative_point_counts_from_one_to_forty_pixels(point, worth):
    # The last column of the mask is 299: distances 0, 1, 40 and 41.
    assert terms(said({**BOX, "point_neg": [*point, 0]}))["negative_points"] == worth


def test_the_distance_is_to_the_union_of_all_objects():
    masks = square() | square(330, 200, 400, 400)
    of = sample(masks)
    assert terms(said({**BOX, "point_neg": [315, 300, 0]}), of=of)["negative_points"] == 1
    assert terms(said({**BOX, "point_neg": [335, 300, 0]}), of=of)["negative_points"] == 0


def test_negative_points_share_their_reward():
    far = {**BOX, "point_neg": [800, 800, 0]}
    unreadable = {**BOX, "point_neg": "x"}
    assert terms(said(BOX, far))["negative_points"] == 0.5
    assert terms(said(BOX, far, unreadable, BOX))["negative_points"] == 0.5
    assert terms(said(BOX, without("point_neg")))["negative_points"] == 1


def test_a_point_outside_the_image_is_no_negative_point():
    of = sample(square(0, 0, 840, 400))
    assert terms(said({**BOX, "point_neg": [420, 410, 0]}), of=of)["negative_points"] == 1
    assert terms(said({**BOX, "point_neg": [-5, 300, 0]}), of=of)["negative_points"] == 0


def test_boxes_stand_for_masks_that_are_not_there():
    of = sample(form=AnswerForm.BOXES)
    assert terms(said(BOX), of=of)["negative_points"] == 1
    assert terms(said({**BOX, "point_neg": [250, 300, 0]}), of=of)["negative_points"] == 0


def test_the_switch_leaves_negative_points_out():
    assert terms(said(BOX), rewards.VideoSegR1Reward(negative_points=False))[
        "total"
    ] == pytest.approx(7)


def test_nothing_meant_is_near_nothing():
    assert rewards.distances(np.zeros((9, 9), bool)) is None
    assert rewards.negative_points(np.array([[1.0, 1.0]]), 1, None) == 0


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_the_taxicab_distance_is_what_brute_force_says(seed):
    draw = np.random.default_rng(seed)
    mask = np.zeros((840, 840), dtype=bool)
    for _ in range(3):
        left, top = draw.integers(0, 800, size=2)
        mask[top : top + draw.integers(1, 60), left : left + draw.integers(1, 60)] = True
    rows, columns = np.nonzero(mask)
    far = rewards.distances(mask)
    for x, y in draw.integers(0, 840, size=(20, 2)):
        assert far[y, x] == np.min(np.abs(columns - x) + np.abs(rows - y))


def test_an_object_between_the_frames_pixels_is_not_lost():
    mask = np.zeros((3000, 3000), dtype=bool)
    mask[1501, 1501] = True
    far = rewards.distances(mask)
    assert (far == 0).sum() >= 1 and far[420, 420] <= 2


# difficulty and budgets


def test_edges_of_levels_belong_to_the_easier_one():
    budgets = Budgets()
    assert [budgets.budget(score) for score in (3.0, 3.0001, 6.0, 6.0001)] == [96, 176, 176, 256]


def test_the_soft_penalty_costs_a_fifth_for_a_hundred_tokens():
    assert length_factor(196, 96) == pytest.approx(0.8)
    assert length_factor(96, 96) == length_factor(0, 96) == 1
    assert length_factor(696, 96, clipped=False) == pytest.approx(-0.2)
    assert length_factor(696, 96) == 0


@given(st.integers(0, 3000), st.integers(0, 300))
def test_more_reasoning_is_never_worth_more(used, budget):
    assert length_factor(used + 1, budget) <= length_factor(used, budget)
    assert 0 <= length_factor(used, budget) <= 1


@pytest.mark.parametrize(("penalty", "total"), [("clipped", 0), ("literal", 8 * -0.2), ("none", 8)])
def test_the_penalty_multiplies_the_whole_reward(penalty, total):
    response = said(BOX, think=" ".join(f"word{index}" for index in range(696)))
    easy = rewards.VideoSegR1Reward(length_penalty=penalty, scores={key_of(ONE): 1.0})
    found = terms(response, easy)
    assert (found["used"], found["budget"], found["over_budget"]) == (696, 96, 600)
    assert found["total"] == pytest.approx(total)


def test_each_sample_has_the_budget_of_its_difficulty():
    for score, budget in ((2, 96), (5, 176), (9, 256)):
        reward = rewards.VideoSegR1Reward(scores={key_of(ONE): score})
        assert terms(said(BOX), reward)["budget"] == budget
    assert terms(said(BOX))["budget"] == 176  # medium, where nothing is known


def test_leaving_the_tags_out_does_not_make_reasoning_shorter():
    assert rewards.reasoning_text("one two three <answer>[]</answer>") == "one two three"
    assert rewards.reasoning_text("<think>one two <answer>[]</answer>") == "<think>one two"
    assert rewards.reasoning_text("<think> one </think> two <answer>[]</answer>") == "one"


def test_the_histogram_is_the_papers_table():
    scores = [("mevis", 2.0), ("mevis", 5), ("mevis", 7), ("ref_davis17", 3)]
    assert Budgets().histogram(scores) == {
        "mevis": {"easy": 1, "medium": 1, "hard": 1, "total": 3},
        "ref_davis17": {"easy": 1, "medium": 0, "hard": 0, "total": 1},
        "all": {"easy": 2, "medium": 1, "hard": 1, "total": 4},
    }
    assert Budgets().histogram([]) == {}


@pytest.mark.parametrize(
    ("tokens", "thresholds", "levels"),
    [("96+216", "3", (96, 216, 216, 216)), ("96+149+203+256", "3+4.5+6", (96, 149, 203, 256))],
)
def test_other_numbers_of_levels(tokens, thresholds, levels):
    budgets = budgets_of(tokens, thresholds)
    assert tuple(map(budgets.budget, (1, 3.1, 5, 7))) == levels


@pytest.mark.parametrize(
    ("tokens", "thresholds"),
    [("96", ""), ("96+176", "3+6"), ("96+x", "3"), ("96+176+256", "6+3"), ("1+2+3", "3+3")],
)
def test_budgets_that_do_not_fit_are_refused(tokens, thresholds):
    with pytest.raises(UsageError):
        budgets_of(tokens, thresholds)


# responses of every kind


def random_responses(count: int, more: Sequence[str] = ()) -> list[str]:
    pieces = [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "[{",
        "}]",
        '"bbox_2d":',
        ",",
        "null",
        "{",
        "[100,200,300,400]",
        '"point_pos":',
        "[200,300,1]",
        '"point_neg":',
        "[310,300,0]",
        "NaN",
        "1e999",
        "[true,false,1]",
        "-1e308",
        "<frame>3</frame>",
        "a. a. a.",
        "\ud800",
        "\x00",
        "[" * 80,
        '"x"',
        "9" * 80,
        *more,
    ]
    good = said(BOX)
    draw = np.random.default_rng(0)
    made = []
    for index in range(count):
        if index % 2:
            chosen = draw.integers(0, len(pieces), size=int(draw.integers(0, 14)))
            made.append("".join(pieces[place] for place in chosen))
        else:
            text = list(good)
            for _ in range(int(draw.integers(1, 4))):
                place = int(draw.integers(0, len(text)))
                piece = pieces[int(draw.integers(0, len(pieces)))]
                text[place : place + int(draw.integers(0, 9))] = piece
            made.append("".join(text))
    return made


def test_ten_thousand_malformed_responses_are_worth_a_number_and_none_raises(huge):
    responses = random_responses(10_000, [*huge, *(f"[1, 2, {one}]" for one in huge)])
    found = rewards.VideoSegR1Reward()(group(*responses))
    assert len(found) == 10_000
    totals = [one["total"] for one in found]
    assert all(np.isfinite(list(one.values())).all() for one in found)
    assert min(totals) >= 0 and max(totals) <= 8 + 1e-9
    assert len(set(totals)) > 10


def test_the_target_is_the_frame_that_was_shown_first():
    masks = (square(), square(500, 500, 700, 700))
    moved = {
        "bbox_2d": [500, 500, 700, 700],
        "point_pos": [600, 600, 1],
        "point_neg": [710, 600, 0],
    }
    of = sample(*masks)
    for frames, right in ((((0,), (1,)), BOX), (((1,), (0,)), moved)):
        for objects in (BOX, moved):
            found = terms(said(objects), of=of, frames=frames)
            worth = (3, 1) if objects is right else (0, 0)
            assert (found["accuracy"], found["negative_points"]) == worth


def test_no_rollout_changes_what_another_is_worth():
    texts = [said(BOX), "nonsense", said(without("point_neg"))]
    together = rewards.VideoSegR1Reward()(group(*texts))
    assert [dict(one) for one in together] == [terms(text) for text in texts]


# draws


def track(frames: int, *, seen: Sequence[int], side: int = 42) -> Sample:
    size, first, last = (side, side), side * 5 // 42, side * 20 // 42
    shown = square(first, first, last, last, size)
    return sample(*(shown & (index in seen) for index in range(frames)), size=size)


def drawn(of: Sample, *, seed: int) -> Any:
    return Drawing(seed=seed).draw(of.query, of.target.answer)


@given(st.integers(2, 60), st.integers(0, 5), st.data())
@settings(max_examples=60, deadline=None)
def test_a_draw_shows_the_object_and_stays_in_the_video(frames, seed, data):
    seen = data.draw(st.lists(st.integers(0, frames - 1), min_size=1, unique=True))
    of = track(frames, seen=seen)
    place, beside = drawn(of, seed=seed)
    assert place.target in seen
    segment = place.segment
    assert 0 <= segment.start <= place.target <= segment.end < frames
    assert len(segment) <= max(1, int(0.3 * frames))
    assert len(set(beside)) == len(beside) <= 12
    assert len(beside) >= min(8, frames - len(segment))
    assert not set(beside) & set(segment.frames())


def test_a_sample_is_drawn_the_same_each_time_and_by_its_seed():
    of = track(50, seen=range(50))
    draws = [drawn(of, seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert len({str(draw) for draw in draws}) == 4
    others = [drawn(replace(of, query=replace(of.query, id=name)), seed=0) for name in "abc"]
    assert len({str(draw) for draw in others}) == 3


def test_every_frame_with_the_object_can_be_the_target():
    of = track(6, seen=(1, 4))
    targets = {drawn(of, seed=seed)[0].target for seed in range(30)}
    assert targets == {1, 4} == set(visible(of.query, of.target.answer))


def test_a_sample_without_a_visible_object_cannot_be_used():
    with pytest.raises(DataError):
        check_sample(track(4, seen=()))
    with pytest.raises(ParseError):
        drawn(track(4, seen=()), seed=0)
    with pytest.raises(ParseError):
        check_sample(replace(ONE, target=Target(answer=Answer(text="x"))))
    check_sample(track(4, seen=(3,)))


def test_what_nothing_is_meant_by_may_be_looked_at_anywhere():
    nothing = track(4, seen=())
    answer = replace(nothing.target.answer, no_target=True)
    assert visible(nothing.query, answer) == [0, 1, 2, 3]


def test_references_out_of_order_are_refused():
    with pytest.raises(UsageError):
        Drawing(seed=0, min_references=9, max_references=8)


def test_a_model_of_another_kind_is_asked_in_this_methods_way():
    given = plugins.build("models", "qwen_vl", backend=plugins.build("backends", "stored"))
    made = as_videoseg(given, think=False)
    of = track(40, seen=(30,))
    place, beside = drawn(of, seed=7)
    request = TrainingRequests(drawing=Drawing(seed=7))(made, of)
    count = 1 + len(beside)
    assert request.frames[:count] == ((30,), *((frame,) for frame in beside))
    keys = {frame for (frame,) in request.frames[count:]}
    assert keys and keys <= set(place.segment.frames()) - {30}
    assert (request.resize, request.resize_others) == ((840, 840), (280, 280))
    assert "point_neg" in request.text and "<think>" not in request.text
    assert as_videoseg(made, think=True).prompt.think
    still = TrainingRequests(drawing=Drawing(seed=7))(made, ONE)
    assert still.frames == ((0,),)


# supervised fine-tuning


@pytest.fixture
def mevis(examples):
    return plugins.build("tasks", "mevis", examples)


def supervised(task, seed, settings="reference_frames=6,key_frames=3"):
    spec = parse(f"videoseg_r1(backend=stored(coordinates=pixels),segmenter=box,{settings})")
    model = plugins.build("models", spec)
    return model, list(examples_of(model, [task], seed=seed))


@pytest.mark.parametrize("seed", [0, 3])
def test_supervised_training_asks_what_reinforcement_learning_asks(mevis, seed):
    several = list(samples_of(mevis))  # once: a video that is read again is another object
    model, made = supervised(replace(mevis, samples=lambda: several), seed)
    ask = TrainingRequests(drawing=Drawing(seed=seed))
    assert [one.request for one in made] == [ask(model, one) for one in several]
    assert all(len(one.request.frames) > 1 for one in made)  # frames beside the target


def test_a_supervised_response_is_about_the_frame_that_is_asked_about(mevis):
    several = [*samples_of(mevis), track(9, seen=(1,), side=420)]  # not in the middle frame
    task = replace(mevis, samples=lambda: several)
    for seed in range(5):
        for one, of in zip(supervised(task, seed)[1], several, strict=True):
            (target,) = one.request.frames[0]
            assert of.target.answer.masks[target].area and "<frame>" not in one.response
            reward = terms(one.response, of=of, canvas=(840, 840), frames=one.request.frames)
            assert reward["accuracy"] > 2.9 and reward["answer_format"] == 2


def test_supervised_questions_about_images_and_in_words_are_evaluations_own(mevis):
    model = supervised(mevis, 0)[0]
    film = next(samples_of(mevis))
    words = replace(
        film,
        query=replace(film.query, forms=(AnswerForm.TEXT,)),
        target=Target(answer=Answer(text="yes")),
    )
    for of in (replace(ONE, query=replace(ONE.query, forms=(AnswerForm.MASK,))), words):
        (made,) = examples_of(model, [replace(mevis, samples=lambda of=of: [of])], seed=1)
        assert (made.request,) == model.requests(of.query)
        assert (made.response,) == model.write(of.query, of.target.answer)


def test_a_video_in_which_nothing_shows_is_not_taught(mevis):
    task = replace(mevis, samples=lambda: [track(4, seen=())])
    (left_out,) = supervised(task, 0)[1]
    assert (
        isinstance(left_out, SkippedSample) and "a frame that shows the target" in left_out.detail
    )


# difficulty


@dataclass
class Rates(Chat):
    """A network that rates, and may stop in the middle."""

    says: Sequence[str]
    stops_after: int | None = None
    asked: list[ChatRequest] = field(default_factory=list)
    batch_size: int = 2

    coordinates = "pixels"

    def describe(self):
        return {"backend": "rates"}

    def canvas(self, request):
        return request.resize or request.media[0].size

    def count_tokens(self, text):
        return len(text.split())

    def generate(self, requests):
        if self.stops_after is not None and len(self.asked) >= self.stops_after:
            raise KeyboardInterrupt
        output = [ChatResponse(text=self.says[len(self.asked) + i]) for i in range(len(requests))]
        self.asked.extend(requests)
        return output


GOOD = '{"scene": 4, "segmentation": 6, "temporal": 5, "motion": 3, "language": 7}'
SAMPLES = [sample(square(size=(840, 840)), name=f"s{index}") for index in range(5)]


def test_ratings_are_read_from_what_a_network_says():
    assert read_rating(f"Sure: {GOOD}.").score == 5
    assert read_rating(f"e.g. {GOOD} but {GOOD.replace('4', '9')}").scene == 9
    assert read_rating(GOOD.replace('"', "'")).score == 5
    assert read_rating("```json\n" + GOOD + "\n``` }").score == 5
    for wrong in (
        "",
        "{",
        "}{",
        GOOD.replace("4", "11"),
        GOOD.replace("4", "0"),
        "{" * 99_999,
        '{"scene": 4}',
        GOOD.replace("4", "true"),
        "[1,2,3,4,5]",
        "}" * 99_999,
        "{}" * 9_999,
    ):
        assert read_rating(wrong) is None


def first(sample):
    """Every image's frame."""
    return 0


def test_a_killed_rating_goes_on_where_it_was(tmp_path):
    file = tmp_path / "ratings.jsonl"
    killed = Rates([GOOD] * 5, stops_after=2)
    with pytest.raises(KeyboardInterrupt):
        rate_samples(SAMPLES, ChatRater(chat=killed), file, first)
    with file.open("a") as out:
        out.write('{"sample": "cut off')
    second = Rates([GOOD.replace("4", "9")] * 5)
    info = []
    scores = rate_samples(
        SAMPLES, ChatRater(chat=second), file, first, tell=lambda *numbers: info.append(numbers)
    )
    assert [scores[key_of(one)] for one in SAMPLES] == [5, 5, 6, 6, 6]
    assert [request.key for request in second.asked] == [
        f"{key_of(one)}:difficulty" for one in SAMPLES[2:]
    ]
    assert info == [(4, 5), (5, 5)]
    assert rate_samples(SAMPLES, ChatRater(chat=Rates([])), file, first) == scores
    assert rate_samples(SAMPLES[:2], None, file, first) == {key_of(one): 5 for one in SAMPLES[:2]}


def test_a_response_that_is_none_makes_a_sample_medium_and_is_not_asked_for_again(tmp_path):
    file = tmp_path / "ratings.jsonl"
    scores = rate_samples(SAMPLES[:1], ChatRater(chat=Rates(["I cannot \ud800"])), file, first)
    assert [Budgets().budget(score) for score in scores.values()] == [176]
    assert rate_samples(SAMPLES[:1], ChatRater(chat=Rates([])), file, first) == scores


def test_other_processes_wait_for_the_file_and_not_for_each_other(tmp_path, monkeypatch):
    def connected():
        raise AssertionError("processes are connected before everything is rated")

    monkeypatch.setattr(session, "processes", connected)
    looks = iter([[], SAMPLES[:2], SAMPLES])
    file = tmp_path / "difficulty.jsonl"

    def slept(seconds):
        rate_samples(next(looks), GeometricRater(), file, first)

    monkeypatch.setattr(difficulty, "sleep", slept)
    made = videoseg_r1(scorer=parse("measured"))
    helper = made._scores(TrainingRun(out=tmp_path, main=False), SAMPLES, first)
    assert next(looks, None) is None
    assert helper == made._scores(TrainingRun(out=tmp_path), SAMPLES, first)
    assert set(helper) == {key_of(one) for one in SAMPLES}


def test_a_file_that_nobody_writes_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(difficulty, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(difficulty, "POLL_SECONDS", 0.01)
    with pytest.raises(StoreError, match=r"difficulty\.jsonl: .* 0 s, .*\b5 "):
        await_ratings([key_of(one) for one in SAMPLES], "measured", tmp_path / "difficulty.jsonl")


def of_mixture(whole: str, name: str, text="the red square") -> Sample:
    return replace(sample(square(), name=f"{whole}/{name}", text=text), categories={"set": whole})


def test_an_expression_is_rated_once_wherever_it_comes_from(mevis, tmp_path):
    """Again in a mixture (`#2`), and alone in its own set, whose ids do not name it."""
    mixture = [of_mixture("mevis", "a/0"), of_mixture("mevis", "a/0#2"), of_mixture("mevis", "a/1")]
    network = Rates([GOOD] * 3)
    file = tmp_path / "difficulty.jsonl"
    scores = rate_samples(mixture, ChatRater(chat=network), file, first)
    assert len(network.asked) == len(scores) == 2
    alone = of_set(replace(mevis, samples=lambda: [sample(square(), name="a/1")]))
    (one,) = alone.samples()
    assert rate_samples([one], None, file, first) == {key_of(mixture[2]): 5}


def test_what_may_be_another_expression_has_another_key():
    several = [
        of_mixture("mevis", "a/0"),
        of_mixture("ref_davis17", "a/0"),
        of_mixture("mevis", "a/1"),
        of_mixture("mevis", "a/0", text="the dog"),
        sample(square(), name="a/0"),
        sample(square(), name="a/0#2"),
    ]
    assert len({key_of(one) for one in several}) == len(several)


def test_the_table_has_a_row_for_each_set_of_a_mixture(mevis, tmp_path, monkeypatch):
    """And each sample has the budget of its rating, the one that comes again included."""
    mixture = [
        of_mixture("mevis", "a/0"),
        of_mixture("ref_davis17", "b/0"),
        of_mixture("ref_davis17", "b/0#2"),
    ]
    requested = {}

    def trains(trainer, run):
        budgets = trainer.reward.levels
        for one in (one for task in run.tasks for one in samples_of(task)):
            frame = trainer.request.frame(one)
            requested[one.id] = budgets.budget(trainer.reward.scores[key_of(one, frame)])
        return {}

    monkeypatch.setattr(GrpoTrainer, "train", trains)
    monkeypatch.setattr(GrpoTrainer, "check", lambda trainer, run: None)
    task = replace(mevis, name="videoseg_r1_15k", samples=lambda: mixture)
    made = videoseg_r1(scorer=parse("measured"))
    facts = made.train(TrainingRun(out=tmp_path, tasks=(task, mevis)))
    rows = {name: row["total"] for name, row in facts["difficulty"].items()}
    own = len(list(samples_of(mevis)))
    assert rows == {"mevis": 1 + own, "ref_davis17": 2, "all": 3 + own}
    assert facts["rated"] == 2 + own
    assert {"mevis/a/0", "ref_davis17/b/0#2"} < set(requested)


def test_ratings_of_another_network_do_not_count(tmp_path):
    file = tmp_path / "ratings.jsonl"
    rate_samples(SAMPLES[:1], ChatRater(chat=Rates([GOOD]), name="a"), file, first)
    other = Rates([GOOD.replace("4", "9")])
    assert list(
        rate_samples(SAMPLES[:1], ChatRater(chat=other, name="b"), file, first).values()
    ) == [6]
    assert list(read_ratings(file, "a").values()) == [5]


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        '{"sample": 1, "rater": "a", "ratings": null}',
        '{"sample": "a", "rater": "a", "ratings": {"scene": 4}}',
    ],
)
def test_a_damaged_file_of_ratings_is_named(tmp_path, line):
    file = tmp_path / "ratings.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(DataError, match="line 1"):
        read_ratings(file)


def test_the_scorer_is_shown_the_target_and_the_video():
    of = track(40, seen=(30, 31))
    request = ChatRater(chat=Rates([]), frames=4).request(of, 30)
    assert request.frames == ((30,), (0, 13, 26, 39))
    assert (request.squash(0), request.squash(1)) == ((840, 840), (280, 280))
    assert "expression: 'the red square'" in request.text
    assert visual_description(of, 30) in request.text
    assert textual_description("the red square") in request.text
    assert "{" not in request.text.replace('{"scene"', "")
    assert ChatRater(chat=Rates([])).request(ONE, 0).frames == ((0,),)


def test_descriptions_say_what_masks_and_words_are():
    of = track(10, seen=(0, 1, 5))
    assert visual_description(of, 0) == (
        "Visual description: the mask covers 12.8% of the segmentation frame, as 1 object(s), with "
        "its centre in the upper left third. The target is seen in 30% of the frames and comes "
        "back 1 time(s) after leaving."
    )
    parted = sample(square() | square(500, 500, 600, 600))
    assert "as 2 object(s)" in visual_description(parted, 0)
    answer = parted.target.answer
    known = replace(parted, target=Target(answer=replace(answer, instances=(answer.masks,))))
    assert "as 1 object(s)" in visual_description(known, 0)
    assert "no mask" in visual_description(sample(form=AnswerForm.BOXES), 0)
    assert count_words("The cat, LEFT of it") == (5, 1)
    assert count_words("") == (0, 0)


def test_what_is_small_seldom_seen_and_long_described_is_measured_as_harder():
    easy = geometric_rating(
        sample(*[square(0, 0, 30, 30, (42, 42))] * 8, size=(42, 42), text="it"), 4
    )
    hard = geometric_rating(track(40, seen=(7, 20)), 7)
    hard_text = geometric_rating(
        sample(square(), text="the left one of the two that stand behind the last"), 0
    )
    assert easy.score <= 3 < hard.score
    assert hard_text.language > easy.language
    assert GeometricRater()(SAMPLES, [0] * 5)[0].score == geometric_rating(SAMPLES[0], 0).score
    assert rater_of(Spec("measured")) == GeometricRater()
    network = rater_of(Spec("stored(coordinates=pixels)"))  # as a configuration gives it
    assert network.name == "stored(coordinates=pixels)"


# the plugin


def test_its_defaults_are_the_papers():
    made = plugins.build("trainers", parse("videoseg_r1(ratings=difficulty.jsonl)"))
    plain = made.describe()
    assert (plain["beta"], plain["num_generations"], plain["generation_batch_size"]) == (
        1e-3,
        8,
        128,
    )
    assert (plain["learning_rate"], plain["weight_decay"]) == (1e-6, 0.01)
    assert (plain["length_beta"], plain["budgets"], plain["thresholds"]) == (
        2e-3,
        "96+176+256",
        "3+6",
    )
    assert plain["freeze_vision"] is True
    lora = videoseg_r1(finetune="lora", scorer=parse("measured"))
    assert lora.settings.freeze_vision is True  # the adapter is of the language model


@pytest.mark.parametrize(
    "wrong",
    [
        {"length_beta": -1.0},
        {"negative_distance": -1.0},
        {"budgets": "1"},
        {"min_references": 13},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(UsageError):
        plugins.build("trainers", parse("videoseg_r1(scorer=measured)"), **wrong)


@pytest.mark.parametrize("penalty", ["clipped", "literal"])
def test_a_penalty_by_difficulty_is_refused_where_no_difficulty_is_given(penalty):
    with pytest.raises(UsageError, match=r"--set scorer=….*--set ratings=FILE") as refused:
        plugins.build("trainers", "videoseg_r1", length_penalty=penalty)
    ways = re.findall(r"--set ([\w=+]+)", str(refused.value))
    assert ways == [
        "scorer=",
        "ratings=FILE",
        "length_penalty=none",
        "budgets=176+176",
        "thresholds=5",
    ]
    typed = [["scorer=measured"], ["ratings=FILE"], ["length_penalty=none"], ways[-2:]]
    typed.append(["length_beta=0.0"])  # a penalty of nothing
    for one in typed:
        settings = {"length_penalty": penalty, **parse(f"set({','.join(one)})").arguments}
        assert plugins.build("trainers", Spec("videoseg_r1", settings)).name == "videoseg_r1"


def test_equal_budgets_cost_what_a_medium_sample_costs(tmp_path):
    """What the refusal offers for all is what the paper has for what is medium."""
    long = said(BOX, think="word " * 200)
    equal = videoseg_r1(budgets="176+176", thresholds="5")
    assert equal._scores(TrainingRun(out=tmp_path), SAMPLES, first) == {}
    assert not any(tmp_path.iterdir())
    medium = videoseg_r1(ratings=tmp_path / "none").reward
    assert terms(long, equal.reward) == terms(long, medium)
    assert terms(long, equal.reward)["length_factor"] < 1


def test_no_level_is_counted_where_nothing_was_rated(mevis, tmp_path, monkeypatch):
    monkeypatch.setattr(GrpoTrainer, "train", lambda trainer, run: {})
    monkeypatch.setattr(GrpoTrainer, "check", lambda trainer, run: None)
    made = videoseg_r1(length_penalty="none")
    facts = made.train(TrainingRun(out=tmp_path, tasks=(mevis,)))
    assert facts == {"difficulty": {}, "rated": 0}
