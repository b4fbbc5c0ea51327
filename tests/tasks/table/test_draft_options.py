"""Options, their letters and the ids of questions, as published tables write them."""

import json
import re
import shutil
import subprocess

import pytest
from PIL import Image

from harness.dataset_facts import check_task
from harness.errors import DataError
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table


def lines(path, rows):
    """Write rows as lines of JSON, and the images that they name."""
    for row in rows:
        Image.new("RGB", (8, 8)).save(path.parent / next(iter(row.values())))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def samples(path, described=None):
    """Return the samples of a table by the description that is drafted for it."""
    described = described or draft(path)
    path.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    return list(table(path.parent, file=path).samples())


def row(name, options, answer, **more):
    return {"image": f"{name}.png", "id": name, "question": f"Which {name}?"} | {
        "options": options,
        "answer": answer,
        **more,
    }


MATH_V = [
    row("1", [], "7"),
    row("2", ["A", "B", "C", "D", "E"], "B"),
    row("3", ["$3$", "$5$", "$7$"], "C"),
]


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_free_answers_beside_choices_are_parted(suffix, tmp_path):
    path = lines(tmp_path / "math.jsonl", MATH_V)
    if suffix == ".json":
        path.unlink()
        path = tmp_path / "math.json"
        path.write_text(json.dumps(MATH_V), encoding="utf-8")
    described = draft(path)
    assert "lettered" not in described.question and described.answer["written"] == "letter"
    doubt = described.doubts["question.options"]
    typed = re.search(r"`(.*?)`", doubt)[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    read = samples((tmp_path / "NEW").rename(tmp_path / "NEW.jsonl"))
    assert [sample.target.answer.choice for sample in read] == ["B", "C"]
    assert read[1].query.options == ("$3$", "$5$", "$7$")


def test_initials_are_no_letters_of_options(tmp_path):
    path = lines(tmp_path / "a.jsonl", [row("1", ["J. Smith", "K. Jones"], "B")])
    (sample,) = samples(path)
    assert sample.query.options == ("J. Smith", "K. Jones")


def test_letters_of_some_lists_are_to_be_checked(tmp_path):
    rows = [row("1", ["cat", "dog"], "A"), row("2", ["A. cat", "B. dog"], "B")]
    described = draft(lines(tmp_path / "a.jsonl", rows))
    assert "1 of 2 lists" in described.doubts["question.options"]


@pytest.mark.parametrize("options", ["A. cat B. dog", "(A) cat; (B) dog", "(A) cat, (B) dog"])
def test_options_in_a_text_with_letters_are_shown(options, tmp_path):
    (sample,) = samples(lines(tmp_path / "a.jsonl", [row("1", options, "B")]))
    assert sample.query.text == f"Which 1?\n{options}" and sample.target.answer.choice == "B"


@pytest.mark.parametrize("options", ["cat, dog", "cat\ndog"])
def test_options_in_a_text_without_letters_are_never_left_out(options, tmp_path):
    path = lines(tmp_path / "a.jsonl", [row("1", options, "B")])
    described = draft(path)
    assert "question.options" in described.doubts
    path.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    (problem,) = table(tmp_path, file=path).check()
    assert "options" in problem.message


def test_options_of_several_kinds_are_no_crash(tmp_path):
    rows = [row("1", ["cat", "dog"], "A"), row("2", {"list": {"first": "cat"}}, "B")]
    described = draft(lines(tmp_path / "a.jsonl", rows))
    assert described.question["options"] == "options"


def test_small_letters_of_visonlyqa(tmp_path):
    rows = [
        {
            "image_path": "a.png",
            "question": "Select.\n\nThe y-value:\n(a) 0.20 (b) 0.10 (c) 0.75 (d) 4.00 (e) 0.25 ",
            "answer": "e",
            "question_type": "single_answer",
            "response_options": ["a", "b", "c", "d", "e"],
            "id": "visonlyqa_1",
        }
    ]
    described = draft(lines(tmp_path / "a.jsonl", rows))
    assert not described.doubts
    (sample,) = samples(tmp_path / "a.jsonl", described)
    assert sample.target.answer.choice == "E" and sample.id == "visonlyqa_1"


def test_ids_of_nextqa_are_unique_in_their_video(tmp_path):
    head = "video,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4"
    cells = "369,640,480,how do they play"
    path = tmp_path / "val.csv"
    path.write_text(
        f"{head}\n4010069381,{cells},0,6,CH,roll,tap,strum,hit,pat\n"
        f"4010069381,{cells} it,2,7,CW,a,b,c,d,e\n5000000000,{cells},4,6,DL,a,b,c,d,e\n",
        encoding="utf-8",
    )
    for name in ("4010069381", "5000000000"):
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("RGB", (8, 8)).save(tmp_path / name / f"{number}.png")
    answers = {sample.id: sample.target.answer.choice for sample in samples(path)}
    assert answers == {"4010069381_6": "A", "4010069381_7": "C", "5000000000_6": "E"}


def test_a_name_that_two_folders_hold_is_asked_about(tmp_path):
    path = lines(tmp_path / "a.jsonl", [row("1", ["red", "blue"], "A")])
    assert "media.folder" not in draft(path).doubts
    (tmp_path / "copies").mkdir()
    shutil.copy(tmp_path / "1.png", tmp_path / "copies")
    assert "copies hold" in draft(path).doubts["media.folder"]


def test_objects_are_not_right_texts(tmp_path):
    objects = [{"answer": "red", "answer_id": 1}, {"answer": "blue", "answer_id": 2}]
    question = {"image": "1.png", "id": "1", "question": "Which color?"}
    texts = lines(tmp_path / "a.jsonl", [question | {"answer": ["red", "blue"]}])
    assert samples(texts)[0].target.answer.text == "red"
    described = draft(texts)
    path = lines(tmp_path / "a.jsonl", [question | {"answer": objects}])
    with pytest.raises(DataError, match="right texts"):
        samples(path, described)


def test_right_texts_of_later_records_are_to_be_checked(tmp_path):
    rows = [row("1", [], "clock"), {**row("2", [], "a stove"), "extra_answers": ["an oven"]}]
    for entry in rows:
        del entry["options"]
    assert "extra_answers" in draft(lines(tmp_path / "a.jsonl", rows)).doubts["answer.field"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"answers": ["down"] * 9 + ["skateboard"], "multiple_choice_answer": "down"}, "or mult"),
        ({"answers": ["down", "down", "up"]}, "lists repeat texts"),
        ({"answers": ["down", "downwards"]}, "right alone"),
        ({"answer": ["Yes", "No"]}, "right alone"),
        ({"affordance": "hold"}, "kind of record"),
        ({"answer": "down", "answer_type": "other", "model_answer": "up"}, ""),
    ],
)
def test_answers_of_several_people_are_to_be_checked(fields, words, tmp_path):
    rows = [{"image": f"{number}.png", "question": "Where?", **fields} for number in range(2)]
    doubt = draft(lines(tmp_path / "mine.jsonl", rows)).doubts.get("answer.field", "")
    assert words in doubt and bool(words) == bool(doubt)


def test_the_first_answer_of_several_people_is_not_its_confidence(tmp_path):
    said = [{"answer_confidence": "yes", "answer_id": "a", "text": "t", "answer": "a dog"}]
    rows = [{"image": f"{n}.png", "question": "What?", "answers": said} for n in range(2)]
    assert 'answers.0.answer"' in draft(lines(tmp_path / "a.jsonl", rows)).doubts["answer.form"]


@pytest.mark.parametrize("marks", ["A. B.", "a) b)", "(A) (B)", "01 02", "first second"])
def test_options_in_an_object_with_marks_are_read(marks, tmp_path):
    options = dict(zip(marks.split(), ("left", "right"), strict=True))
    rows = [row(name, options, text) for name, text in (("1", "left"), ("2", "right"))]
    found = samples(lines(tmp_path / "mine.jsonl", rows))
    assert [sample.query.options for sample in found] == [("left", "right")] * 2


def test_texts_of_options_beside_their_labels_are_read(tmp_path):
    options = {"text": ["left", "right"], "label": ["A", "B"]}
    rows = [row(name, options, letter) for name, letter in (("1", "A"), ("2", "B"))]
    assert draft(lines(tmp_path / "a.jsonl", rows)).question["options"] == "options.text"


def test_aliases_and_times_in_an_answer_are_told(tmp_path):
    rows = [{"image": "1.png", "question": "?", "answer": {"value": "x", "aliases": ["ex", "y"]}}]
    assert "answer.aliases" in draft(lines(tmp_path / "a.jsonl", rows)).doubts["answer.field"]
    path = tmp_path / "b.jsonl"
    path.write_text('{"source": "v1", "question": "When?", "answer": {"start": 1, "end": 4}}')
    assert draft(path).answer["field"] == "{answer.start} - {answer.end}"


def test_the_placeholder_of_a_printed_command_is_no_question(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{**row("1", ["x", "y"], "A"), "question": "CHECK"}])
    with pytest.raises(DataError, match="placeholder"):
        samples(path)


def test_a_question_with_a_row_for_each_box_is_noted(tmp_path):
    rows = [{**row("1", [], ""), "boxes": [[1, 1, 3, edge]]} for edge in (4, 6)]
    for entry, name in zip(rows, "ab", strict=True):
        del entry["options"], entry["answer"]
        entry["id"] = name
    path = lines(tmp_path / "a.jsonl", rows)
    path.with_suffix(".toml").write_text(
        'name = "mine"\n[media]\nimages = "image"\n[question]\nid = "id"\ntext = "question"\n'
        '[answer]\nform = "boxes"\nfield = "boxes"\nwritten = "xyxy"\ncoordinates = "pixels"\n'
    )
    checked = check_task("mine", table(tmp_path, file=path), tmp_path, "none")
    assert any("another" in note for note in checked["notes"]), checked


def test_options_by_number_are_in_the_order_of_their_numbers(tmp_path):
    options = {str(number): f"text {number}" for number in range(1, 12)}
    path = lines(tmp_path / "t.jsonl", [row("1", options, "2"), row("2", options, "11")])
    drawn = samples(path)
    assert drawn[0].query.options == tuple(options.values())
    assert [sample.target.answer.choice for sample in drawn] == ["B", "K"]
