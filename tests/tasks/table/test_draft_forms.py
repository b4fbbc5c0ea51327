"""A draft recognises what answers look like, or says what to check."""

import csv

import pytest
from PIL import Image

from harness.tasks.table.cells import clock_span
from harness.tasks.table.draft import CHECK, draft
from harness.tasks.table.task import table
from harness.types import Answer, Interval

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
    assert described.answer["written"] == convention and CHECK not in described.toml("mine")
    assert read(path) == [Answer(choice=letter) for letter in letters]


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
    ],
)
def test_texts_that_look_like_something_else_are_doubted(answers, tmp_path):
    path = written(tmp_path, ["answer"], [["What?", answer] for answer in answers])
    assert "answer.form" in draft(path).doubts


@pytest.mark.parametrize("answers", [["the red one", "a dog"], ["Paris", "7 dwarfs sing a song"]])
def test_words_are_not_doubted(answers, tmp_path):
    path = written(tmp_path, ["answer"], [["What?", answer] for answer in answers])
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
    assert CHECK not in draft(path).toml("mine")
    assert read(path) == [Answer(interval=Interval(2.0, 5.0))]
