import json
import re
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import media, plugins
from harness.errors import ParseError
from harness.models.dr2seg import grammar
from harness.models.dr2seg.grammar import TAGS, DR2Seg, description, reasoning_text
from harness.models.dr2seg.model import dr2seg
from harness.models.grammar import MAX_OBJECTS, Item, well_formed
from harness.models.visionreasoner import grammar as visionreasoner
from harness.segmentation import Segmenter
from harness.testing import ScriptedChat
from harness.types import Answer, AnswerForm, Box, FailureKind, Point, Query

GOOD = '{"bbox_2d": [10, 20, 30, 40], "point_2d": [15, 25]}'
ITEM = Item(Box(10.0, 20.0, 30.0, 40.0), Point(15.0, 25.0))
FORMS = ("sam2", "sam3")


def said(answer, think="it is there", words="the red cup", form="sam2"):
    tag = grammar.TAGS[form]
    return f"<think>{think}</think><{tag}>{words}</{tag}><answer>{answer}</answer>"


def test_the_prompt_is_visionreasoners_with_a_description_added():
    added = ", the explicit referring description for object localization in "
    tag = "<description> </description>,"
    example = "<description> referring description here </description>"
    ours = grammar.build_prompt("The LEFT dog?!.")
    assert added + tag in ours
    assert example in ours
    plain = ours.replace(f"{added}{tag} and", " and").replace(example, "")
    assert plain == visionreasoner.build_prompt("The LEFT dog?!.")


@pytest.mark.parametrize("form", FORMS)
def test_the_example_of_each_prompt_is_in_its_own_grammar(form):
    example = grammar.build_prompt("dog", form=form).rpartition("i.e., ")[2]
    assert well_formed(example, TAGS[form])
    assert len(grammar.parse(example, form=form).items) == 2
    assert description(example, form=form)


@pytest.mark.parametrize("form", FORMS)
def test_braces_in_a_question_are_left_alone(form):
    assert '"{question} {answer} {0}"' in grammar.build_prompt("{Question} {Answer} {0}", form=form)


def test_the_sam3_prompt_asks_for_no_points():
    requested = grammar.build_prompt("dog", form="sam3")
    assert "point" not in requested
    assert "<target_desc>" in requested


def test_a_perfect_response_is_read_as_it_was_meant():
    result = grammar.parse(said(f"[{GOOD}]"))
    assert (result.items, result.think, result.phrase) == ((ITEM,), "it is there", "")
    assert description(said(f"[{GOOD}]")) == "the red cup"


def test_in_the_sam3_form_the_description_is_the_phrase():
    result = grammar.parse(said(f"[{GOOD}]", form="sam3"), form="sam3")
    assert result.items == (Item(ITEM.box),)
    assert result.phrase == "the red cup"


def test_boxes_that_are_none_are_left_out_and_counted():
    answer = f'[{GOOD}, {{"bbox_2d": [9, 9, 9, 20]}}, {{"bbox_2d": ["a", 1, 2, 3]}}, 7]'
    result = grammar.parse(said(answer, form="sam3"), form="sam3")
    assert result.items == (Item(ITEM.box),)
    assert any("3 of 4" in note for note in result.notes)


@pytest.mark.parametrize(
    "answer", ["[]", '[{"bbox_2d": [5, 5, 5, 9]}]', "[[1, 2]]", "oops", '{"bbox_2d": [1, 2, 3, 4]}']
)
def test_without_a_valid_box_the_description_alone_is_the_prompt(answer):
    result = grammar.parse(said(answer, form="sam3"), form="sam3")
    assert result.ok
    assert (result.items, result.phrase) == ((), "the red cup")
    assert any("phrase" in note for note in result.notes)


def test_without_an_answer_at_all_the_description_alone_is_the_prompt():
    result = grammar.parse("<target_desc>the cup</target_desc>", form="sam3")
    assert (result.ok, result.phrase) == (True, "the cup")


def test_neither_box_nor_description_says_that_nothing_is_meant():
    result = grammar.parse(said("[]", words="", form="sam3"), form="sam3")
    assert (result.ok, result.items, result.phrase) == (True, (), "")


@pytest.mark.parametrize("answer", ["oops", '[{"bbox_2d": [5, 5, 5, 9]}]', "[1]", "7"])
def test_no_valid_box_and_no_description_is_outside_the_grammar(answer):
    assert not grammar.parse(said(answer, words=" ", form="sam3"), form="sam3").ok


def test_one_wrong_object_makes_a_response_of_the_sam2_form_wrong():
    assert not grammar.parse(said(f'[{GOOD}, {{"bbox_2d": [1, 2, 3, 4]}}]')).ok


def test_rewards_read_without_repairs():
    fenced = said(f"```json\n[{GOOD}]\n```")
    assert grammar.parse(fenced).ok
    assert not grammar.parse(fenced, strict=True).ok
    assert not DR2Seg(strict=True).parse(fenced).ok


@pytest.mark.parametrize("form", FORMS)
def test_no_more_objects_are_read_than_a_grammar_holds(form):
    many = "[" + ", ".join([GOOD] * (MAX_OBJECTS + 5)) + "]"
    assert len(grammar.parse(said(many, form=form), form=form).items) == MAX_OBJECTS


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ("<think>a b</think>x", "a b"),
        ("<think>a b<description>c</description>", "<think>a b"),
        ("a b <description>c</description><answer>[]</answer>", "a b"),
        ("no tags at all", "no tags at all"),
        ("<think></think><description>c</description>", ""),
        ("", ""),
    ],
)
def test_reasoning_counts_also_where_its_tag_is_left_out(response, words):
    assert reasoning_text(response) == words


@pytest.mark.parametrize(
    ("change", "right"),
    [
        (lambda text: text, True),
        (lambda text: text.replace("</think><", "</think>\n <"), True),
        (lambda text: text + "\n", False),
        (lambda text: " " + text, False),
        (lambda text: text.replace("</think>", ""), False),
        (lambda text: text.replace("</think>", "</think>so"), False),
        (lambda text: text.replace("<description>the red cup</description>", ""), False),
        (lambda text: text.replace("</answer>", ""), False),
        (lambda text: text.replace("<answer>", ""), False),
        (lambda text: text + text, True),  # as the lazy expression has it
    ],
)
def test_a_response_is_well_formed_only_as_a_whole(change, right):
    assert well_formed(change(said(f"[{GOOD}]")), "description") is right


PARTS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<description>",
        "</description>",
        "<answer>",
        "</answer>",
        " ",
        "\n",
        "a",
        "<",
    ]
)
OFFICIAL = re.compile(
    r"<think>.*?</think>\s*<description>.*?</description>\s*<answer>.*?</answer>", re.DOTALL
)


@given(st.lists(PARTS, max_size=14), st.booleans())
def test_well_formed_is_the_regular_expression(parts, framed):
    text = "".join(parts)
    if framed:
        text = f"<think>{text}</answer>"
    assert well_formed(text, "description") is (OFFICIAL.fullmatch(text) is not None)


def test_hostile_responses_take_linear_time():
    hostile = [
        "<think>" * 20_000,
        "<think>" + "</think> " * 40_000 + "</answer>",
        "<think></think>" + " " * 300_000 + "</answer>",
        "<think></think><description>" + "</description>" * 30_000 + "</answer>",
    ]
    started = time.perf_counter()
    for text in hostile:
        assert not well_formed(text, "description")
        for form in FORMS:
            grammar.parse(text, form=form)
            reasoning_text(text, form=form)
    assert time.perf_counter() - started < 10


@given(st.text(max_size=80) | st.lists(PARTS, max_size=12).map("".join))
def test_reading_never_raises(text):
    for form in FORMS:
        result = grammar.parse(text, form=form)
        assert result.error is None or result.items == ()
        assert isinstance(description(text, form=form), str)


WHOLE = st.integers(0, 840)
BOXES = st.tuples(WHOLE, WHOLE, WHOLE, WHOLE).map(
    lambda b: Item(
        Box(
            *map(
                float, (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]) + 1, max(b[1], b[3]) + 1)
            )
        ),
        Point(float(b[0]), float(b[1])),
    )
)


@settings(deadline=None)
@given(st.lists(BOXES, max_size=4), st.sampled_from(FORMS))
def test_writing_and_reading_are_inverse(items, form):
    text = grammar.write(items, think="because", description="the cup", form=form, frame=3)
    result = grammar.parse(text, form=form)
    assert result.frame == 3
    assert [item.box for item in result.items] == [item.box for item in items]
    assert well_formed(text.removeprefix("<frame>3</frame>"), TAGS[form])
    assert result.phrase == ("the cup" if form == "sam3" else "")


@pytest.mark.parametrize("bad", ["</description>", "<answer>", "<target_desc>"])
def test_no_text_with_a_tag_is_written(bad):
    with pytest.raises(ParseError):
        grammar.write([ITEM], description=f"a {bad} b")


@dataclass(frozen=True)
class Tells(Segmenter):
    """A segmenter that remembers its prompts, and answers with the left half."""

    prompts: list
    name: str = "tells"

    def segment(self, image, prompts):
        self.prompts.extend(prompts)
        mask = np.zeros(image.shape[:2], dtype=bool)
        mask[:, : image.shape[1] // 2] = True
        return [mask] * len(prompts)


def asked(form=AnswerForm.MASK, size=(420, 210)):
    shown = media.pixels(
        [np.zeros((size[1], size[0], 3), np.uint8)], times=(0,), is_video=False, id="x"
    )
    return Query(id="q", text="the dog", media=(shown,), forms=(form,))


@pytest.fixture
def prompts():
    return []


@pytest.fixture
def model(prompts):
    chat = ScriptedChat(responses=(), size=grammar.CANVAS)
    return lambda form: dr2seg(form=form, backend=chat, segmenter=Tells(prompts))


def test_the_segmenter_gets_box_and_phrase_in_the_sam3_form(model, prompts):
    response = said('[{"bbox_2d": [0, 0, 420, 840]}]', form="sam3")
    answer = model("sam3").read(asked(), [response]).answer
    (prompt,) = prompts
    assert prompt.box == Box(0.0, 0.0, 210.0, 210.0)
    assert (prompt.phrase, prompt.positive) == ("the red cup", ())
    assert not answer.no_target


def test_the_segmenter_gets_box_and_point_in_the_sam2_form(model, prompts):
    model("sam2").read(asked(), [said(f"[{GOOD}]")])
    (prompt,) = prompts
    assert (prompt.phrase, len(prompt.positive)) == ("", 1)


def test_a_phrase_alone_is_an_answer_and_not_no_target(model, prompts):
    prediction = model("sam3").read(asked(), [said("[]", form="sam3")])
    (prompt,) = prompts
    assert (prompt.box, prompt.phrase) == (None, "the red cup")
    assert prediction.answer.masks[0].area == 210 * 210
    assert not prediction.answer.no_target


@pytest.mark.parametrize("form", [AnswerForm.COUNT, AnswerForm.BOXES, AnswerForm.POINTS])
def test_a_phrase_alone_is_no_box_and_no_zero(form, model, prompts):
    prediction = model("sam3").read(asked(form), [said("[]", form="sam3")])
    assert prediction.failure.kind is FailureKind.PARSE
    assert "'the red cup'" in prediction.failure.message
    assert prediction.answer is None and prompts == []


@pytest.mark.parametrize("form", FORMS)
def test_nothing_meant_is_written_and_read(form, model, prompts):
    (text,) = model(form).write(asked(), Answer(no_target=True))
    prediction = model(form).read(asked(), [text])
    assert prediction.answer.no_target
    assert prompts == []


def test_a_response_outside_the_grammar_is_a_failure(model):
    failure = model("sam2").read(asked(), ["I cannot say."]).failure
    assert failure.kind is FailureKind.PARSE


def test_boxes_are_given_back_in_the_images_pixels(model):
    for form in FORMS:
        answer = Answer(boxes=(Box(10.0, 20.0, 100.0, 200.0),))
        (text,) = model(form).write(asked(AnswerForm.BOXES), answer)
        assert model(form).read(asked(AnswerForm.BOXES), [text]).answer.boxes == answer.boxes


def test_the_record_tells_prompt_and_form(model):
    described = model("sam3").describe()
    assert described["prompt"] == "dr2seg/sam3"
    assert "<target_desc>" in described["prompt_text"]
    json.dumps(described)


def test_the_canvas_is_a_setting(model):
    small = replace(model("sam2"), prompt=DR2Seg("sam2", (168, 168)))
    assert small.requests(asked())[0].resize == (168, 168)
    assert model("sam2").requests(asked())[0].resize == (840, 840)


def test_it_is_found_by_its_name():
    assert plugins.load("models", "dr2seg") is dr2seg
