"""Answers and predictions survive JSON; files of others are checked before they are scored."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError, UsageError
from harness.interchange.answers import row_to_answer, row_to_prediction
from harness.interchange.journal_form import (
    answer_to_json,
    as_requested,
    prediction_from_json,
    prediction_to_json,
)
from harness.interchange.rows import read_rows
from harness.masks import Rle, SoftMask
from harness.media import pixels
from harness.plain import from_plain, to_plain
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Box3D,
    Call,
    Failure,
    FailureKind,
    Interval,
    Parsed,
    ParsedObject,
    Point,
    Prediction,
    Query,
    Request,
    Shown,
    Usage,
)

numbers = st.floats(-1e6, 1e6)
text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20)
boxes = st.builds(Box, numbers, numbers, numbers, numbers)
masks = st.builds(
    lambda seed: Rle.from_array(np.random.default_rng(seed).random((5, 7)) < 0.5),
    st.integers(0, 99),
)
soft = st.builds(
    lambda seed: SoftMask.from_array(np.random.default_rng(seed).random((3, 4))),
    st.integers(0, 99),
)


def maybe(strategy):
    return st.none() | st.lists(strategy, max_size=3).map(tuple)


answers = st.builds(
    Answer,
    masks=maybe(masks),
    instances=maybe(maybe(masks).filter(bool)),
    soft_masks=maybe(soft),
    boxes=maybe(boxes),
    box_scores=maybe(numbers),
    points=maybe(st.builds(Point, numbers, numbers)),
    box_track=maybe(st.none() | boxes),
    boxes_3d=maybe(st.builds(Box3D, *[numbers] * 6)),
    count=st.none() | st.integers(0, 99),
    choice=st.none() | text,
    number=st.none() | numbers,
    interval=st.none() | st.builds(Interval, numbers, numbers),
    text=st.none() | text,
    no_target=st.booleans(),
)


@given(answers)
def test_an_answer_survives_json(answer):
    assert from_plain(Answer, json.loads(json.dumps(answer_to_json(answer)))) == answer


@given(answers)
def test_objects_of_the_ground_truth_are_kept_where_a_query_asks_for_them(answer):
    query = Query(id="q", text="?", media=(), forms=(AnswerForm.MASK,))
    assert as_requested(query, answer) == replace(answer, instances=None)
    assert as_requested(replace(query, instances=True), answer) is answer


sizes = st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9))
shown = st.builds(
    Shown,
    medium=st.integers(0, 2) | text,
    frames=st.lists(st.integers(0, 9), max_size=2).map(tuple),
    times=st.lists(numbers, max_size=2).map(tuple),
    resize=sizes,
    canvas=sizes,
)
requests = st.builds(
    Request,
    text=text,
    system=st.none() | text,
    shown=st.lists(shown, max_size=2).map(tuple),
    prefix=text,
    temperature=st.none() | numbers,
)
calls = st.lists(st.builds(Call, request=requests, key=text, response=st.none() | text), max_size=3)
points = st.lists(st.builds(Point, numbers, numbers), max_size=2).map(tuple)
parsed = st.builds(
    Parsed,
    form=st.sampled_from(AnswerForm),
    objects=st.lists(st.builds(ParsedObject, st.none() | boxes, points, points), max_size=2).map(
        tuple
    ),
    phrase=text,
    frame=st.none() | st.integers(0, 9),
    error=text,
)


@given(
    answers,
    calls,
    st.lists(text | st.integers(0, 2), max_size=3),
    st.lists(parsed, max_size=2),
    text,
)
def test_a_prediction_survives_json(answer, calls, responses, parsed, message):
    usage = Usage(prompt_tokens=1, completion_tokens=2, reasoning_tokens=3, frames=4)
    calls = (*calls, *calls[:1])  # a request that was sent before
    texts = [call.response for call in calls if call.response is not None]
    output = Prediction(
        query_id="q",
        answer=answer,
        calls=calls,
        responses=tuple(
            (texts or ["none"])[one % max(1, len(texts))] if isinstance(one, int) else one
            for one in responses
        ),
        parsed=tuple(parsed),
        usage=usage,
        notes=("a",),
    )
    failed = Prediction(query_id="q", failure=Failure(FailureKind.PARSE, message))
    for one in (output, failed):
        assert prediction_from_json(json.loads(json.dumps(prediction_to_json(one)))) == one


def test_text_that_no_encoding_can_say_is_stored_all_the_same():
    output = Prediction(query_id="q", answer=Answer(text="\ud800"), responses=("\udfff",))
    json.dumps(prediction_to_json(output), ensure_ascii=False).encode("utf-8")


def test_a_prediction_has_an_answer_or_a_failure():
    with pytest.raises(ValueError, match="either"):
        Prediction(query_id="q")
    with pytest.raises(ValueError, match="either"):
        Prediction(query_id="q", answer=Answer(), failure=Failure(FailureKind.MODEL, ""))


def query(form, frames=2):
    video = pixels(
        [np.zeros((5, 7, 3), np.uint8)] * frames, times=range(frames), is_video=True, id="v"
    )
    return Query(id="q", text="?", media=(video,), forms=(form,))


def row(tmp_path, **fields):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "a", **fields}))
    (found,) = read_rows(path)
    return found


MASK = Rle.from_array(np.eye(5, 7, dtype=bool))


@pytest.mark.parametrize(
    ("form", "fields", "expected"),
    [
        (
            AnswerForm.MASK_TRACK,
            {"masks": [MASK.to_json(), None]},
            Answer(masks=(MASK, Rle.empty(5, 7))),
        ),
        (AnswerForm.MASK_TRACK, {"no_target": True}, Answer(no_target=True)),
        (
            AnswerForm.MASK_TRACK,
            {"instances": [[MASK.to_json(), None]], "box_scores": [0.5]},
            Answer(
                masks=(MASK, Rle.empty(5, 7)),
                instances=((MASK, Rle.empty(5, 7)),),
                box_scores=(0.5,),
            ),
        ),
        (
            AnswerForm.MASK_TRACK,
            {"instances": []},
            Answer(masks=(Rle.empty(5, 7),) * 2, instances=(), no_target=True),
        ),
        (
            AnswerForm.BOXES,
            {"boxes": [[0, 0, 2, 2]], "box_scores": [0.5]},
            Answer(boxes=(Box(0, 0, 2, 2),), box_scores=(0.5,)),
        ),
        (
            AnswerForm.BOX_TRACK,
            {"boxes": [None, [0, 0, 2, 2]]},
            Answer(box_track=(None, Box(0, 0, 2, 2))),
        ),
        (AnswerForm.COUNT, {"answer": 3}, Answer(count=3)),
        (AnswerForm.COUNT, {"boxes": []}, Answer(boxes=())),
        (AnswerForm.CHOICE, {"answer": "B"}, Answer(choice="B")),
        (AnswerForm.NUMBER, {"answer": 1.5}, Answer(number=1.5)),
        (AnswerForm.INTERVAL, {"answer": [1, 2]}, Answer(interval=Interval(1, 2))),
        (AnswerForm.TEXT, {"answer": "a dog"}, Answer(text="a dog")),
        (AnswerForm.POINTS, {"points": [[1, 2]]}, Answer(points=(Point(1, 2),))),
    ],
)
def test_each_kind_of_row_becomes_its_answer(tmp_path, form, fields, expected):
    assert row_to_answer(row(tmp_path, **fields), query(form)) == expected


@pytest.mark.parametrize(
    ("form", "fields", "word"),
    [
        (AnswerForm.MASK_TRACK, {"masks": [None]}, "2 masks"),
        (AnswerForm.MASK_TRACK, {"masks": [Rle.empty(7, 5).to_json(), None]}, r"\[5, 7\]"),
        (AnswerForm.MASK_TRACK, {"masks": [{"size": [5, 7], "counts": "5"}, None]}, "35 pixels"),
        (AnswerForm.MASK_TRACK, {"masks": None}, "NoneType"),
        (AnswerForm.MASK_TRACK, {"boxes": [[0, 0, 1, 1]]}, r'mask_track.*"boxes"'),
        (AnswerForm.BOXES, {"boxes": [[2, 0, 1, 1]]}, "left < right"),
        (AnswerForm.BOXES, {"boxes": [[0, 0, 1]]}, r"box: .*\[0, 0, 1\]"),
        (AnswerForm.BOXES, {"boxes": [None]}, "box: .*None"),
        (AnswerForm.BOX_TRACK, {"boxes": [[0, 0, 1, 1]]}, "2 boxes.*found 1"),
        (AnswerForm.BOX_TRACK, {"boxes": [[2, 0, 1, 1], None]}, "left < right"),
        (AnswerForm.BOXES, {"boxes": [[0, 0, True, 1]]}, "box: .*True"),
        (AnswerForm.COUNT, {"answer": -1}, "answer.*found -1"),
        (AnswerForm.COUNT, {"answer": 2.0}, r"answer.*found 2\.0"),
        (AnswerForm.COUNT, {"answer": True}, "answer.*found True"),
        (AnswerForm.NUMBER, {"answer": "3"}, "finite"),
        (AnswerForm.CHOICE, {"answer": 3}, "letter"),
        (AnswerForm.INTERVAL, {"answer": [1]}, "2 finite"),
        (AnswerForm.MASK, {"no_target": False}, "true"),
    ],
)
def test_a_row_that_does_not_fit_is_an_error_with_its_place(tmp_path, form, fields, word):
    with pytest.raises(DataError, match=word) as caught:
        row_to_answer(row(tmp_path, **fields), query(form))
    assert "line 1" in str(caught.value) and "'a'" in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"id": 3, "answer": 1}',
        '{"id": "a"}',
        '{"id": "a", "answer": NaN}',
        '{"id": "a", "answer": 1, "boxes": []}',
        '{"id": "a", "anwser": 1}',
        '{"id": "a", "boxes": [], "box_scores": [1]}',
        "\xff",
    ],
)
def test_a_line_that_is_no_row_is_an_error_with_its_number(tmp_path, line):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"id": "z", "answer": 1}\n\n' + line.encode("latin-1"))
    with pytest.raises(DataError, match="line 3"):
        list(read_rows(path))


def test_an_id_that_comes_twice_is_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "answer": 1}\n{"id": "a", "answer": 2}\n')
    with pytest.raises(DataError, match=r"p\.jsonl, line 2: .*'a'"):
        list(read_rows(path))


def test_a_response_needs_somebody_to_read_it(tmp_path):
    with pytest.raises(UsageError, match="qwen_vl"):
        row_to_prediction(row(tmp_path, response="x"), query(AnswerForm.MASK))


def test_a_field_of_another_type_is_named_when_it_is_written():
    with pytest.raises(ValueError, match=r"text: found 5"):
        to_plain(Answer(text=5))
