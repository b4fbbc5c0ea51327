"""A draft recognises what answers look like, or says what to check."""

import csv
import json
import re
import shutil
import subprocess
import tomllib

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.media import open_image
from harness.tasks.table.cells import clock_span
from harness.tasks.table.description import CHECK, AnswerField, read_description
from harness.tasks.table.draft import draft
from harness.tasks.table.draft_boxes import are_in_padded
from harness.tasks.table.records import Records
from harness.tasks.table.task import table
from harness.tasks.table.truth import mask_of, plain_answer, region_of
from harness.types import Answer, Box, Interval

CHOICES = {
    "option_a": (["option_a", "option_b", "option_c"], ["option_b", "option_c"], "field", "BC"),
    "choice1": (["choice1", "choice2", "choice3"], ["choice2", "choice1"], "field", "BA"),
    "opt-0": (["opt-0", "opt-1", "opt-2"], ["0", "2"], "place", "AC"),
    "numbers": (["opt1", "opt2", "opt3"], ["3", "1"], "place_from_1", "CA"),
    "letters": (["candidate_A", "candidate_B", "candidate_C"], ["c", "A"], "letter", "CA"),
    "texts": (["x1", "option 1", "option 2"], ["blue", "red"], "option", "BA"),
}


def written(root, names, cells):
    Image.new("RGB", (64, 48)).save(root / "i.png")
    path = root / "mine.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["image", "question", *names], *(["i.png", *row] for row in cells)])
    return path


def read(path):
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    return [sample.target.answer for sample in table(path.parent, file=path).samples()]


@pytest.mark.parametrize("name", CHOICES)
def test_columns_of_options_of_any_name(name, tmp_path):
    names, answers, convention, letters = CHOICES[name]
    texts = ["red", "blue", "green"] if names[0] != "x1" else ["7", "red", "blue"]
    cells = [[f"Which {n}?", *texts, answer] for n, answer in enumerate(answers)]
    path = written(tmp_path, [*names, "answer"], cells)
    described = draft(path)
    assert described.answer["written"] == convention and not described.doubts
    assert read(path) == [Answer(choice=letter) for letter in letters]


BOTH = {
    "a place from 1": (["3", "4", "2"], ["3", "2"], "option", "place_from_1"),
    "a place from 0": (["1", "0", "2"], ["0", "1"], "option", "place"),
    "a letter": (["B", "C", "A"], ["A", "B"], "letter", "option"),
    "both places": (["red", "blue", "green"], ["1", "2"], "place", "place_from_1"),
}


@pytest.mark.parametrize("name", BOTH)
def test_answers_that_are_two_things_are_to_be_checked(name, tmp_path):
    options, answers, written_as, other = BOTH[name]
    cells = [[f"Which {n}?", *options, answer] for n, answer in enumerate(answers)]
    path = written(tmp_path, ["option 1", "option 2", "option 3", "answer"], cells)
    described = draft(path)
    assert described.answer["written"] == written_as
    assert other in described.doubts["answer.written"]


def test_numbers_that_are_their_own_places_are_not_doubted(tmp_path):
    cells = [["Which?", "1", "2", "3", "3"], ["What?", "1", "2", "3", "1"]]
    path = written(tmp_path, ["option 1", "option 2", "option 3", "answer"], cells)
    assert CHECK not in draft(path).toml("mine")
    assert read(path) == [Answer(choice="C"), Answer(choice="A")]


@pytest.mark.parametrize(
    ("form", "answers", "convention"),
    [
        ("{}\nA. cat\nB. dog", ["B. dog", "A. cat"], "marked"),
        ("{} (A) cat (B) dog", ["(B)", "(A)"], "marked"),
        ("{}\nA) cat\nB) dog", ["B", "A"], "letter"),
    ],
)
def test_options_in_the_question(form, answers, convention, tmp_path):
    cells = [[form.format(f"Which {n}?"), answer] for n, answer in enumerate(answers)]
    path = written(tmp_path, ["answer"], cells)
    described = draft(path)
    assert described.question["letters"] == "AB" and described.answer["written"] == convention
    assert CHECK not in described.toml("mine")
    assert read(path) == [Answer(choice="B"), Answer(choice="A")]


def test_options_in_lines_of_a_cell(tmp_path):
    cells = [["Which?", "A. cat\nB. dog", "B"], ["What?", "A. up\nB. down", "A"]]
    path = written(tmp_path, ["options", "answer"], cells)
    assert draft(path).question["lettered"] is True
    assert read(path) == [Answer(choice="B"), Answer(choice="A")]


def test_yes_and_no_have_their_protocol(tmp_path):
    path = written(tmp_path, ["answer"], [["Is it?", "yes"], ["Is it red?", "No"]])
    described = draft(path)
    assert described.scoring == {"protocol": "text/yes_no"} and CHECK not in described.toml("mine")


@pytest.mark.parametrize(
    "answers",
    [
        ["2.4 m", "240 cm"],
        ["50%", "0.25", "25"],
        ["about 3 m", "5 m"],
        ["3-7", "10-12"],
        ["00:03", "00:07"],
        ["True", "False"],
        ["$4.58", "€ 3"],
        ["1, 2", "3, 4"],
        ["option b", "option c"],
        ["{<25><40><33><60>}", "{<5><40><33><60>}"],
        ['{"xmin": 1, "ymin": 2}', '{"xmin": 3, "ymin": 4}'],
        ["x=-1<AND>x=-5", "cup<AND>fork"],
        ["1 + 2 is three.\n#### 3", "No more. The answer is B.", "先看图。答案是 4"],
    ],
)
def test_texts_that_look_like_something_else_are_doubted(answers, tmp_path):
    path = written(tmp_path, ["answer"], [["What?", answer] for answer in answers])
    assert "answer.form" in draft(path).doubts


@pytest.mark.parametrize(
    ("question", "answers", "is_open"),
    [
        ("How many seedlings are there?", ["3", "n/a", "not visible"], True),
        ("How many seedlings are there?", ["3", "three", "5?"], True),
        ("Wie viele Zellen?", ["3", "unklar", "leer"], True),
        ("What colour is the leaf?", ["green", "N/A", "red"], True),
        ("What colour is the leaf?", ["green", "nan", "red"], True),
        ("What is beside the cat?", ["nothing", "none", "a dog"], False),
        ("Which metal is it?", ["Na", "Fe", "Cu"], False),
        ("What does the sign say?", ["How many?", "7KX", "stop-3"], False),
    ],
)
def test_answers_without_a_value_are_to_be_checked(question, answers, is_open, tmp_path):
    path = written(tmp_path, ["answer"], [[question, answer] for answer in answers])
    doubts = draft(path).doubts
    assert ("answer.form" in doubts) == is_open, doubts


def test_a_number_without_a_unit_is_not_said_to_have_one(tmp_path):
    path = written(tmp_path, ["answer"], [["Which line?", text] for text in ["14", "5", "east"]])
    assert "'14' looks like a number:" in draft(path).doubts["answer.form"]


@pytest.mark.parametrize("answers", [["the red one", "a dog"], ["Paris", "7 dwarfs sing a song"]])
def test_words_are_not_doubted(answers, tmp_path):
    path = written(tmp_path, ["answer"], [[f"What is {n}?", a] for n, a in enumerate(answers)])
    assert CHECK not in draft(path).toml("mine")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("00:02-00:05", [2.0, 5.0]),
        ("1:00:00 to 1:00:02.5", [3600.0, 3602.5]),
        ("10.5–12", [10.5, 12.0]),
        (["00:03", "00:07"], [3.0, 7.0]),
        ("3,7", None),
        ("00:61-00:62", None),
        ("a-b", None),
        ([1, 2, 3], None),
    ],
)
def test_spans_of_time(text, span):
    assert clock_span(text) == span


def test_clock_times_beside_a_video_are_an_interval(tmp_path):
    (tmp_path / "v").mkdir()
    for number in range(12):
        Image.new("RGB", (8, 8)).save(tmp_path / "v" / f"{number:02}.png")
    path = tmp_path / "mine.csv"
    path.write_text("video,question,answer\nv,When?,00:02-00:05\n", encoding="utf-8")
    assert [*draft(path).doubts] == ["media.frames_per_second"]
    assert read(path) == [Answer(interval=Interval(2.0, 5.0))]


@pytest.mark.parametrize(
    ("size", "box", "is_open"),
    [
        ((64, 48), [0.1, 0.2, 0.5, 0.8], True),
        ((64, 48), [0.1, 0.02, 0.5, 0.8], False),  # above the image within its square
        ((64, 64), [0.1, 0.2, 0.5, 0.8], False),
    ],
)
def test_fractions_in_conversations_may_be_of_a_padded_square(size, box, is_open, tmp_path):
    Image.new("RGB", size).save(tmp_path / "i.png")
    turns = [{"from": "human", "value": "<image>\nWhere?"}, {"from": "gpt", "value": str(box)}]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([{"id": "a", "image": "i.png", "conversations": turns}]))
    assert ("answer.coordinates" in draft(path).doubts) == is_open


@pytest.mark.parametrize(
    ("sizes", "boxes", "is_open"),
    [
        ([(40, 20), (100, 50)], [[0.1, 0.3, 0.9, 0.7], [0.1, 0.3, 0.9, 0.7]], True),
        ([(200, 100), (50, 100)], [[0.1, 0.1, 0.9, 0.9], [0.3, 0.1, 0.7, 0.9]], False),
        ([(64, 48), None], [[0.1, 0.2, 0.5, 0.8], [0.1, 0.2, 0.5, 0.8]], False),
    ],
)
def test_each_box_is_in_the_square_of_its_own_image(sizes, boxes, is_open):
    assert are_in_padded(boxes, sizes) == is_open


def test_a_hint_is_written_before_its_question(tmp_path):
    rows = [["Which?", hint, "a dog"] for hint in ("It barks.", "nan")]
    path = written(tmp_path, ["hint", "answer"], rows)
    read(path)
    texts = [sample.query.text for sample in table(tmp_path, file=path).samples()]
    assert texts == ["It barks.\nWhich?", "Which?"]
    path = written(tmp_path, ["hint", "answer"], [["Which?", "nan", "a dog"]])
    assert draft(path).question["text"] == "question"


def test_what_a_draft_left_open_is_named_and_not_the_data(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "name = 'mine'\nmedia.images = 'img'\nquestion.text = 'CHECK'\nanswer.form = 'number'\n"
    )
    with pytest.raises(DataError, match=r"question: text: .* found still 'CHECK'"):
        read_description(path)


def llava(path, *turns, **fields):
    Image.new("RGB", (64, 48)).save(path.parent / "i.png")
    listed = [
        {"from": ("human", "gpt")[n % 2], "value": text}
        for n, text in enumerate(("<image>\nWhat?", *turns))
    ]
    record = {"id": "a", "image": "i.png", **fields, "conversations": listed}
    path.write_text(json.dumps([record]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        ({"bbox": [1, 2, 30, 40]}, "bbox"),
        ({"box": [1, 2, 30, 40]}, "box"),
        ({"answer": "blue"}, "own_answer"),
        ({"mask": "m.png", "label": "cup"}, "label, mask"),
    ],
)
def test_a_conversations_answer_beside_other_fields_is_to_be_checked(fields, others, tmp_path):
    described = draft(llava(tmp_path / "mine.json", "red", **fields))
    assert described.answer == {"form": "text", "field": "answer"}
    assert f"or {others}?" in described.doubts["answer.field"]


def test_of_several_fields_the_likeliest_is_to_be_checked(tmp_path):
    path = written(
        tmp_path, ["bbox", "target", "answer"], [["Which?", "[1, 2, 3, 4]", "red", "red"]]
    )
    described = draft(path)
    assert described.answer == {"form": "text", "field": "answer"}
    assert "or bbox?" in described.doubts["answer.field"]


def test_turns_that_a_conversation_loses_are_to_be_checked(tmp_path):
    assert "question.text" in draft(llava(tmp_path / "m.json", "red", "Why?", "ripe")).doubts
    assert CHECK not in draft(llava(tmp_path / "m.json", "red")).toml("mine")


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_marks_whose_values_are_elsewhere_have_a_command(tmp_path):
    values = {"token": {"<s0>": 1.5, "<e0>": 9.4}}
    path = llava(tmp_path / "mine.json", "From <s0> to <e0>, a dog.", meta=values)
    with pytest.raises(DataError, match=r"<s0>, whose value is in 'meta\.token'") as error:
        draft(path)
    typed = re.search(r"`(.*?)`", str(error.value), re.DOTALL)[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    assert read((tmp_path / "NEW").rename(tmp_path / "new.jsonl")) == [
        Answer(text="From 1.5 to 9.4, a dog.")
    ]


@pytest.mark.parametrize(
    ("answer", "fields", "mark"),
    [
        ("The event happens in <vid> - <vid>.", {"tgt": [5, 10]}, "<vid>"),
        ("From <t0> to <t1>.", {"timestamps": [5, 10]}, "<t0>, beside the lists 'timestamps'"),
        ("<mask><pos> is red.", {"bbox": [[1, 2, 3, 4]]}, "<mask>"),
    ],
)
def test_marks_by_position_are_refused(answer, fields, mark, tmp_path):
    with pytest.raises(DataError) as error:
        draft(llava(tmp_path / "mine.json", answer, **fields))
    assert mark in str(error.value)


POINTS = "[(0.461, 0.527), (0.498, 0.521)]"


@pytest.mark.parametrize("text", [POINTS, "[0.1, 0.2, 0.5, 0.8]", "(1, 2)", "{'a', 'b'}", "[1]"])
def test_the_text_of_points_is_one_right_text(text):
    assert plain_answer(text, AnswerField(form="text"), "here") == (Answer(text=text), ())


@pytest.mark.parametrize(
    ("value", "texts"), [(["a", 2], ("a", "2")), ("['a', 2]", ("a", "2")), ([3], ("3",))]
)
def test_numbers_beside_texts_are_right_texts(value, texts):
    answer = Answer(text=texts[0]), texts[1:]
    assert plain_answer(value, AnswerField(form="text"), "here") == answer


def test_a_part_that_is_no_right_text_is_named():
    with pytest.raises(DataError, match="found None"):
        plain_answer(["a", None], AnswerField(form="text"), "here")


@pytest.mark.parametrize(
    "value", [[0.1, 0.2], ["a", None], [], "[]", "['a', None]", "[[1, 2]]", [["a"]], {"a": 1}]
)
def test_other_lists_are_no_right_texts(value):
    with pytest.raises(DataError, match="a list of right texts"):
        plain_answer(value, AnswerField(form="text"), "here")


def test_points_as_texts_are_to_be_checked(tmp_path):
    assert "several numbers" in draft(llava(tmp_path / "m.json", POINTS)).doubts["answer.form"]


def test_boxes_of_a_video_are_to_be_checked(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([{"video": "v", "caption": "a dog", "bbox": [[1, 2, 30, 40]]}]))
    assert "answer.form" in draft(path).doubts


@pytest.mark.parametrize("answers", [["1", "0"], ["1", "1"], ["True", "false"]])
def test_ones_and_zeros_of_questions_with_yes_or_no(answers, tmp_path):
    cells = [["Is it the same?", answers[0]], ["Does it move, and how?", answers[1]]]
    path = written(tmp_path, ["gt_answer"], cells)
    described = draft(path)
    assert described.scoring == {"protocol": "text/yes_no"} and "answer.form" in described.doubts
    words = {"1": "yes", "0": "no", "True": "yes", "false": "no"}
    assert read(path) == [Answer(text=words[text]) for text in answers]


def test_a_number_among_yes_and_no_is_refused(tmp_path):
    path = written(tmp_path, ["answer"], [["Is it?", "yes"], ["Does it move?", "1"]])
    path.with_suffix(".toml").write_text(
        "name = 'mine'\nmedia.images = 'image'\nquestion.text = 'question'\n"
        "answer = {form = 'text', field = 'answer'}\nscoring.protocol = 'text/yes_no'\n"
    )
    (problem,) = table(tmp_path, file=path).check()
    assert "yes or no" in problem.message


def test_ones_and_zeros_of_other_questions_are_numbers(tmp_path):
    path = written(tmp_path, ["answer"], [["How many dogs?", "1"], ["How many cats?", "0"]])
    assert draft(path).answer["form"] == "number"


@pytest.mark.parametrize("are_apart", [True, False])
def test_letters_in_parentheses(are_apart, tmp_path):
    options, names = "(a) Open (b) Closed", ["Options", "Correct Answer"]
    cells = [[f"Is door {n}?", options, f"({letter})"] for n, letter in enumerate("ba")]
    if not are_apart:
        names, cells = (
            ["answer"],
            [[f"{text} {options}", letter] for text, options, letter in cells],
        )
    path = written(tmp_path, names, cells)
    described = draft(path)
    assert described.answer["written"] == "letter" and CHECK not in described.toml("mine")
    assert read(path) == [Answer(choice="B"), Answer(choice="A")]


def test_letters_in_parentheses_of_listed_options(tmp_path):
    path = written(tmp_path, ["A", "B", "answer"], [["Which?", "up", "down", "(b)"]])
    assert read(path) == [Answer(choice="B")]
    assert draft(path).answer["written"] == "letter"


@pytest.mark.parametrize("field", ["['st_time', 'ed_time']", "'{st_time} - {ed_time}'"])
@pytest.mark.parametrize(("start", "end"), [(2, 5.5), ("00:02", "00:05.5")])
def test_an_interval_of_two_fields(field, start, end, tmp_path):
    (tmp_path / "v").mkdir()
    for number in range(12):
        Image.new("RGB", (8, 8)).save(tmp_path / "v" / f"{number:02}.png")
    path = tmp_path / "mine.jsonl"
    record = {"video": "v", "query": "When?", "st_time": start, "ed_time": end}
    path.write_text(json.dumps(record), encoding="utf-8")
    described = draft(path)
    assert described.answer["field"] == ["st_time", "ed_time"] and "clip" not in described.media
    assert "answer.field" in described.doubts
    assert read(path) == [Answer(interval=Interval(2.0, 5.5))]
    text = path.with_suffix(".toml").read_text().replace('["st_time", "ed_time"]', field)
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    (sample,) = table(tmp_path, file=path).samples()
    assert sample.target.answer == Answer(interval=Interval(2.0, 5.5))


def test_two_fields_are_of_an_interval_alone(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "name = 'mine'\nmedia.images = 'i'\nquestion.text = 'q'\n"
        "answer = {form = 'number', field = ['a', 'b']}\n"
    )
    with pytest.raises(DataError):
        read_description(path)


@pytest.mark.parametrize(
    ("questions", "units", "is_open"),
    [
        (["How far?", "How tall?"], ["centimeters", "meters"], True),
        (["How far?", "How tall?"], ["cm", "cm"], True),
        (["How far, in cm?", "How tall (cm)?"], ["cm", "cm"], False),
    ],
)
def test_numbers_beside_units_are_to_be_checked(questions, units, is_open, tmp_path):
    cells = [[text, "96.5", unit] for text, unit in zip(questions, units, strict=True)]
    path = written(tmp_path, ["answer", "answer_unit"], cells)
    assert ("answer.form" in draft(path).doubts) == is_open


CAR, LANE = {"category": "car", "box2d": {}}, {"category": "lane", "poly2d": []}
PERSON = {"tag": "car", "hbox": [9], "fbox": [9, 9, 3, 4]}
OBJECTS = {
    "BDD100K": {"name": "i.png", "timestamp": 10000, "labels": [LANE, CAR, CAR]},
    "CrowdHuman": {"image": "i.png", "gtboxes": [PERSON, PERSON]},
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize("name", OBJECTS)
def test_boxes_in_a_list_of_objects_have_a_command(name, suffix, tmp_path):
    Image.new("RGB", (64, 48)).save(tmp_path / "i.png")
    record = json.loads(json.dumps(OBJECTS[name]).replace("{}", '{"x2":12,"y1":9,"x1":9,"y2":13}'))
    path = (tmp_path / "mine").with_suffix(suffix)
    path.write_text(json.dumps([record] if suffix == ".json" else record), encoding="utf-8")
    doubt = draft(path).doubts["answer.form"]
    subprocess.run(re.search("`(.*?)`", doubt)[1], shell=True, cwd=tmp_path, check=True)
    converted = (tmp_path / "NEW").rename(tmp_path / "new.jsonl")
    described = draft(converted)
    assert described.answer["form"] == "boxes" and described.answer["field"] == "bbox"
    assert "answer" not in str(described.doubts)
    (row,) = map(json.loads, converted.read_text().splitlines())
    assert row["question"] == "car" and len(row["bbox"]) == 2 and "i.png" in row.values()


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize(
    ("box", "mode"),
    [
        ({"x1": 1, "y1": 2, "x2": 5, "y2": 6}, "XYXY_ABS"),
        ({"x": 1, "y": 2, "w": 4, "h": 4}, "XYWH_ABS"),
        ([1, 2, 5, 6], None),
    ],
)
def test_the_command_states_the_order_that_the_sides_of_a_box_have(box, mode, tmp_path):
    path = tmp_path / "mine.jsonl"
    record = {"image": "i.png", "objects": [{"category": "car", "box2d": box}]}
    path.write_text(json.dumps(record), encoding="utf-8")
    typed = re.search("`(.*?)`", draft(path).doubts["answer.form"])[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "NEW").read_text()).get("bbox_mode") == mode


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_the_command_finds_lists_below_names_of_each_record_and_stops_at_polygons(tmp_path):
    path = tmp_path / "mine.jsonl"
    box = {"x": 0.1, "y": 0.1, "w": 0.5, "h": 0.5}
    records = [
        {"image": f"{name}.png", "units": {name: {"objects": [{"name": "cat", "box": box}]}}}
        for name in ("hash1", "hash2")
    ]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    typed = re.search("`(.*?)`", draft(path).doubts["answer.form"])[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    rows = [*map(json.loads, (tmp_path / "NEW").read_text().splitlines())]
    assert [(row["image"], row["question"]) for row in rows] == [
        ("hash1.png", "cat"),
        ("hash2.png", "cat"),
    ]
    records[1]["units"]["hash2"]["objects"].append({"name": "dog", "box": [[1, 2], [3, 4], [5, 6]]})
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    end = subprocess.run(typed, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert end.returncode and "polygons" in end.stderr


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("x1 y1 x2 y2", "xyxy"),
        ("xmin ymin width height", "xywh"),
        ("bbox_x bbox_y bbox_w bbox_h", "xywh"),
    ],
)
def test_a_box_in_four_fields_has_a_pattern(names, order, tmp_path):
    path = written(tmp_path, names.split(), [["Which?", 9, 9, 12, 13]])
    typed = re.search(r"field = .* written = \S+", draft(path).doubts["answer.form"])[0]
    text = "name = 'mine'\nmedia.images = 'image'\nquestion.text = 'question'\n"
    path.with_suffix(".toml").write_text(f"{text}answer = {{form = 'boxes', {typed}}}\n")
    (sample,) = table(tmp_path, file=path).samples()
    right, bottom = (12, 13) if order == "xyxy" else (21, 22)
    assert sample.target.answer == Answer(boxes=(Box(9.0, 9.0, right, bottom),))


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize(
    ("n_ignored", "mark"),
    [
        (0, {"extra": {"ignore": 0}}),
        (1, {"extra": {"ignore": 1}}),
        (1, {"difficult": True}),
        (1, {"attributes": {"ignored": True}}),
    ],
)
def test_objects_to_ignore_are_left_out_and_their_image_is_refused(n_ignored, mark, tmp_path):
    box = {"tag": "person", "fbox": [1, 2, 3, 4]}
    boxes = [box, {**box, **mark}]
    Image.new("RGB", (64, 48)).save(tmp_path / "i.png")
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"ID": "a", "image": "i.png", "gtboxes": boxes}), encoding="utf-8")
    typed = re.search("`(.*?)`", draft(path).doubts["answer.form"])[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    converted = (tmp_path / "NEW").rename(tmp_path / "new.jsonl")
    converted.with_suffix(".toml").write_text(draft(converted).toml("mine"))
    (question,) = Records(read_description(converted.with_suffix(".toml")), converted).questions()
    if n_ignored:
        assert "'ignored'" in str(question) and "nothing to ignore" in str(question)
    else:
        assert len(question.answer.boxes) == 2


@pytest.mark.parametrize(
    "name",
    ["context", "region", "question_time", "system_prompt", "ocr", "n_objects", "label_id", "x"],
)
def test_a_field_that_is_not_read_is_to_be_checked(name, tmp_path):
    path = written(tmp_path, [name, "answer"], [["Which?", "3", "a dog"], ["What?", "", "a cat"]])
    (line,) = [line for line in draft(path).toml("mine").splitlines() if CHECK in line]
    assert line.startswith("#") and name in line
    path = written(tmp_path, [name, "answer"], [["Which?", "", "a dog"]])
    assert CHECK not in draft(path).toml("mine")


def test_the_pattern_that_asks_a_further_field_can_be_pasted(tmp_path):
    fields = ["hint", "ocr\ntext", "answer"]
    path = written(tmp_path, fields, [["Which?", "Look.", "a", "a dog"], ["What?", "", "b", "c d"]])
    text = draft(path).toml("mine")
    assert tomllib.loads(text)["question"]["text"] == "{hint}\n{question}"
    path = written(tmp_path, ["ocr", *fields[::2]], [["Which?", "a", "Look.", "a dog"]])
    assert r'(text = "{ocr}\n{hint}\n{question}" asks it)' in draft(path).toml("mine")


def test_a_field_that_may_be_the_ground_truth_is_named_once(tmp_path):
    path = written(tmp_path, ["box", "answer"], [["Which?", "[1, 2, 30, 40]", "a dog"]])
    described = draft(path)
    assert "or box?" in described.doubts["answer.field"]
    assert "not used" not in described.toml("mine")


@pytest.mark.parametrize("name", ["split", "data_source", "imageUrl", "question_type", "answer_id"])
def test_a_field_of_bookkeeping_is_not_to_be_checked(name, tmp_path):
    path = written(tmp_path, [name, "answer"], [["Which?", "ab", "a dog"], ["What?", "c", "a cat"]])
    assert "\n# CHECK" not in draft(path).toml("mine")


@pytest.mark.parametrize("name", ["label", "correct_idx", "answer_id"])
def test_numbers_of_classes_or_options_are_to_be_checked(name, tmp_path):
    path = written(tmp_path, [name], [["Which?", "2"], ["What?", "11"]])
    described = draft(path)
    assert described.answer == {"form": "number", "field": name}
    assert "options or classes" in described.doubts["answer.form"]


@pytest.mark.parametrize("before", [["system"], ["user", "assistant"], []])
def test_messages_that_are_left_out_are_to_be_checked(before, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "i.png")
    messages = [{"role": role, "content": "a"} for role in (*before, "user")]
    path = tmp_path / "mine.jsonl"
    record = {"messages": messages, "images": ["i.png"], "answer": "a dog"}
    path.write_text(json.dumps(record), encoding="utf-8")
    assert ("question.text" in draft(path).doubts) == bool(before)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_mask_of_several_values_has_a_command(kind, tmp_path):
    values = np.zeros((48, 64), kind)
    values[:10], values[10:20] = 128, 255
    Image.fromarray(values).save(tmp_path / "m.png")
    Image.new("RGB", (64, 48)).save(tmp_path / "i.png")
    path = written(tmp_path, ["mask"], [["Which?", "m.png"]])
    assert "128 and 255" in draft(path).doubts["answer.written"]
    with pytest.raises(DataError) as error:
        mask_of("m.png", AnswerField(form="mask", written="image"), None, tmp_path, "")
    typed = re.search("`(.*?)`", str(error.value))[1].replace("MASK.png", "m.png")
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    mask = mask_of("m.png.png", AnswerField(form="mask", written="image"), None, tmp_path, "")
    assert mask.area == 10 * 64


def test_several_masks_of_a_record_are_refused(tmp_path):
    path = tmp_path / "mine.jsonl"
    record = {"image": "i.png", "question": "cats", "mask": ["m.png", "n.png"]}
    path.write_text(json.dumps(record), encoding="utf-8")
    for name in ("i.png", "m.png", "n.png"):
        Image.new("L", (64, 48), 255).save(tmp_path / name)
    field = AnswerField(form="mask", written="image")
    with pytest.raises(DataError, match="one image of a mask, found 2 images"):
        mask_of(record["mask"], field, None, tmp_path, "")


def test_points_are_no_region(tmp_path):
    points = [{"x": 10.5, "y": 20.1}, {"x": 50, "y": 60}]
    path = tmp_path / "mine.jsonl"
    row = {"image": "i.png", "question": "cats", "count": 2, "points": points}
    path.write_text(json.dumps(row), encoding="utf-8")
    described = draft(path)
    assert described.answer == {"form": "count", "field": "count"}
    assert "points alone" in described.doubts["answer.form"]
    Image.new("RGB", (64, 48)).save(tmp_path / "i.png")
    field, image = AnswerField(form="points", written="xyxy"), open_image(tmp_path / "i.png")
    with pytest.raises(DataError, match="found points"):
        region_of(points, field, image, tmp_path, "")


def test_what_raters_said_is_not_an_option(tmp_path):
    names = ["rater_1", "rater_2", "rater_3", "consensus"]
    described = draft(written(tmp_path, names, [["How many?", 2, 2, 3, 2]]))
    assert "options" not in described.question and described.answer["field"] == "consensus"


def test_boxes_that_fit_no_order_as_pixels_have_a_doubtful_unit(tmp_path):
    cells = [["cup", "[300, 400, 600, 630]"], ["dog", "[100, 200, 20, 90]"]]
    path = written(tmp_path, ["bbox"], cells)
    Image.new("RGB", (640, 480)).save(tmp_path / "i.png")
    described = draft(path)
    assert described.answer["coordinates"] == "thousandths"
    assert "pixels" in described.doubts["answer.coordinates"]
