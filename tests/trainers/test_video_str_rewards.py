"""Video-STR's rewards: closed forms, invariances, and responses of any kind."""

import doctest
import importlib
import json
import math
import random
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from harness import media
from harness.errors import DataError, ParseError, UsageError
from harness.models.grammar import well_formed
from harness.models.spacer.grammar import _number as cells_number
from harness.models.spacer.grammar import grid_map
from harness.models.video_str.grammar import graph, python_literal
from harness.responses import finite_numbers
from harness.trainers.grpo.method import TOTAL, Group, Rollout
from harness.trainers.grpo.rewards import numbers_of
from harness.trainers.sample_checks import with_extra
from harness.trainers.spacer.maps import maps_extra
from harness.trainers.spacer.rewards import SpacerAccuracy, SpacerReward, map_score, with_map
from harness.trainers.video_r1.rewards import (
    TemporalReward,
    VideoR1Accuracy,
    length_rewards,
    temporal_reward,
)
from harness.trainers.video_str.answers import (
    answer_reward,
    boxes_3d_reward,
    boxes_reward,
    choice_reward,
    format_reward,
    ground_truth_of,
    interval_reward,
    number_reward,
    text_reward,
)
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import from_plain, graphs_of, to_plain
from harness.trainers.video_str.nodes import FrameGraph, Node, edge_reward, node_reward
from harness.trainers.video_str.rewards import VideoStrReward
from harness.types import Answer, AnswerForm, Box, Box3D, Interval, Query, Sample, Target

SMALL = st.floats(-20, 20, allow_nan=False)
PLACE = st.tuples(SMALL, SMALL, SMALL)
FEW = settings(max_examples=60, deadline=None)


@st.composite
def scenes(draw, least=1):
    """A true graph and a predicted one of the same categories, some of which are missing."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=least, max_size=6, unique=True))
    ground_truth = [
        Node(category=name, centre=draw(PLACE), count=draw(st.integers(1, 4))) for name in names
    ]
    output = {name: draw(PLACE) for name in names if draw(st.booleans())}
    return ground_truth, output


def perfect(ground_truth):
    return {node.category: node.centre for node in ground_truth}


def turned(places, rotation):
    return {name: tuple(rotation.apply(place)) for name, place in places.items()}


def moved(ground_truth, change):
    return [replace(node, centre=tuple(change(np.array(node.centre)))) for node in ground_truth]


# -- R_n, R_e


@FEW
@given(scenes(least=2))
def test_a_perfect_graph_is_worth_one_by_nodes_and_by_edges(scene):
    ground_truth, _ = scene
    assert node_reward(perfect(ground_truth), ground_truth) == pytest.approx(1)
    assert edge_reward(perfect(ground_truth), ground_truth) == pytest.approx(1, abs=1e-9)
    assert edge_reward(perfect(ground_truth), ground_truth, literal=True) == pytest.approx(
        len(ground_truth) ** 2
    )


@FEW
@given(scenes(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_changes_nothing(scene, draws):
    ground_truth, output = scene
    other = draws.sample(ground_truth, len(ground_truth))
    items = draws.sample(list(output.items()), len(output))
    assert node_reward(dict(items), other) == pytest.approx(
        node_reward(output, ground_truth), abs=1e-12
    )
    assert edge_reward(dict(items), other) == pytest.approx(
        edge_reward(output, ground_truth), abs=1e-12
    )


@FEW
@given(scenes(), PLACE)
def test_moving_the_whole_prediction_leaves_edges_as_they_were(scene, shift):
    ground_truth, output = scene
    shifted = {name: tuple(np.add(place, shift)) for name, place in output.items()}
    for place, other in zip(output.values(), list(output.values())[1:], strict=False):
        assume(math.dist(place, other) > 1e-3)
    assume(len({tuple(np.round(place, 2)) for place in output.values()}) == len(output))
    assert edge_reward(shifted, ground_truth) == pytest.approx(
        edge_reward(output, ground_truth), abs=1e-9
    )


@FEW
@given(scenes(), st.integers(0, 10**6))
def test_turning_both_graphs_together_changes_nothing(scene, seed):
    ground_truth, output = scene
    places = [*output.values(), *(node.centre for node in ground_truth)]
    assume(len({tuple(np.round(place, 2)) for place in places}) == len(places))
    rotation = Rotation.random(rng=seed)
    both = moved(ground_truth, rotation.apply)
    assert edge_reward(turned(output, rotation), both) == pytest.approx(
        edge_reward(output, ground_truth), abs=1e-9
    )
    assert node_reward(turned(output, rotation), both) == pytest.approx(
        node_reward(output, ground_truth), abs=1e-9
    )


@FEW
@given(scenes(least=3), st.integers(0, 10**6))
def test_after_the_best_rotation_a_turned_prediction_is_perfect(scene, seed):
    ground_truth, _ = scene
    assume(len({tuple(np.round(node.centre, 1)) for node in ground_truth}) == len(ground_truth))
    output = turned(perfect(ground_truth), Rotation.random(rng=seed))
    assert edge_reward(output, ground_truth, angle="kabsch") == pytest.approx(1, abs=1e-6)


def test_the_best_rotation_never_mirrors():
    corners = {"a": (0.0, 0, 0), "b": (1.0, 0, 0), "c": (0.0, 2, 0), "d": (0.0, 0, 3)}
    ground_truth = [Node(category=name, centre=place) for name, place in corners.items()]
    output = {node.category: (-node.centre[0], *node.centre[1:]) for node in ground_truth}
    assert edge_reward(output, ground_truth, angle="kabsch") < 0.95


@given(st.floats(0, math.pi))
def test_turning_a_pair_in_its_plane_costs_the_angle(phi):
    ground_truth = [
        Node(category="a", centre=(0.0, 0.0, 0.0)),
        Node(category="b", centre=(3.0, 0.0, 0.0)),
    ]
    output = turned(perfect(ground_truth), Rotation.from_euler("z", phi))
    assert 2 * edge_reward(output, ground_truth) - 1 == pytest.approx(math.exp(-phi), abs=1e-9)


@given(st.floats(0, 5), st.floats(0.5, 5))
def test_a_wrong_distance_costs_its_error(delta, sigma):
    ground_truth = [
        Node(category="a", centre=(0.0, 0.0, 0.0)),
        Node(category="b", centre=(3.0, 0.0, 0.0)),
    ]
    output = {"a": (0.0, 0.0, 0.0), "b": (3.0 + delta, 0.0, 0.0)}
    assert edge_reward(output, ground_truth, sigma=sigma) == pytest.approx(
        (math.exp(-delta / sigma) + 1) / 2
    )


def test_nodes_are_weighted_by_their_instances_and_missing_ones_are_worth_nothing():
    ground_truth = [
        Node(category="a", centre=(0.0, 0.0, 1.0), count=3),
        Node(category="b", centre=(0.0, 0.0, 2.0)),
    ]
    assert node_reward({"a": (0.0, 0.0, 1.0)}, ground_truth) == 0.75
    assert node_reward({"b": (0.0, 0.0, 3.0), "z": (0.0, 0.0, 0.0)}, ground_truth) == pytest.approx(
        math.exp(-1) / 4
    )
    assert node_reward({}, ground_truth) == node_reward({"a": (0.0, 0.0, 1.0)}, []) == 0


def test_edges_need_a_pair_and_both_of_its_ends():
    one = Node(category="a", centre=(0.0, 0.0, 1.0))
    two = [
        one,
        Node(category="b", centre=(0.0, 0.0, 2.0)),
        Node(category="c", centre=(0.0, 1.0, 2.0)),
    ]
    assert edge_reward({"a": one.centre}, [one]) == 0
    assert edge_reward({"a": two[0].centre, "b": two[1].centre}, two) == pytest.approx(1 / 3)


def test_directions_without_length_agree_with_each_other_alone():
    ground_truth = [
        Node(category="a", centre=(1.0, 1.0, 1.0)),
        Node(category="b", centre=(1.0, 1.0, 1.0)),
    ]
    assert edge_reward(perfect(ground_truth), ground_truth) == 1
    apart = {"a": (1.0, 1.0, 1.0), "b": (1.0, 1.0, 3.0)}
    assert edge_reward(apart, ground_truth) == pytest.approx(math.exp(-2) / 2)


@FEW
@given(scenes(), st.sampled_from(["joint", "kabsch"]))
def test_graph_rewards_stay_between_their_bounds(scene, angle):
    ground_truth, output = scene
    assert 0 <= node_reward(output, ground_truth) <= 1 + 1e-12
    assert 0 <= edge_reward(output, ground_truth, angle=angle) <= 1 + 1e-9
    literal = edge_reward(output, ground_truth, angle=angle, literal=True)
    assert 0 <= literal <= len(ground_truth) ** 2 + 1e-9


# -- answers


def said(text, think="t"):
    return f"<think>{think}</think><answer>{text}</answer>"


@pytest.mark.parametrize(
    ("response", "worth"),
    [
        (said("B"), 1),
        (said("B. dog"), 1),
        (said("B) dog"), 1),
        (said("Because"), 0),
        (said("b"), 0),
        (said("A"), 0),
        (said(""), 0),
        ("B", 0),
    ],
)
def test_a_choice_is_its_first_letter(response, worth):
    assert choice_reward(response, "B") == worth


@pytest.mark.parametrize(
    ("text", "ground_truth", "worth"),
    [
        ("4", 4, 1),
        ("3", 4, 0.75),
        ("9", 4, 0),
        ("1,500 m", 1500, 1),
        ("3 m^2", 4, 0.75),
        ("about 4", 4, 0),
        ("-4", -4, 1),
        ("-3", -4, 0.75),
        ("0", 0, 1),
        ("0.1", 0, 0),
        ("nan", 4, 0),
        ("1e999", 4, 0),
        ("four", 4, 0),
        ("4 or 5", 4, 0),
        ("", 4, 0),
        ("40%", 40, 1),
        ("4.", 4, 1),
        (".5", 0.5, 1),
        ("2 degrees.", 2, 1),
    ],
)
def test_a_number_scores_by_its_relative_error(text, ground_truth, worth):
    assert number_reward(said(text), ground_truth) == pytest.approx(worth)


def test_boxes_are_compared_in_the_image_whatever_the_canvas():
    ground_truth = (Box(100, 50, 200, 150),)
    for canvas in ((400, 300), (1000, 1000), (200, 150)):
        scale = canvas[0] / 400, canvas[1] / 300
        box = [100 * scale[0], 50 * scale[1], 200 * scale[0], 150 * scale[1]]
        worth = boxes_reward(said(str(box)), ground_truth, canvas=canvas, image=(400, 300))
        assert worth == pytest.approx(1)
    half = said("[100, 50, 150, 150]")
    assert boxes_reward(half, ground_truth, canvas=(400, 300), image=(400, 300)) == pytest.approx(
        0.5
    )
    twice = said("[[100, 50, 200, 150], [0, 0, 5, 5]]")
    assert boxes_reward(twice, ground_truth, canvas=(400, 300), image=(400, 300)) == pytest.approx(
        0.5
    )
    assert boxes_reward(said("[]"), (), canvas=(4, 3), image=(4, 3)) == 1
    assert (
        boxes_reward("[100, 50, 200, 150]", ground_truth, canvas=(400, 300), image=(400, 300)) == 0
    )


def test_a_box_is_in_the_resolution_that_the_question_names():
    box = Answer(boxes=(Box(2, 1, 6, 4),))
    made = group(said("[200, 100, 600, 400]"), form=AnswerForm.BOXES, answer=box)
    assert VideoStrReward()(made)[0]["R_ans"] == 0
    query = replace(made.sample.query, text="Where is it in this 800x600 resolution video?")
    named = replace(made, sample=replace(made.sample, query=query))
    assert VideoStrReward()(named)[0]["R_ans"] == pytest.approx(1)


def test_a_transcription_scores_by_its_word_errors():
    text = {"form": AnswerForm.TEXT, "answer": Answer(text="no parking any time")}
    ocr = group(said("no parking at any time"), extra={"problem_type": "OCR"}, **text)
    assert VideoStrReward()(ocr)[0]["R_ans"] == 0.75


def test_a_box_in_space_scores_by_overlap_and_a_centre_by_distance():
    ground_truth = (Box3D(0, 0, 2, 2, 2, 2),)
    assert boxes_3d_reward(said("[0, 0, 2, 2, 2, 2]"), ground_truth) == 1
    assert boxes_3d_reward(said("[1, 0, 2, 2, 2, 2, 0.3]"), ground_truth) == pytest.approx(1 / 3)
    assert boxes_3d_reward(said("[0, 0, 3]"), ground_truth) == pytest.approx(math.exp(-1))
    flat = (Box3D(0, 0, 2, 0, 0, 0),)
    assert boxes_3d_reward(said("[0, 0, 3, 1, 1, 1]"), flat) == pytest.approx(math.exp(-1))
    assert boxes_3d_reward(said("somewhere"), ground_truth) == 0


def test_times_and_texts_score_by_what_is_shared():
    assert interval_reward(said("[2, 6]"), Interval(4, 8)) == pytest.approx(1 / 3)
    assert interval_reward(said("from 4 to 8"), Interval(4, 8)) == 1
    assert interval_reward(said("never"), Interval(4, 8)) == 0
    assert text_reward(said("a red car"), ["bus", "a red car"]) == 1
    assert text_reward(said("sky"), ["bus"]) == 0


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["<think>", "</think>", "<graph>", "</graph>", "<answer>", "</answer>", " ", "\n", "x"]
        ),
        max_size=9,
    )
)
def test_the_format_is_the_regular_expression_of_the_docstring(parts):
    response = "".join(parts)
    pattern = r"<think>.*?</think>\s*(<graph>.*?</graph>\s*)?<answer>.*?</answer>"
    either = well_formed(response) or well_formed(response, "graph")
    assert either == bool(re.fullmatch(pattern, response, re.DOTALL))
    official = r"<think>.*?</think>\s*<answer>.*?</answer>"
    assert well_formed(response) == bool(re.fullmatch(official, response, re.DOTALL))


def test_blanks_around_a_response_do_not_cost_the_format():
    assert format_reward(f"\n{said('B')} ") == 1


# -- whole rewards

NODES = (
    Node(category="star", centre=(0.0, 0.0, 1.0)),
    Node(category="cross", centre=(1.0, 0.5, 2.0)),
)
GRAPH = "<graph>{'star': [0, 0, 1], 'cross': [[1, 0.5, 2]]}</graph>"


def group(
    *texts, form=AnswerForm.CHOICE, answer=None, tokens=400, extra=None, seconds=(), frames=6
):
    images = [np.zeros((6, 8, 3), np.uint8)] * frames
    shown = media.pixels(images, times=range(frames), is_video=frames > 1, id="v")
    query = Query(id="q", text="?", media=(shown,), forms=(form,))
    answer = answer or Answer(choice="B")
    sample = Sample(id="s", query=query, target=Target(answer=answer, extra=extra or {}))
    return Group(
        sample=sample,
        rollouts=tuple(Rollout(text=text, tokens=tokens) for text in texts),
        seconds=tuple(Rollout(text=text, tokens=1) for text in seconds),
        canvas=(8, 6),
        count_tokens=len,
        frames=(tuple(range(0, frames, 2)),),
    )


def graphs(*frames):
    return {"graphs": to_plain(FrameGraph(frame=frame, nodes=NODES) for frame in frames)}


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


# -- SpaceR and Video-R1


def test_a_perfect_map_doubles_a_right_answer_and_a_worthless_one_takes_it():
    ground_truth = {"table": [[0, 3], [5, 7]], "chair": [[9, 3]]}
    drawn = f"<think><map>{ground_truth}</map></think><answer>B</answer>"
    assert with_map(1.0, drawn, ground_truth) == pytest.approx(2)
    assert with_map(1.0, drawn.replace(str(ground_truth), "nowhere"), ground_truth) == 0
    assert with_map(1.0, said("B"), ground_truth) == 1
    assert map_score(
        grid_map("<map>{'chair': [[9, 3]]}</map>", ground_truth), ground_truth
    ) == pytest.approx(1 / 3)


def spacer_reward(**settings):
    accuracy = SpacerAccuracy(**settings)
    return SpacerReward(accuracy=accuracy, temporal=TemporalReward(accuracy=accuracy))


def test_the_score_of_a_map_is_logged_where_the_accuracy_goes_by_it_and_counts_once():
    ground_truth = {"table": [[0, 3]], "chair": [[9, 3]]}
    right = "<think><map>{'table': [[0, 3]]}</map></think><answer>B</answer>"
    wrong, unread = right.replace(">B<", ">A<"), right.replace("[[0,", f"[[{'9' * 400},")
    made = group(right, wrong, unread, said("B"), extra={"map": ground_truth})
    found = spacer_reward()(made)
    assert [one.get("map") for one in found] == [0.5, None, 0, None]
    assert [one["accuracy"] for one in found] == [1.5, 0, 0, 1]
    assert numbers_of([made], [found])["rewards/map"] == [0.5, 0]
    plain = TemporalReward(accuracy=SpacerAccuracy())(made)
    without = [{name: one[name] for name in one if name != "map"} for one in found]
    assert without == plain, "the total among them"


def test_no_map_is_logged_where_none_counts():
    extra = {"map": {"table": [[0, 3]]}}
    drawn = "<think><map>{'table': [[0, 3]]}</map></think><answer>B</answer>"
    text = group(drawn, form=AnswerForm.TEXT, answer=Answer(text="B"), extra=extra)
    assert spacer_reward()(group(drawn, extra=extra))[0]["map"] == 1
    for reward, made in (
        (spacer_reward(maps=False), group(drawn, extra=extra)),
        (spacer_reward(), group(drawn)),
        (spacer_reward(), text),
    ):
        assert "map" not in reward(made)[0]


def test_the_contrast_pays_right_rollouts_of_a_group_that_uses_the_order():
    assert temporal_reward([1, 1, 0, 0], [1, 0, 0, 0]) == [0.3, 0.3, 0, 0]
    assert temporal_reward([1, 0, 0, 0], [1, 1, 0, 0]) == [0, 0, 0, 0]
    assert temporal_reward([1, 1, 1, 1, 0], [1]) == [0.3] * 4 + [0], "0.8 of it is enough"
    assert temporal_reward([1, 0], []) == [0, 0]


def test_a_length_is_only_paid_where_two_are_right():
    assert length_rewards([1, 1], [320, 513]) == [0.2, 0]
    assert length_rewards([1, 0.1], [400, 400]) == [0, 0]


def test_the_total_of_video_r1_is_the_sum_of_its_terms():
    reward = TemporalReward(accuracy=VideoR1Accuracy())
    terms = reward(group(said("B"), said("B"), said("A"), seconds=[said("A")] * 3))
    assert [one[TOTAL] for one in terms] == [pytest.approx(2.5), pytest.approx(2.5), 1]
    image = reward(group(said("B"), said("B"), seconds=[said("A")] * 2, frames=1))
    assert [one["temporal"] for one in image] == [0, 0]


# -- where ground truth comes from


def test_graphs_come_back_from_plain_data_and_from_a_file(tmp_path):
    made = (FrameGraph(frame=3, nodes=NODES),)
    assert from_plain(json.loads(json.dumps(to_plain(made))), "here") == made
    sample, path = group("").sample, tmp_path / "graphs.jsonl"
    path.write_text(json.dumps({"id": sample.id, "graphs": to_plain(made)}))
    assert graphs_of(with_extra(sample, extra_of(str(path))(None, sample))) == made
    assert graphs_of(group("", extra=graphs(3)).sample) == made


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"id": 3, "graphs": []}',
        '{"id": "s"}',
        '{"id": "s", "graphs": [{"frame": -1, "nodes": []}]}',
        '{"id": "s", "graphs": [{"frame": 0, "nodes": [{"category": "a", "centre": [0, 1]}]}]}',
        '{"id": "s", "graphs": [{"frame": 0, "nodes": [{"category": "", "centre": [0, 1, 2]}]}]}',
        '{"id": "s", "graphs": []}\n{"id": "s", "graphs": []}',
    ],
)
def test_a_damaged_file_of_graphs_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "graphs.jsonl"
    path.write_text(line)
    with pytest.raises(DataError, match=r"graphs\.jsonl, line [12]"):
        extra_of(str(path))


def test_official_maps_are_found_by_video(tmp_path):
    path = tmp_path / "maps.jsonl"
    path.write_text('{"video_id": "scene1", "cognitive_map": {"table": [[0, 3]]}}')
    found = maps_extra(str(path))
    sample = replace(group("").sample, group="videos/scene1.mp4")
    assert found(None, sample) == {"map": {"table": [[0, 3]]}}


def test_a_sample_without_a_ground_truth_for_its_form_is_refused():
    with pytest.raises(UsageError, match="mask"):
        ground_truth_of(group("", form=AnswerForm.MASK).sample)
    with pytest.raises(DataError, match="number"):
        ground_truth_of(group("", form=AnswerForm.NUMBER).sample)


@pytest.mark.parametrize(
    "name", ["video_str.answers", "video_r1.rewards", "video_r1.shuffled", "spacer.rewards"]
)
def test_examples_in_docstrings_are_right(name):
    found = doctest.testmod(importlib.import_module(f"harness.trainers.{name}"))
    assert found.attempted
    assert not found.failed
