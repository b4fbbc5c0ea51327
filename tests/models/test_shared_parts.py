"""What the methods share: prompts, what stands around an answer, answers, the last view."""

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import plugins
from harness.errors import HarnessError, ParseError
from harness.models.answers import box_answer, combine_answers
from harness.models.envelope import GRAMMAR_TAGS, begin_response, read_response
from harness.models.grammar import Item
from harness.models.prompts import fill
from harness.models.segmenters.last_view import LastView
from harness.spec import parse
from harness.types import Answer, AnswerForm, Box, Point

ITEM = Item(Box(1, 2, 3, 4))


@pytest.mark.parametrize("name", ["prompts", "envelope", "segmenters.places"])
def test_examples_in_docstrings_are_right(name):
    found = doctest.testmod(importlib.import_module(f"harness.models.{name}"))
    assert found.attempted
    assert not found.failed


def test_a_question_keeps_the_braces_it_came_with():
    output = fill("{Question}: {Answer}", Question="{Question} or {Answer}", Answer="[]")
    assert output == "{Question} or {Answer}: []"


@pytest.mark.parametrize("method", ["dr2seg", "seg_zero", "videoseg_r1"])
def test_a_network_that_knows_no_prompt_can_be_asked_in_few_words(method):
    long, short = (
        plugins.build("models", parse(f"{method}(backend=stored{more})")).prompt
        for more in ("", ",prompt=short")
    )
    assert short.render("The {Answer}.") == 'Please find "the {answer}"'
    assert (
        "the {answer}" in long.render("The {Answer}.") and len(long.render("The {Answer}.")) > 300
    )
    assert short.render("It.", numbered=(2, 5)).endswith(short.render("It."))
    assert short.render("It.", numbered=(2, 5)) != short.render("It.")
    response = long.write([Item(Box(1, 2, 9, 9), point=Point(3, 4), second=Point(5, 6))])
    assert short.parse(response).items == long.parse(response).items != ()


@given(
    think=st.text(max_size=30)
    .map(str.strip)
    .filter(lambda text: not any(map(text.count, GRAMMAR_TAGS))),
    frame=st.none() | st.integers(0, 10**8),
)
@settings(max_examples=50, deadline=None)
def test_frame_and_reasoning_are_read_as_they_were_written(think, frame):
    response = begin_response(think, frame=frame) + "<answer>x</answer>"
    read = read_response(response, lambda rest: ((ITEM,), ("mended",)))
    assert (read.think, read.frame, read.items, read.notes) == (think, frame, (ITEM,), ("mended",))


@pytest.mark.parametrize("tag", GRAMMAR_TAGS)
def test_reasoning_that_holds_a_tag_cannot_be_written(tag):
    with pytest.raises(ParseError, match=f"^reasoning .*so {tag}$"):
        begin_response(f"so {tag}", frame=None)


def test_reasoning_can_be_left_out_with_its_tags():
    assert begin_response(None, frame=4) == "<frame>4</frame>"
    assert begin_response("", frame=None) == "<think></think>"


def test_an_answer_that_cannot_be_read_keeps_what_stood_before_it():
    def read(rest):
        raise ParseError("answer", expected="a list", found=rest)

    output = read_response("<frame>2</frame><think>why</think>no", read)
    assert (output.frame, output.think, output.items) == (2, "why", ())
    assert output.error is not None and "no" in output.error and "why" not in output.error


def test_a_grammar_that_fails_is_a_fault_of_the_model_and_names_the_response():
    with pytest.raises(HarnessError, match=r"'1\.2\.3'.*ValueError.*line \d+.*grammar"):
        read_response("1.2.3", lambda rest: ((Item(point=Point(float(rest), 0.0)),), ()))


def test_an_image_is_looked_at_once_until_another_comes():
    looked = []
    last = LastView()
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)

    def look(image):
        looked.append(image.shape)
        return len(looked)

    assert [last.get(one, look) for one in (image, image.copy(), image)] == [1, 1, 1]
    assert last.get(image.reshape(4, 2, 3), look) == 2, "equal bytes of another shape"
    assert last.get(image[:, ::-1], look) == 3
    assert last.get(image, look) == 4


def test_a_look_that_fails_is_tried_again():
    last = LastView()
    image = np.zeros((2, 2, 3), np.uint8)
    with pytest.raises(MemoryError):
        last.get(image, lambda image: (_ for _ in ()).throw(MemoryError))
    assert last.get(image, lambda image: "seen") == "seen"


def test_nothing_is_meant_only_if_every_form_says_so():
    nothing = box_answer(AnswerForm.COUNT, [], phrase="")
    something = box_answer(AnswerForm.BOXES, [ITEM], phrase="")
    assert combine_answers([nothing]) == Answer(count=0, boxes=(), no_target=True)
    assert combine_answers([nothing, nothing]).no_target
    assert not combine_answers([nothing, something]).no_target
    assert not combine_answers([something, nothing]).no_target


def test_a_phrase_alone_is_no_place():
    with pytest.raises(ParseError, match="'the red cup'"):
        box_answer(AnswerForm.BOXES, [], phrase="the red cup")
