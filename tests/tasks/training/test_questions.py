"""Questions in Video-R1's form: all types are read, malformed records are named and left out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError
from harness.tasks.qa.task import form_of
from harness.tasks.training.questions import read_question, read_questions
from harness.tasks.training.scoring import found_objects, value
from harness.types import Answer, AnswerForm, Box, Box3D

RECORD = {
    "problem_id": 2,
    "problem": "What appears?",
    "data_type": "video",
    "options": [],
    "problem_type": "numerical",
    "solution": "<answer>1,200.5</answer>",
    "path": "./a/b.mp4",
    "data_source": "STAR",
}
LETTERS = {"problem_type": "multiple choice", "options": ["A. a cat", "B. a dog"]}


def record(**changes):
    return {**RECORD, **changes}


def read(**changes):
    return read_question(record(**changes), "record 0")


def test_a_number_a_letter_and_a_text_are_read_from_their_tags():
    assert read().answer == Answer(number=1200.5) and read().media == "a/b.mp4"
    assert read().extra["solution"] == "1,200.5"
    assert read(solution=" 3.0 ").extra["solution"] == "3.0"
    letter = read(**LETTERS, solution="<answer> B. </answer>")
    assert (letter.answer, letter.options) == (Answer(choice="B"), ("a cat", "a dog"))
    for kind in ("free-form", "OCR"):
        assert read(problem_type=kind, solution="<answer>a cat</answer>").answer.text == "a cat"
    assert form_of(read(problem_type="regression")) is AnswerForm.NUMBER
    assert read(path="/SR/x.mp4").media == "SR/x.mp4" and read(path="x.mp4").media == "x.mp4"


def test_boxes_are_read_only_where_they_are_asked_for():
    plain = record(problem_type="IoU", solution="<answer>[1, 2, 3, 4.5]</answer>")
    with pytest.raises(DataError, match="problem_type"):
        read_question(plain, "record 0")
    question = read_question(plain, "record 0", problem_types=("IoU",))
    assert question.answer.boxes == (Box(1, 2, 3, 4.5),)
    plain = record(problem_type="IoU 3D", solution="<answer>[1, 2, 3, 4, 5, 6]</answer>")
    assert read_question(plain, "", problem_types=("IoU 3D",)).answer.boxes_3d == (
        Box3D(1, 2, 3, 4, 5, 6),
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"problem_type": "essay"}, "problem_type"),
        ({"data_type": "sound"}, "data_type"),
        ({"problem": "  "}, "problem"),
        ({"solution": "<answer>about 3</answer>"}, "solution"),
        ({"solution": "<answer>nan</answer>"}, "solution"),
        ({**LETTERS, "solution": "<answer>C</answer>"}, "solution"),
        ({**LETTERS, "options": ["a cat", "a dog"]}, "option A"),
        ({**LETTERS, "options": None}, "options"),
        ({"problem_type": "OCR", "solution": "<answer></answer>"}, "solution"),
        ({"path": ""}, "path"),
    ],
)
def test_a_malformed_record_is_named(changes, named):
    with pytest.raises(DataError, match=named):
        read(**changes)
    without = record()
    del without["data_type"]
    with pytest.raises(DataError, match="data_type"):
        read_question(without, "record 0")


def test_malformed_records_are_left_out_and_named_by_check(build, tmp_path):
    rows = [record(), record(problem_id=3, solution="?"), record(problem_id=2)]
    place = tmp_path / "video_r1_260k"
    place.mkdir()
    (place / "Video-R1-260k.json").write_text(json.dumps(rows), encoding="utf-8")
    task = build("video_r1_260k", tmp_path)
    assert [one.id for one in task.samples()] == ["2", "2#2"]
    problems = sorted(str(one.message).partition("Video-R1-260k.json")[2] for one in task.check())
    assert problems[0] == "" and problems[1].startswith(", entry 1: 'solution'")
    assert [one.id for one in build("video_r1_260k", tmp_path, medium="image").samples()] == []


@pytest.mark.parametrize("text", ["", "{}", "[", '[{"a": 1}', "[1 2]", '[{"a": 1, "a": 2}]', "[1,"])
def test_a_file_that_is_no_json_list_is_named(tmp_path, text):
    path = tmp_path / "questions.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"questions\.json"):
        list(read_questions(path, tmp_path))


def test_lines_and_lists_give_the_same_questions(tmp_path):
    rows = [record(problem_id=k) for k in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    first, second = (
        list(read_questions(tmp_path / name, tmp_path)) for name in ("a.json", "a.jsonl")
    )
    assert first == second and [one.id for one in first] == ["0", "1", "2"]


def test_a_question_of_frames_is_none_of_a_set_whose_videos_have_paths(build, tmp_path):
    place = tmp_path / "video_r1_260k"
    place.mkdir()
    framed = {key: value for key, value in record().items() if key != "path"}
    rows = [framed | {"problem_id": "framed", "frames": ["0.jpg", "1.jpg"]}, record()]
    (place / "Video-R1-260k.json").write_text(json.dumps(rows), encoding="utf-8")
    task = build("video_r1_260k", tmp_path)
    assert len(list(task.samples())) == 1
    assert "'framed': 'path'" in next(iter(task.check())).message


def test_an_image_that_leaves_the_folder_ends_a_training_and_is_named_by_check(build, tmp_path):
    place = tmp_path / "video_r1_260k"
    place.mkdir()
    row = record(data_type="image", path="./../elsewhere.png")
    (place / "Video-R1-260k.json").write_text(json.dumps([row]), encoding="utf-8")
    task = build("video_r1_260k", tmp_path)
    with pytest.raises(DataError, match="elsewhere"):
        list(task.samples())
    assert any("elsewhere" in one.message for one in task.check())


def test_sr_91k_has_maps_and_only_spacers_own_questions(build, tmp_path):
    place = tmp_path / "sr_91k"
    place.mkdir()
    rows = [record(data_source="SR_dataset", path="/v/scene0001_00.mp4"), record(problem_id=9)]
    (place / "SpaceR-151k.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    cells = {
        "video_id": "scene0001_00",
        "cognitive_map": {"table": [[0, 3], [5, 7]]},
        "object_list": ["table"],
    }
    (place / "cognitive_map.jsonl").write_text(json.dumps(cells), encoding="utf-8")
    task = build("sr_91k", tmp_path)
    (sample,) = task.samples()
    assert sample.target.extra["map"] == {"table": [[0, 3], [5, 7]]}
    assert sample.target.extra["solution"] == "1,200.5"
    assert sample.query.objects == ("table",) and task.arguments["maps"] == 1
    (place / "cognitive_map.jsonl").write_text('{"video_id": "x", "cognitive_map": {"a": [[1]]}}')
    with pytest.raises(DataError, match=r"line 1: .*'a'"):
        build("sr_91k", tmp_path)


def test_answers_of_each_kind_score_by_their_own_measure():
    cube = Box3D(0, 0, 0, 2, 2, 2)
    cases = [
        (Answer(choice="B"), Answer(choice=" b "), ("choice", 1.0)),
        (Answer(number=4.0), Answer(number=3.0), ("number", 0.75)),
        (Answer(number=4.0), Answer(count=4), ("number", 1.0)),
        (Answer(text="A  cat"), Answer(text="a cat"), ("text", 1.0)),
        (Answer(boxes=(Box(0, 0, 10, 10),)), Answer(boxes=(Box(0, 0, 10, 5),)), ("box", 0.5)),
        (Answer(boxes_3d=(cube,)), Answer(boxes_3d=(cube,)), ("box_3d", 1.0)),
        (Answer(boxes_3d=(cube,)), Answer(boxes_3d=()), ("box_3d", 0.0)),
    ]
    for ground_truth, output, expected in cases:
        assert value(ground_truth, output) == expected
        assert value(ground_truth, None) == (expected[0], 0.0)


boxes = st.lists(
    st.tuples(*[st.integers(0, 40)] * 4).map(
        lambda n: Box(min(n[0], n[2]), min(n[1], n[3]), max(n[0], n[2]) + 1, max(n[1], n[3]) + 1)
    ),
    max_size=5,
)


@given(boxes, boxes, st.randoms())
def test_finding_objects_is_symmetric_and_blind_to_order(one, other, random):
    found = found_objects(one, other)
    assert 0 <= found[0] <= 1 and 0 <= found[1] <= 1
    mixed = random.sample(other, len(other))
    assert found_objects(mixed, one) == pytest.approx(found)
    assert found_objects(one, one) == (1.0, pytest.approx(1.0))
