"""The pseudo-label and the rewards of a group of responses are those of VR-TTRL, Section 3."""

import itertools
import json

import numpy as np
import pytest

from harness.models.test_time.consensus import Group
from harness.models.visionreasoner.grammar import CANVAS
from harness.models.visionreasoner.scoring import THRESHOLDS

P = {"bbox_2d": [0, 0, 99, 99], "point_2d": [50, 50]}
Q = {"bbox_2d": [500, 500, 700, 700], "point_2d": [600, 600]}
OUTSIDE = {"bbox_2d": [0, 0, 99, 99], "point_2d": [110, 50]}


def said(*objects, think="it is there"):
    return f"<think>{think}</think><answer>{json.dumps(objects)}</answer>"


def group(*texts, canvas=CANVAS, **given):
    return Group(tuple(texts), canvas, **given)


def test_equal_responses_agree_wholly_and_the_first_is_the_label():
    alike = group(*[said(P)] * 8)
    assert alike.consensus.tolist() == [21.0] * 8
    assert alike.label("consensus") == alike.label("anti_consensus") == 0
    assert alike.rewards(0) == [7.0] * 8
    assert alike.agreement(0) == 3.0


def test_the_label_is_among_those_that_agree_and_the_others_earn_less():
    several = group(said(Q), said(P), said(P), said(Q), *[said(P)] * 4)
    assert several.label("consensus") == 1
    assert several.label("anti_consensus") == 0
    rewards = several.rewards(1)
    assert [rewards[place] for place in (0, 3)] == [4.0, 4.0]
    assert {rewards[place] for place in (1, 2, 4, 5, 6, 7)} == {7.0}


def test_a_response_is_scored_against_the_label_in_the_place_of_the_truth():
    one, other = said(OUTSIDE), said(P)
    both = group(one, other)
    # The point of the prediction has to lie in its own box; that of the ground truth need not.
    assert both.scores[0, 1] == 2.0
    assert group(said(P), said({**OUTSIDE, "point_2d": [70, 50]})).scores[0, 1] == 3.0
    assert both.scores[0, 0] == 2.0, "against itself too"
    assert both.rewards(0)[0] == 6.0
    inside, beside = ({**P, "point_2d": [x, 50]} for x in (95, 105))
    unlike = group(said(inside), said(beside))
    assert unlike.consensus.tolist() == [2.0, 3.0], "each as the ground truth of the other"
    assert unlike.rewards(1) == [7.0, 6.0]


@pytest.mark.parametrize(
    "broken", ["", "no answer", "<answer>[]</answer>", said({"bbox_2d": [1, 2, 3, 4]}), said(1)]
)
def test_a_response_that_cannot_be_read_is_no_label_and_keeps_its_format_reward(broken):
    some = group(broken, said(P), said(P))
    assert some.parsed == [1, 2]
    assert some.label("consensus") == some.label("anti_consensus") == 1
    assert some.label("random", number=0.99) == 2
    assert some.rewards(1)[0] < 5
    none = group(broken, broken)
    assert none.label("consensus") is None and none.label("random") is None
    assert none.rewards(None) == [some.rewards(1)[0]] * 2
    assert group(broken, said(P)).label("consensus") == 1, "one that can be read is the label"


def test_rewards_follow_the_responses_in_whatever_order_they_come():
    texts = [said(P), said(Q), said(P, Q), said(P, P), "nothing"]
    whole = group(*texts)
    chosen = texts[whole.label("consensus")]
    for order in itertools.permutations(range(5)):
        other = group(*[texts[place] for place in order])
        assert np.array_equal(other.consensus, whole.consensus[list(order)])
        label = other.label("consensus")
        if other.texts[label] == chosen:
            rewards = whole.rewards(whole.label("consensus"))
            assert other.rewards(label) == [rewards[place] for place in order]


def test_thresholds_are_limits_in_the_frame_of_840_whatever_the_canvas():
    def scores(moved, preset, canvas=CANVAS):
        scale = canvas[0] / CANVAS[0]
        other = {"bbox_2d": [v + moved for v in P["bbox_2d"]], "point_2d": [50 + moved] * 2}
        both = [
            said({name: [v * scale for v in values] for name, values in one.items()})
            for one in (P, other)
        ]
        return group(*both, canvas=canvas, thresholds=THRESHOLDS[preset]).scores[0, 1]

    moves = {"loose": (14, 20), "base": (9, 11), "strict": (4, 6)}
    for preset, (near, far) in moves.items():
        assert scores(near, preset) == scores(near, preset, (168, 168)) == 3.0
        assert scores(far, preset) < 3.0


def test_a_video_is_agreed_on_in_one_frame_that_must_be_named():
    some = group(
        "<frame>1</frame>" + said(P), "<frame>2</frame>" + said(P), said(P), must_name_frame=True
    )
    assert some.parsed == [0, 1]
    assert some.scores[0, 1] == 0.0 and some.scores[1, 1] == 3.0


def test_frequency_pays_what_is_said_often_and_entropy_pays_all_alike():
    some = group(said(P), said(P, think="another thought"), said(Q), "nothing")
    assert some.frequency_rewards(0.0) == [0.5, 0.5, 0.25, 0.0]
    with_entropy = some.frequency_rewards(0.75)
    lost = {round(a - b, 9) for a, b in zip(some.frequency_rewards(0.0), with_entropy, strict=True)}
    assert lost == {0.75 * 0.75}, "1/2, 1/4 and 1/4 have 3/4 of the entropy of four"
    assert group(*[said(P)] * 3).frequency_rewards(0.75) == [1.0] * 3


def test_the_papers_words_are_sums_points_anywhere_and_matchings_of_their_own():
    """`semantics=paper`, by hand from Section 3.2.2; the coded accuracy differs in each."""

    def scores(*texts):
        return [
            group(*texts, semantics=semantics).scores[0, 1] for semantics in ("official", "paper")
        ]

    moved = {**P, "bbox_2d": [0, 0, 99, 111]}  # differs by 12: 3 in the mean of four
    assert scores(said(P), said(moved)) == [3.0, 2.0]
    assert scores(said(OUTSIDE), said({**P, "point_2d": [115, 50]})) == [2.0, 3.0]
    # The box of one object and the point of another: one matching cannot have both pairs.
    crossed = [{**P, "point_2d": [600, 600]}, {**Q, "point_2d": [50, 50]}]
    assert scores(said(*crossed), said(P, Q)) == [2.0, 3.0]


def test_another_reading_of_the_accuracy_may_choose_another_label():
    texts = [said({**P, "bbox_2d": [0, 0, 99, bottom]}) for bottom in (99, 135, 171, 179)]
    chosen = [group(*texts, semantics=name).label("consensus") for name in ("official", "paper")]
    assert chosen == [1, 2], "36 / 4 is less than 10 and 36 is not: the last two alone agree"
