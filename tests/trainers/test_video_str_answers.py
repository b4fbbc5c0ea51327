"""Video-STR's rewards of answers, by form."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.models.grammar import well_formed
from harness.trainers.video_str.answers import (
    boxes_3d_reward,
    boxes_reward,
    choice_reward,
    format_reward,
    interval_reward,
    number_reward,
    text_reward,
)
from harness.trainers.video_str.rewards import VideoStrReward
from harness.types import Answer, AnswerForm, Box, Box3D, Interval

from .video_str_groups import group, said


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
