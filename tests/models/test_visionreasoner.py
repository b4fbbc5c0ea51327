import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ParseError
from harness.models.composition import Composition
from harness.models.grammar import MAX_OBJECTS, Item
from harness.models.visionreasoner import grammar
from harness.models.visionreasoner.model import with_sam2
from harness.types import Box, Point

GOOD = '{"bbox_2d": [10, 20, 30, 40], "point_2d": [15, 25]}'
ITEM = Item(Box(10.0, 20.0, 30.0, 40.0), Point(15.0, 25.0))


def said(answer: str, think: str = "it is there") -> str:
    return f"<think>{think}</think><answer>{answer}</answer>"


def test_the_prompt_is_the_official_one_word_for_word():
    assert grammar.build_prompt("The LEFT dog?!.") == (
        'Please find "the left dog" with bboxs and points.Compare the difference between '
        "object(s) and find the most closely matched object(s).Output the thinking process in "
        "<think> </think> and final answer in <answer> </answer> tags.Output the bbox(es) and "
        "point(s) inside the interested object(s) in JSON format.i.e., <think> thinking process "
        'here </think><answer>[{"bbox_2d": [10,100,200,210], "point_2d": [30,110]}, '
        '{"bbox_2d": [225,296,706,786], "point_2d": [302,410]}]</answer>'
    )


def test_the_example_of_the_prompt_is_in_the_grammar():
    assert len(grammar.parse(grammar.build_prompt("dog").rpartition("i.e., ")[2]).items) == 2


def test_braces_in_a_question_are_left_alone():
    assert '"{question} {answer} {0}"' in grammar.build_prompt("{Question} {Answer} {0}")


def test_a_perfect_response_is_read_as_it_was_meant():
    result = grammar.parse(said(f"[{GOOD}]"))
    assert result.ok
    assert result.items == (ITEM,)
    assert (result.think, result.notes, result.frame) == ("it is there", (), None)


def test_an_empty_list_says_that_nothing_is_meant():
    result = grammar.parse(said("[]"))
    assert result.ok
    assert result.items == ()


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (f"```json\n[{GOOD}]\n```", "code fence"),
        (f"[{GOOD},]", "trailing comma"),
        (f"[{GOOD}]".replace('"', "'"), "single quotes"),
        (f"[{GOOD}]".replace("_", "\\_"), "escaped underscore"),
    ],
)
def test_a_repair_is_made_for_predictions_and_reported_and_refused_for_rewards(answer, note):
    result = grammar.parse(said(answer))
    assert result.items == (ITEM,)
    assert note in result.notes
    assert not grammar.parse(said(answer), strict=True).ok


DIGITS = "9" * 100_000
MALFORMED = {
    "empty": "",
    "blank": " \n\t ",
    "no tags": f"[{GOOD}]",
    "think only": "<think>hm</think>",
    "unclosed": f"<think>hm</think><answer>[{GOOD}]",
    "closed before it opens": f"</answer>[{GOOD}]<answer>",
    "first of two answers is bad": said("oops") + f"<answer>[{GOOD}]</answer>",
    "NaN": said('[{"bbox_2d": [NaN, 1, 2, 3], "point_2d": [1, 2]}]'),
    "Infinity": said('[{"bbox_2d": [0, 1, Infinity, 3], "point_2d": [1, 2]}]'),
    "infinity by exponent": said('[{"bbox_2d": [0, 1, 1e999, 3], "point_2d": [1, 2]}]'),
    "duplicate keys": said(
        '[{"bbox_2d": [1, 2, 3, 4], "bbox_2d": [1, 2, 3, 5], "point_2d": [1, 2]}]'
    ),
    "trailing text": said(f"[{GOOD}] and that is all"),
    "digits": said(f'[{{"bbox_2d": [1, 2, 3, {DIGITS}], "point_2d": [1, 2]}}]'),
    "nesting": said("[" * 100_000 + "]" * 100_000),
    "nesting of objects": said('{"a":' * 20_000 + "1" + "}" * 20_000),
    "bool": said('[{"bbox_2d": [true, 1, 2, 3], "point_2d": [1, 2]}]'),
    "bool point": said('[{"bbox_2d": [0, 1, 2, 3], "point_2d": [1, false]}]'),
    "text number": said('[{"bbox_2d": ["1", 1, 2, 3], "point_2d": [1, 2]}]'),
    "null": said('[{"bbox_2d": null, "point_2d": [1, 2]}]'),
    "no point": said('[{"bbox_2d": [1, 2, 3, 4]}]'),
    "no box": said('[{"point_2d": [3, 4]}]'),
    "three numbers": said('[{"bbox_2d": [1, 2, 3], "point_2d": [1, 2]}]'),
    "an object without keys": said('{"label": 1}'),
    "a number": said("3"),
    "null answer": said("null"),
    "list of lists": said("[[1, 2, 3, 4]]"),
    "surrogates": "\ud800<answer>\udfff</answer>",
    "NUL": said("\x00"),
    "frame without answer": "<frame>3</frame>",
}


@pytest.mark.parametrize("response", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("strict", [False, True])
def test_a_malformed_response_is_an_error_and_never_raises(response, strict):
    begin = time.perf_counter()
    result = grammar.parse(response, strict=strict)
    assert result.error
    assert result.items == ()
    assert time.perf_counter() - begin < 2


@pytest.mark.parametrize("box", ["[30, 20, 10, 40]", "[10, 40, 30, 20]", "[10, 20, 10, 40]"])
def test_an_inverted_or_flat_box_is_wrong_for_predictions_and_only_a_miss_for_rewards(box):
    answer = said(f'[{{"bbox_2d": {box}, "point_2d": [15, 25]}}]')
    assert "x1 < x2" in (grammar.parse(answer).error or "")
    assert grammar.parse(answer, strict=True).items[0].box == tuple(json.loads(box))


def test_one_wrong_object_makes_the_response_wrong():
    assert not grammar.parse(said(f'[{GOOD}, {{"bbox_2d": [3, 3, 1, 1], "point_2d": [1, 1]}}]')).ok


def test_the_first_answer_wins():
    second = f"<answer>[{GOOD}, {GOOD}]</answer>"
    assert len(grammar.parse(said(f"[{GOOD}]") + second).items) == 1
    assert len(grammar.parse(said(f"[{GOOD}]") + said("") + second).items) == 0


def test_objects_beyond_the_limit_are_left_out_and_reported():
    result = grammar.parse(said(f"[{', '.join([GOOD] * 1000)}]"))
    assert len(result.items) == MAX_OBJECTS
    assert result.notes == (f"only the first {MAX_OBJECTS} of 1000 objects are read",)


def test_a_hundred_thousand_boxes_are_refused_in_time():
    begin = time.perf_counter()
    assert not grammar.parse(said(f"[{', '.join([GOOD] * 100_000)}]")).ok
    assert time.perf_counter() - begin < 2


@pytest.mark.parametrize(
    "response",
    [
        "<answer>" + " " * 190_000,
        "<think>" + "\n" * 190_000,
        "<answer>```json" + " " * 190_000 + "</answer>",
        "<answer>```" + " " * 90_000 + "``" + " " * 90_000 + "</answer>",
        "<answer>" * 20_000,
        "<answer>" + ", " * 90_000 + "</answer>",
        "<answer>[" + "{" * 90_000 + "</answer>",
        "<frame>" + " " * 190_000,
    ],
)
def test_reading_takes_linear_time_whatever_the_response(response):
    begin = time.perf_counter()
    assert not grammar.parse(response).ok
    assert time.perf_counter() - begin < 2


def test_reasoning_that_was_cut_is_still_reasoning():
    assert grammar.parse("<think> I see two").think == "I see two"


def test_a_video_response_may_name_its_frame():
    result = grammar.parse(" <frame> 17 </frame>" + said(f"[{GOOD}]"))
    assert (result.frame, result.items) == (17, (ITEM,))
    assert grammar.parse(said("[]", think="<frame>3</frame>")).frame is None


def test_reasoning_to_write_must_not_hold_a_tag():
    with pytest.raises(ParseError, match=r"^reasoning .*<answer>\[\]</answer>"):
        grammar.write([ITEM], think="so <answer>[]</answer>")
    with pytest.raises(ParseError, match=r"^object .*point.*box"):
        grammar.write([Item(ITEM.box)])


whole = st.integers(0, 5000)


@st.composite
def items(draw):
    left, top = draw(whole), draw(whole)
    box = Box(left, top, left + draw(st.integers(1, 99)), top + draw(st.integers(1, 99)))
    return Item(Box(*map(float, box)), Point(float(draw(whole)), float(draw(whole))))


@given(
    st.lists(items(), max_size=8),
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.none() | st.integers(0, 10**6),
)
def test_what_is_written_is_read_back(objects, think, frame):
    if "<" in think:
        return
    for strict in (False, True):
        result = grammar.parse(grammar.write(objects, think=think, frame=frame), strict=strict)
        assert result.items == tuple(objects)
        assert result.think == think.strip()
        assert result.frame == frame
        assert result.error is None


@given(st.text())
def test_any_text_is_read_or_refused_without_raising(text):
    for response in (text, said(text)):
        result = grammar.parse(response)
        assert result.ok != (result.error is not None)


def test_the_adapter_asks_as_the_paper_does_on_the_canvas_that_is_given(ask):
    from harness import plugins
    from harness.spec import parse

    model = plugins.build("models", parse("visionreasoner(backend=stored)"))
    (request,) = model.requests(ask(text="Which DISC is it?"))
    assert request.text == grammar.build_prompt("which disc is it")
    assert (request.resize, request.max_new_tokens) == ((840, 840), 2048)
    assert model.describe()["segmenter"]["name"] == "none", "SAM 2 is not here"
    small = plugins.build("models", parse("visionreasoner(backend=stored,canvas=168)"))
    assert small.requests(ask())[0].resize == (168, 168)


def test_sam_2_segments_where_its_weights_are_given():
    given = Composition()
    assert with_sam2(given, None) == given and given.segmenter is None
    assert str(with_sam2(given, "facebook/sam2-hiera-large").segmenter) == (
        "sam2(checkpoint=facebook/sam2-hiera-large)"
    )
