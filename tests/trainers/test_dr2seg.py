"""DR2Seg's reward and second pass, without a network."""

import math
import random
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import media, plugins
from harness.errors import ParseError, UsageError
from harness.masks import Rle
from harness.models.dr2seg.grammar import DR2Seg, write
from harness.models.dr2seg.model import dr2seg as model_of
from harness.models.grammar import Item
from harness.trainers.dr2seg.masks import MaskAccuracy, joint_iou, true_masks
from harness.trainers.dr2seg.rewards import (
    DR2SegReward,
    LocationAccuracy,
    box_format,
    format_terms,
    gate_lengths,
    length_reward,
)
from harness.trainers.dr2seg.second_pass import DUMMY, SecondPassPrompt, description_of
from harness.trainers.dr2seg.trainer import dr2seg, with_prompt
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.grpo.rewards import numbers_of
from harness.trainers.visionreasoner.rewards import VisionReasonerReward
from harness.types import Answer, AnswerForm, Box, Point, Query, Sample, Target

SIDE = 840
OBJECT = Item(Box(100.0, 100.0, 300.0, 300.0), Point(200.0, 200.0))
ELSEWHERE = Item(Box(600.0, 600.0, 700.0, 700.0), Point(650.0, 650.0))


def filled(item):
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    left, top, right, bottom = map(int, item.box)
    mask[top:bottom, left:right] = True
    return Rle.from_array(mask)


IMAGE = media.pixels([np.zeros((SIDE, SIDE, 3), np.uint8)], times=(0,), is_video=False, id="image")
QUERY = Query(id="q", text="What is warm?", media=(IMAGE,), forms=(AnswerForm.MASK,))
GROUND_TRUTH = Answer(boxes=(OBJECT.box,), points=(OBJECT.point,), masks=(filled(OBJECT),))
SAMPLE = Sample(id="s", query=QUERY, target=Target(answer=GROUND_TRUTH))


def count(text):
    return len(text.split())


def words(number):
    """So many tokens, in one sentence."""
    return " ".join(f"w{place}" for place in range(number))


def said(tokens=10, *items, about="the cup", form="sam2"):
    return write(items or (OBJECT,), think=words(tokens), description=about, form=form)


def group(firsts, seconds=(), sample=SAMPLE):
    def made(texts):
        return tuple(Rollout(text=text, tokens=count(text)) for text in texts)

    return Group(
        sample=sample,
        rollouts=made(firsts),
        seconds=made(seconds),
        canvas=(SIDE, SIDE),
        count_tokens=count,
    )


def totals(reward, firsts, seconds=()):
    return [terms["total"] for terms in reward(group(firsts, seconds))]


@pytest.mark.parametrize(
    ("first", "second", "worth"),
    [
        (44, 43, 1.0),
        (45, 44, 1.0),
        (46, 45, 0.95),
        (55, 1, 0.5),
        (65, 1, 0.0),
        (44, 44, 0.0),
        (10, 11, 0.0),
        (200, 1, 0.0),
        (44, None, 0.0),
        (0, 0, 0.0),
        (1, 0, 1.0),
    ],
)
def test_the_length_reward_is_the_closed_form(first, second, worth):
    assert length_reward(first, second) == pytest.approx(worth, abs=1e-12)
    requested = [said(first)], [said(0 if second is None else second)]
    reward = DR2SegReward()
    about = {} if second is not None else {"about": ""}
    (terms,) = reward(group([said(first, **about)], requested[1]))
    assert terms["length"] == pytest.approx(worth, abs=1e-12)


@given(st.integers(45, 300), st.integers(0, 300), st.integers(0, 60), st.floats(0, 1))
def test_beyond_the_anchor_more_reasoning_never_earns_more(first, second, more, gamma):
    less = length_reward(first + more, min(second, first - 1), gamma=gamma)
    assert less <= length_reward(first, min(second, first - 1), gamma=gamma)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 100), st.floats(0, 2))
def test_the_length_reward_is_between_0_and_1(first, second, anchor, gamma):
    assert 0.0 <= length_reward(first, second, anchor=anchor, gamma=gamma) <= 1.0


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_shorter_second_pass_never_earns_less(first, second):
    assert length_reward(first, second) >= length_reward(first, second + 1)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 3)), min_size=1, max_size=8))
def test_the_gate_is_open_or_shut_for_a_whole_group(pairs):
    lengths, accuracies = zip(*pairs, strict=True)
    expected = list(lengths) if any(accuracies) else [1.0] * len(pairs)
    assert gate_lengths(lengths, accuracies) == expected


def test_the_gate_compares_strictly_with_its_threshold():
    assert gate_lengths([0.25], [0.5], threshold=0.5) == [1.0]
    assert gate_lengths([0.25], [0.51], threshold=0.5) == [0.25]


def test_a_perfect_rollout_is_worth_10():
    (terms,) = DR2SegReward()(group([said(20)], [said(10)]))
    assert terms["total"] == 10.0
    assert (terms["thinking_format"], terms["answer_format"], terms["non_repeat"]) == (1, 2, 1)
    assert (terms["accuracy"], terms["description"], terms["length"]) == (3, 3, 1)
    assert (terms["tokens_first"], terms["tokens_second"], terms["described"]) == (20, 10, 1)


ITEMS = st.sampled_from([OBJECT, ELSEWHERE])
TEXTS = st.builds(
    lambda tokens, item, about: said(tokens, item, about=about),
    st.integers(0, 80),
    ITEMS,
    st.sampled_from(["", "the cup", words(65)]),
)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4)


@given(PAIRS)
def test_the_total_is_the_product_of_equation_7_and_at_most_10(pairs):
    firsts, seconds = zip(*pairs, strict=True)
    for terms in DR2SegReward()(group(firsts, seconds)):
        base = ("thinking_format", "answer_format", "accuracy", "non_repeat", "description")
        expected = sum(terms[name] for name in base) * terms["length_factor"]
        assert terms["total"] == pytest.approx(expected)
        assert 0.0 <= terms["total"] <= 10.0


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_rollouts_does_not_matter(pairs, shuffle):
    order = list(range(len(pairs)))
    shuffle.shuffle(order)
    plain = totals(DR2SegReward(), *zip(*pairs, strict=True))
    mixed = totals(DR2SegReward(), *zip(*(pairs[place] for place in order), strict=True))
    assert mixed == [plain[place] for place in order]


def test_without_any_right_answer_length_does_not_count():
    reward = DR2SegReward()
    long, short = said(200, ELSEWHERE), said(20, ELSEWHERE)
    found = totals(reward, [long, short], [said(5), said(5)])
    assert found == [7.0, 7.0]  # format 3, no repetition 1, description 3; no accuracy


def test_a_wrong_short_response_beats_a_right_long_one_in_a_solved_group():
    """The paper's own incentive, literal: see the README on the gate."""
    right, wrong = totals(DR2SegReward(), [said(65), said(20, ELSEWHERE)], [said(5)] * 2)
    assert (right, wrong) == (0.0, 7.0)


def test_a_group_of_long_right_responses_teaches_nothing_unless_there_is_a_floor():
    """VisionReasoner begins at about 80 tokens of reasoning, and N0 + 1 / γ is 65."""
    firsts, seconds = [said(80), said(81), said(65)], [said(5)] * 3
    assert totals(DR2SegReward(), firsts, seconds) == [0.0, 0.0, 0.0]
    assert totals(DR2SegReward(len_floor=0.1), firsts, seconds) == pytest.approx([1.0] * 3)


def test_a_floor_changes_nothing_where_length_is_rewarded():
    pair = [said(46)], [said(5)]
    assert totals(DR2SegReward(len_floor=0.1), *pair) == totals(DR2SegReward(), *pair)


def test_a_floor_is_for_wrong_responses_of_a_solved_group_too():
    wrong = said(80, ELSEWHERE)
    assert totals(DR2SegReward(len_floor=0.1), [said(20), wrong], [said(5)] * 2)[1] > 0
    assert totals(DR2SegReward(), [said(20), wrong], [said(5)] * 2)[1] == 0


def test_a_second_reasoning_that_was_not_asked_for_has_no_length():
    requested, not_asked = DR2SegReward()(group([said(20), said(20, about="")], [said(10)] * 2))
    assert requested["tokens_second"] == 10 and "tokens_second" not in not_asked
    numbers = numbers_of([group([said(20)] * 2)], [[requested, not_asked]])
    assert numbers["rewards/tokens_second"] == [10.0]


def test_zero_shot_is_without_length_and_the_baseline_without_both():
    pair = [said(80)], [said(100)]
    assert totals(DR2SegReward(r_len=False), *pair) == [10.0]
    assert totals(DR2SegReward(r_len=False, r_desc=False), *pair) == [7.0]
    assert totals(DR2SegReward(r_len=False, r_desc=False), pair[0]) == [7.0]


def test_the_baseline_is_visionreasoners_reward_but_for_the_seam_of_the_description():
    ours = DR2SegReward(r_len=False, r_desc=False)
    text = said(12, OBJECT, ELSEWHERE)
    plain = text.replace("<description>the cup</description>", "")
    assert totals(ours, [text]) == totals(VisionReasonerReward(), [plain])


@pytest.mark.parametrize("about", ["", "  ", words(65)])
def test_a_description_that_is_none_earns_nothing_though_its_second_response_is_right(about):
    (terms,) = DR2SegReward()(group([said(20, about=about)], [said(5)]))
    assert (terms["description"], terms["described"], terms["length"]) == (0.0, 0.0, 0.0)
    assert terms["total"] == 0.0


def test_a_response_without_reasoning_tags_cannot_hide_its_length():
    bare = f"{words(70)}<description>the cup</description><answer>[]</answer>"
    (terms,) = DR2SegReward()(group([bare], [said(5)]))
    assert terms["tokens_first"] == 70.0
    assert terms["length"] == 0.0


def test_the_second_replys_answer_alone_decides_what_a_description_is_worth():
    found = DR2SegReward()(group([said(20)] * 2, [said(5), said(5, ELSEWHERE)]))
    assert [terms["description"] for terms in found] == [3.0, 0.0]
    assert [terms["accuracy"] for terms in found] == [3.0, 3.0]


def test_a_reward_never_looks_at_another_group():
    reward = DR2SegReward()
    hard, easy = ([said(80, ELSEWHERE)] * 2, [said(5)] * 2), ([said(80)] * 2, [said(5)] * 2)
    alone = totals(reward, *hard)
    totals(reward, *easy)
    assert totals(reward, *hard) == alone == [7.0, 7.0]
    assert totals(reward, *easy) == [0.0, 0.0]


PIECES = (
    "<think>",
    "</think>",
    "<description>",
    "</description>",
    "<target_desc>",
    "</target_desc>",
    "<answer>",
    "</answer>",
    "<frame>3</frame>",
    '[{"bbox_2d": [1, 2, 3, 4], "point_2d": [2, 3]}]',
    "[{",
    "]",
    "NaN",
    "1e400",
    "null",
    '{"bbox_2d": null}',
    "the cup",
    ".",
    "\n",
    "\x00",
    "\ud800",
    '"',
    "9" * 80,
    "[" * 70,
    "<|im_end|>",
    "é",
)


@pytest.mark.parametrize("form", ["sam2", "sam3"])
def test_ten_thousand_malformed_responses_never_raise(huge, form):
    draw = random.Random(0)
    accuracy = MaskAccuracy(reader("sam3")) if form == "sam3" else LocationAccuracy()
    reward = DR2SegReward(form=form, accuracy=accuracy)
    pieces = (
        *PIECES,
        *(f'[{{"bbox_2d": [1, 2, 3, {one}], "point_2d": [2, 3]}}]' for one in huge),
        *huge,
    )
    for _ in range(2_500):
        texts = ["".join(draw.choices(pieces, k=draw.randrange(10))) for _ in range(4)]
        for terms in reward(group(texts[:2], texts[2:])):
            assert all(math.isfinite(value) for value in terms.values())
            assert 0.0 <= terms["total"] <= 10.0


def test_a_huge_response_is_read_in_time():
    huge = "<think>" + "a " * 500_000 + "</think><description>"
    started = time.perf_counter()
    (terms,) = DR2SegReward()(group([huge], [huge]))
    assert time.perf_counter() - started < 10
    assert (terms["accuracy"], terms["description"], terms["total"]) == (0.0, 0.0, 1.0)


# -- the second pass ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    """A chat that only counts."""

    coordinates: str = "pixels"
    batch_size: int = 1

    def describe(self):
        return {}

    def canvas(self, request):
        return request.resize

    def count_tokens(self, text):
        return count(text)


def reader(form):
    model = model_of(form=form, backend=Script(), segmenter=plugins.build("segmenters", "box"))
    return replace(model, prompt=DR2Seg(form, strict=True))


def again(form="sam2"):
    return SecondPassPrompt(model=reader(form), form=form, max_new_tokens=77)


def rollout(text):
    return Rollout(text=text, tokens=1)


def test_the_second_request_is_the_first_with_the_description_as_its_question():
    requested = again()(SAMPLE, rollout(said(about="The Red Cup.")))
    (first,) = reader("sam2").requests(QUERY)
    assert requested.text == first.text.replace("what is warm", "the red cup")
    assert (requested.media, requested.resize, requested.system) == (
        first.media,
        first.resize,
        first.system,
    )
    assert requested.max_new_tokens == 77


@pytest.mark.parametrize("about", ["", " ", words(65)])
def test_a_malformed_rollout_leads_to_a_dummy_request(about):
    requested = again()(SAMPLE, rollout(said(about=about)))
    assert f'"{DUMMY}"' in requested.text


def test_the_second_request_holds_neither_question_nor_answer_of_the_sample():
    requested = again()(SAMPLE, rollout(said(about="the cup")))
    assert "warm" not in requested.text
    assert "w3" not in requested.text  # nor the first pass's reasoning


def test_each_form_has_its_own_tag():
    text = said(about="the cup", form="sam3")
    assert description_of(text, count, form="sam3") == "the cup"
    assert description_of(text, count, form="sam2") == ""
    assert '"the cup"' in again("sam3")(SAMPLE, rollout(text)).text


def test_a_description_of_64_tokens_is_one_and_of_65_is_none():
    assert description_of(said(about=words(64)), count, form="sam2")
    assert not description_of(said(about=words(65)), count, form="sam2")


# -- the SAM 3 form -------------------------------------------------------------------------------


def test_in_the_sam3_form_accuracy_is_the_overlap_of_masks_and_6_the_most():
    reward = DR2SegReward(form="sam3", accuracy=MaskAccuracy(reader("sam3")))
    half = Item(Box(100.0, 100.0, 300.0, 200.0))
    firsts = [said(20, OBJECT, form="sam3"), said(20, half, form="sam3")]
    first, second = reward(group(firsts, [said(5, OBJECT, form="sam3")] * 2))
    assert (first["accuracy"], first["description"], first["total"]) == (1.0, 1.0, 6.0)
    assert second["accuracy"] == pytest.approx(0.5)
    assert second["total"] == pytest.approx(5.5)


def test_in_the_sam3_form_one_pixel_opens_the_gate_unless_a_threshold_is_set():
    pixel = Item(Box(299.0, 299.0, 400.0, 400.0))
    firsts, seconds = [said(90, pixel, form="sam3")], [said(5, form="sam3")]
    literal = DR2SegReward(form="sam3", accuracy=MaskAccuracy(reader("sam3")))
    assert totals(literal, firsts, seconds) == [0.0]
    assert totals(replace(literal, gate_threshold=0.5), firsts, seconds)[0] > 4.0


def test_the_sam3_format_has_a_part_for_the_description_and_none_for_points():
    text = said(3, form="sam3")
    assert sum(format_terms(text, form="sam3").values()) == 3.0
    empty = said(3, form="sam3", about="")
    assert format_terms(empty, form="sam3")["description_format"] == 0.0
    assert "description_format" not in format_terms(text, form="sam2")


def test_boxes_are_counted_over_all_objects():
    boxes = '[{"bbox_2d": [1, 2, 3, 4]}, {"bbox_2d": [1, 2]}, 7, {"point_2d": [1, 2]}]'
    assert box_format(f"<answer>{boxes}</answer>") == 0.25
    assert box_format("<answer>[]</answer>") == 0.0


def test_the_overlap_of_nothing_with_nothing_is_whole():
    nothing = Rle.from_array(np.zeros((4, 4), dtype=bool))
    whole = Rle.from_array(np.ones((4, 4), dtype=bool))
    assert joint_iou([nothing], [nothing]) == 1.0
    assert joint_iou([whole, nothing], [whole, whole]) == 0.5


def test_samples_without_masks_are_named():
    bare = replace(SAMPLE, target=Target(answer=Answer(count=3)))
    with pytest.raises(ParseError, match=r"^sample s: .*true.*none"):
        true_masks(bare)


# -- the plugin -----------------------------------------------------------------------------------


def test_the_defaults_are_the_papers():
    output = plugins.build("trainers", "dr2seg").describe()
    paper = {
        "n0": 45,
        "gamma": 0.05,
        "r_desc": True,
        "r_len": True,
        "gate_threshold": 0.0,
        "len_floor": 0.0,
        "second_temperature": None,
        "temperature": 1.0,
        "generation_batch_size": 128,
        "num_generations": 8,
        "learning_rate": 1e-6,
        "weight_decay": 0.01,
    }
    assert {name: output[name] for name in paper} == paper


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": -1.0},
        {"n0": -1},
        {"len_floor": 1.5},
        {"gate_threshold": -0.1},
        {"second_temperature": -1.0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError):
        dr2seg(**wrong)


def test_a_model_keeps_its_canvas_and_gets_the_prompt():
    from harness.models.visionreasoner.grammar import VisionReasoner

    small = replace(reader("sam2"), prompt=VisionReasoner(resize=(168, 168)))
    assert with_prompt(small, "sam2").prompt == DR2Seg("sam2", (168, 168), newline=True)
    free = replace(small, prompt=VisionReasoner(resize=None))
    assert with_prompt(free, "sam3").prompt == DR2Seg("sam3", (840, 840), newline=True)


def test_every_configuration_is_one_of_the_trainer():
    import tomllib
    from importlib.resources import files

    from harness.cli.train import COMMAND_KEYS

    folder = files("harness.trainers.dr2seg").joinpath("configs")
    names = [path for path in folder.iterdir() if path.name.endswith(".toml")]
    assert len(names) >= 12
    for path in names:
        plain = tomllib.loads(path.read_text("utf-8"))
        settings = {key: value for key, value in plain.items() if key not in COMMAND_KEYS}
        from harness.spec import Spec

        built = plugins.build("trainers", Spec("dr2seg", settings))
        assert built.settings.accumulation_steps(1) >= 1, path.name


def test_places_are_visionreasoners_accuracy():
    found = LocationAccuracy()(group([]), [said(3), said(3, ELSEWHERE), "nothing"])
    assert [one["accuracy"] for one in found] == [3.0, 0.0, 0.0]
