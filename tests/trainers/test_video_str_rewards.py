"""Whole rewards of Video-STR: terms, ablations, lengths, and whatever a response holds."""

import math
import random
import time
from dataclasses import replace

import pytest

from harness.errors import ParseError
from harness.models.spacer.grammar import _number as cells_number
from harness.models.video_str.grammar import graph, python_literal
from harness.responses import finite_numbers
from harness.trainers.grpo.method import TOTAL
from harness.trainers.grpo.rewards import numbers_of
from harness.trainers.spacer.rewards import with_map
from harness.trainers.video_r1.rewards import (
    TemporalReward,
    VideoR1Accuracy,
)
from harness.trainers.video_str.answers import (
    answer_reward,
    interval_reward,
)
from harness.trainers.video_str.graphs import to_plain
from harness.trainers.video_str.nodes import FrameGraph
from harness.trainers.video_str.rewards import VideoStrReward
from harness.types import Answer, AnswerForm, Box, Box3D, Interval

from .video_str_groups import NODES, graphs, group, said, spacer_reward

GRAPH = "<graph>{'star': [0, 0, 1], 'cross': [[1, 0.5, 2]]}</graph>"


def test_the_total_is_the_sum_of_equation_9():
    good = f"<think>{GRAPH}</think><answer>B</answer>"
    (terms,) = VideoStrReward()(group(good, extra=graphs(0, 2, 4)))
    assert terms == {
        "R_format": 1,
        "R_ans": 1,
        "R_mc": 1,
        "R_n": 1,
        "R_e": pytest.approx(1),
        "R_graph": pytest.approx(2),
        "R_l": 0.2,
        TOTAL: pytest.approx(4.2),
    }
    (wrong,) = VideoStrReward()(group(good.replace(">B<", ">A<"), extra=graphs(0)))
    assert wrong[TOTAL] == pytest.approx(3)


@pytest.mark.parametrize(
    ("setting", "lost"),
    [
        ({"with_format": False}, 1),
        ({"with_nodes": False}, 1),
        ({"with_edges": False}, 1),
        ({"with_length": False}, 0.2),
        ({"omega": 0.5}, -0.3),
        ({"literal": True}, -3),
    ],
)
def test_an_ablation_takes_its_term_out_of_the_total(setting, lost):
    good = group(f"<think>{GRAPH}</think><answer>B</answer>", extra=graphs(0))
    (terms,), (other,) = VideoStrReward()(good), VideoStrReward(**setting)(good)
    assert terms[TOTAL] - other[TOTAL] == pytest.approx(lost)


@pytest.mark.parametrize(("tokens", "worth"), [(319, 0), (320, 0.2), (512, 0.2), (513, 0)])
def test_a_length_is_rewarded_within_its_bounds(tokens, worth):
    (terms,) = VideoStrReward()(group(said("B"), tokens=tokens))
    assert terms["R_l"] == worth
    (wrong,) = VideoStrReward()(group(said("A"), tokens=tokens))
    assert wrong["R_l"] == 0


@pytest.mark.parametrize(
    ("form", "ground_truth", "response", "own"),
    [
        (AnswerForm.CHOICE, Answer(choice="B"), "B", {"R_mc": 1}),
        (AnswerForm.NUMBER, Answer(number=4.0), "3", {"R_num": 0.75}),
        (AnswerForm.BOXES, Answer(boxes=(Box(0, 0, 4, 4),)), "[0, 0, 2, 4]", {"R_IoU": 0.5}),
        (AnswerForm.INTERVAL, Answer(interval=Interval(4, 8)), "[6, 8]", {"R_IoU": 0.5}),
        (
            AnswerForm.BOX_3D,
            Answer(boxes_3d=(Box3D(0, 0, 2, 2, 2, 2),)),
            "[0, 0, 2, 2, 2, 1]",
            {"R_IoU": 0.5},
        ),
        (AnswerForm.TEXT, Answer(text="a red car"), "a red car", {}),
    ],
)
def test_a_sample_has_the_term_of_its_form_of_answer_beside_r_ans(
    form, ground_truth, response, own
):
    (terms,) = VideoStrReward()(group(said(response), form=form, answer=ground_truth))
    found = {name: terms[name] for name in ("R_mc", "R_num", "R_IoU") if name in terms}
    assert found == pytest.approx(own)
    assert all(value == terms["R_ans"] for value in found.values())
    parts = ("R_format", "R_ans", "R_graph", "R_l")
    assert terms[TOTAL] == pytest.approx(sum(terms[name] for name in parts)), "counted once"


def test_the_mean_of_a_form_is_over_the_samples_that_have_it():
    number = {"form": AnswerForm.NUMBER, "answer": Answer(number=4.0)}
    groups = [group(said("B"), said("A")), group(said("3"), said("x"), **number)]
    numbers = numbers_of(groups, [VideoStrReward()(one) for one in groups])
    assert numbers["rewards/R_ans"] == [1, 0, 0.75, 0]
    assert (numbers["rewards/R_mc"], numbers["rewards/R_num"]) == ([1, 0], [0.75, 0])
    assert "rewards/R_IoU" not in numbers


def test_no_graph_costs_nothing_but_its_reward():
    plain, drawn = said("B"), f"<think>t</think>{GRAPH}<answer>B</answer>"
    terms = VideoStrReward()(group(plain, drawn, extra=graphs(0)))
    assert [one["R_graph"] for one in terms] == [0, pytest.approx(2)]
    assert terms[0][TOTAL] == pytest.approx(2.2)
    assert VideoStrReward()(group(drawn))[0]["R_graph"] == 0


def test_graphs_are_compared_with_k_of_the_frames_that_were_shown():
    reward = VideoStrReward(frames=2)
    lone = {"frame": 4, "nodes": [{"category": "star", "centre": [0, 0, 1]}]}
    made = group(said("B"), extra={"graphs": [*graphs(0, 1, 2)["graphs"], lone]})
    assert [frame.frame for frame in reward.frames_compared(made)] == [0, 2]
    only = group(said("B"), extra={"graphs": [lone]})
    assert [frame.frame for frame in reward.frames_compared(only)] == [4]
    many = group(said("B"), extra=graphs(*range(20)), frames=20)
    assert [frame.frame for frame in VideoStrReward(frames=4).frames_compared(many)] == [
        0,
        6,
        12,
        18,
    ]


def test_the_reward_of_a_video_is_the_mean_over_frames():
    near = FrameGraph(frame=0, nodes=NODES)
    far = FrameGraph(
        frame=2, nodes=tuple(replace(n, centre=(*n.centre[:2], n.centre[2] + 1)) for n in NODES)
    )
    made = group(
        f"<think>{GRAPH}</think><answer>B</answer>", extra={"graphs": to_plain([near, far])}
    )
    (terms,) = VideoStrReward()(made)
    assert terms["R_n"] == pytest.approx((1 + math.exp(-1)) / 2)
    assert terms["R_e"] == pytest.approx(1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{'star': [0, 0]}",
        "{'star': [0, 0, '1']}",
        "{'star': [[0, 0, 1], [1, 1, 1]]}",
        "{'star': [0, 0, 1], 'Star ': [0, 0, 1]}",
        "{'star': [0, 0, 1e999]}",
        "{1: [0, 0, 1]}",
        "{'star': [0, 0, nan]}",
        "{'star': [0, 0, True]}",
        "{" * 3000,
        "-" * 15000,
        "{'a': " * 200,
    ],
)
def test_what_is_no_graph_is_worth_nothing(text):
    response = f"<think><graph>{text}</graph></think><answer>B</answer>"
    with pytest.raises(ParseError):
        graph(response)
    (terms,) = VideoStrReward()(group(response, extra=graphs(0)))
    assert terms["R_graph"] == 0


def test_ten_thousand_malformed_responses_never_raise(huge):
    draws = random.Random(7)
    parts = [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "<graph>",
        "</graph>",
        "<map>",
        "</map>",
        "{",
        "}",
        "[",
        "]",
        "'star'",
        "'cross'",
        ":",
        ",",
        "1",
        "-2.5",
        "1e999",
        "nan",
        "B",
        "\ud800",
        "\x00",
        " ",
        "\n",
        '"',
        "\\",
        "(",
        "é",
        "9" * 70,
        "to",
    ]
    places = [
        "<map>{'star': [[%s, 1]]}</map>",
        "<map>{%s: [[1, 1]]}</map>",
        "<map>star %s 1</map>",
        "<graph>{'star': [%s, 0, 1]}</graph>",
        "<graph>{%s: [0, 0, 1]}</graph>",
        "[0, 0, %s]",
        "[[0, 0, 0, 1, 1, %s]]",
        "[%s, 0, 1, 1]",
        "%s",
        "%s to %s",
    ]
    forms = [
        (AnswerForm.CHOICE, Answer(choice="B")),
        (AnswerForm.NUMBER, Answer(number=2.5)),
        (AnswerForm.BOXES, Answer(boxes=(Box(1, 1, 3, 3),))),
        (AnswerForm.TEXT, Answer(text="a b")),
        (AnswerForm.INTERVAL, Answer(interval=Interval(1, 2))),
        (AnswerForm.BOX_3D, Answer(boxes_3d=(Box3D(0, 0, 1, 1, 1, 1),))),
    ]
    extra = {**graphs(0, 2), "map": {"star": [[1, 2]], "cross": [[3, 4]]}}
    rewards = (
        VideoStrReward(angle="kabsch"),
        spacer_reward(),
        TemporalReward(accuracy=VideoR1Accuracy()),
    )
    for number in range(1430):
        form, ground_truth = forms[number % len(forms)]
        texts = ["".join(draws.choices(parts, k=draws.randrange(20))) for _ in range(5)]
        texts.append("<think><graph>{'star': " + texts[0] + "}</graph></think><answer>" + texts[1])
        drawn, spoken = (draws.choice(places).replace("%s", draws.choice(huge)) for _ in range(2))
        texts.append(f"<think>{drawn}</think><answer>{draws.choice(('B', '2.5', spoken))}</answer>")
        made = group(*texts, form=form, answer=ground_truth, extra=extra, seconds=texts)
        for reward in rewards:
            for terms in reward(made):
                assert all(math.isfinite(value) for value in terms.values())
                assert terms[TOTAL] >= 0


@pytest.mark.parametrize("text", ["9" * 2_000, ("9" * 64 + " ") * 30, "9a" * 1_000])
def test_a_long_answer_costs_no_time(text):
    started = time.process_time()
    assert interval_reward(said(text), Interval(1, 2)) == 0
    assert time.process_time() - started < 3
    assert interval_reward(said("from 1 s to 2 s"), Interval(1, 2)) == 1


@pytest.mark.parametrize(
    "number", ["9" * 65, "0x" + "f" * 4_000, "0x10", "0b1", "0O7", "1" + "_0" * 70, "-" + "9" * 400]
)
def test_a_literal_has_decimal_numbers_of_at_most_sixty_four_digits(number):
    for text in (f"{{'a': {number}}}", f"{{{number}: 1}}", f"(1,\r{number})"):
        with pytest.raises(ParseError, match=r"64 digits|JSON, .*Python"):
            python_literal(text)
    assert python_literal("{'0x10': " + "9" * 64 + "}") == {"0x10": int("9" * 64)}


def test_a_cell_beyond_all_floats_is_no_error_in_the_code():
    with pytest.raises(ParseError, match="finite"):
        cells_number(10**400)
    assert with_map(1.0, f"<map>{{'star': [[{'9' * 400}, 1]]}}</map>", {"star": [[1, 2]]}) == 0
    with pytest.raises(ParseError, match=r"^number: .*\bint$"):
        finite_numbers(1 << 20_000, 1, "number")


def test_a_question_that_names_a_resolution_of_nothing_means_the_canvas():
    made = group(
        said("[1, 1, 3, 3]"), form=AnswerForm.BOXES, answer=Answer(boxes=(Box(1, 1, 3, 3),))
    )
    requested = replace(made.sample.query, text="where? 00x00 resolution")
    named = replace(made, sample=replace(made.sample, query=requested))
    assert answer_reward(named, said("[1, 1, 3, 3]")) == answer_reward(made, said("[1, 1, 3, 3]"))
