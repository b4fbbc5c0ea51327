"""Fields whose names or values mislead are marked in a drafted description, and no others."""

import json
import re
import shutil
import subprocess

import pytest
from PIL import Image

from harness.errors import DataError
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table

ASKED = {"image": "1.jpg", "question": "What is it?"}


def drafted(root, *rows):
    """The draft of a table of records."""
    Image.new("RGB", (640, 480)).save(root / "1.jpg")
    (root / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return draft(root / "a.jsonl")


MARKED = {
    "words as options": (
        [{**ASKED, "choices": [["a", "cat"], ["a", "dog"]], "answer": 0}],
        "question.options",
    ),
    "options that the question has": (
        [{**ASKED, "question": "A. cat\nB. dog", "options": ["cat", "dog"], "answer": "B"}],
        "question.options",
    ),
    "a hint": ([{**ASKED, "hint": "It is a cat.", "answer": "cat"}], "question.text"),
    "a repeated id": (
        [{**ASKED, "id": 1, "answer": text} for text in ("cat", "dog")],
        "question.text",
    ),
    "a frame of a video": ([{**ASKED, "video_id": "v1", "answer": "cat"}], "media.images"),
    "a state of the work": ([{**ASKED, "answer": "accept"}] * 3, "answer.field"),
    "a number for no answer": (
        [{**ASKED, "question": f"How many {n}?", "answer": n} for n in (3, -1)],
        "answer.form",
    ),
    "options of some questions": (
        [
            {**ASKED, "question": text, "answer": answer}
            for text, answer in (("A. cat B. dog?", "A"), ("Who?", "a man"), ("Where?", "here"))
        ],
        "answer.form",
    ),
    "a model": ([{**ASKED, "answer": "cat", "model_id": "m"}], "answer.field"),
    "several letters of options": (
        [{**ASKED, "answer": text} for text in ("A, C", "B", "D")],
        "answer.form",
    ),
    "parts of 1 for percent": (
        [{**ASKED, "question": "What percentage?", "answer": part} for part in (0.35, 1)],
        "answer.form",
    ),
    "a wrong caption": (
        [{"image": "1.jpg", "caption": "a red hat", "negative_caption": "a blue hat"}],
        "question.text",
    ),
    "images as options": (
        [{**ASKED, "A": "1.jpg", "B": "2.jpg", "answer": "B"}],
        "question.options",
    ),
    "boxes of several people": (
        [{"image": "1.jpg", "rad_id": name, "x1": 0, "y1": 0, "x2": 9, "y2": 9} for name in "ab"],
        "answer.form",
    ),
    "no answer in words": (
        [{**ASKED, "answer": text} for text in ("cat", "Unanswerable")],
        "answer.form",
    ),
}


@pytest.mark.parametrize("name", MARKED)
def test_what_misleads_is_marked(name, tmp_path):
    rows, key = MARKED[name]
    assert key in drafted(tmp_path, *rows).doubts


def test_boxes_of_one_person_are_not_of_several(tmp_path):
    box = {"image": "1.jpg", "x1": 0, "y1": 0, "x2": 9, "y2": 9}
    several = "several people"
    assert several not in str(drafted(tmp_path, *[{**box, "rad_id": "a"}] * 2).doubts)
    assert several in str(drafted(tmp_path, *[{**box, "rad_id": name} for name in "ab"]).doubts)


def test_images_that_may_be_masks_are_marked_and_not_read_as_both(tmp_path):
    (tmp_path / "masks").mkdir()
    mask = Image.new("L", (64, 48))
    mask.paste(255, (8, 8, 20, 20))
    mask.save(tmp_path / "masks" / "m1.png")
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"image": "m1.png", "caption": "a cat"}))
    assert "media.images" in draft(path).doubts
    path.with_suffix(".toml").write_text(
        'name = "a"\n[media]\nfolder = "masks"\nimages = "image"\n[question]\ntext = "caption"\n'
        '[answer]\nform = "mask"\nfield = "image"\nwritten = "image"\n'
    )
    with pytest.raises(DataError, match="an image of its own"):
        list(table(tmp_path, file=path).samples())


def test_a_plain_table_has_no_mark(tmp_path):
    texts = ("cat", "dog", "cow")
    rows = [{**ASKED, "question": f"{n}?", "id": n, "answer": t} for n, t in enumerate(texts)]
    assert drafted(tmp_path, *rows).doubts == {}


@pytest.mark.parametrize(
    ("task", "is_marked"), [("Answer in {} words.", True), ("vqa", False), ("visual QA", False)]
)
def test_an_instruction_under_a_kind_s_name_is_marked(task, is_marked, tmp_path):
    rows = [{**ASKED, "task": task.format(n), "answer": "cat"} for n in (1, 2)]
    assert ("CHECK: not used: task" in drafted(tmp_path, *rows).toml("a")) == is_marked


@pytest.mark.parametrize(
    "names",
    [
        ("questionText", "correctAnswer", "questionId"),
        ("Question Text", "Correct Answer", "Question ID"),
    ],
)
def test_words_of_names_are_parted_in_any_way(names, tmp_path):
    text, answer, number = names
    rows = [{"image": "1.jpg", text: "What?", answer: t, number: t} for t in ("cat", "dog")]
    description = drafted(tmp_path, *rows)
    found = (description.question["text"], description.question["id"], description.answer["field"])
    assert found == (text, number, answer)


def test_the_place_of_an_answer_is_not_the_id_of_its_question(tmp_path):
    places = [{"index": n, "text": t} for n, t in enumerate(("cat", "dog"))]
    rows = [{**ASKED, "options": ["cat", "dog"], "answer": place} for place in places]
    assert "id" not in drafted(tmp_path, *rows).question


def test_letters_beside_options_are_not_the_answer(tmp_path):
    choices = {"text": ["cat", "dog"], "label": ["A", "B"]}
    rows = [{**ASKED, "choices": choices, "answerKey": letter} for letter in "AB"]
    description = drafted(tmp_path, *rows)
    assert description.question["options"] == "choices.text"
    assert description.answer == {"form": "choice", "field": "answerKey", "written": "letter"}


SIDES = {"x": 10, "y": 20, "w": 100, "h": 50}
OF_IMAGES = {
    "V7": {
        "version": "2.0",
        "item": {"name": "1.jpg"},
        "annotations": [{"name": "car", "bounding_box": SIDES}],
    },
    "SuperAnnotate": {
        "metadata": {"name": "1.jpg"},
        "instances": [{"className": "car", "points": {"x1": 10, "y1": 20, "x2": 110, "y2": 70}}],
        "tags": [],
    },
    "Scale": [
        {
            "params": {"attachment": "1.jpg"},
            "response": {
                "annotations": [{"label": "car", "left": 10, "top": 20, "width": 100, "height": 50}]
            },
        }
    ],
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("name", OF_IMAGES)
def test_objects_of_an_image_keep_its_name_and_their_order(name, tmp_path):
    Image.new("RGB", (640, 480)).save(tmp_path / "1.jpg")
    path = tmp_path / "objects.json"
    path.write_text(json.dumps(OF_IMAGES[name]))
    if name != "Scale":
        with pytest.raises(DataError) as error:
            draft(path)
        typed = re.search("`(jq -s .*?)`", str(error.value))[1]
        subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
        path = tmp_path / "NEW.json"
    typed = re.search("`(jq -c .*?) > NEW`", draft(path).doubts["answer.form"], re.DOTALL)[1]
    with (tmp_path / "table.jsonl").open("wb") as file:
        subprocess.run(typed, shell=True, cwd=tmp_path, check=True, stdout=file)
    description = draft(tmp_path / "table.jsonl")
    order = "xyxy" if name == "SuperAnnotate" else "xywh"
    assert description.answer["written"] == order
    assert "answer.written" not in description.doubts
    row = json.loads((tmp_path / "table.jsonl").read_text())
    sides = [10, 20, 110, 70] if order == "xyxy" else [10, 20, 100, 50]
    assert (row["question"], row["bbox"]) == ("car", [sides])
    assert "1.jpg" in json.dumps(row)


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_a_turned_box_beside_boxes_is_an_error_of_the_command(tmp_path):
    box = {"className": "car", "points": {"x1": 10, "y1": 20, "x2": 110, "y2": 70}}
    turned = {"x1": 1, "y1": 2, "x2": 3, "y2": 4, "x3": 5, "y3": 6, "x4": 7, "y4": 8}
    record = {"image": "1.jpg", "instances": [box, {"className": "bus", "points": turned}]}
    doubt = drafted(tmp_path, record).doubts["answer.form"]
    typed = re.search("`(jq -c .*?) > NEW`", doubt, re.DOTALL)[1]
    done = subprocess.run(typed, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "write such objects as polygons" in done.stderr


BOXES = [[10, 20, 30, 40], [50, 60, 70, 80]]
CLASSES = {
    "HICO-DET": (
        [{"bbox": BOXES[0], "category_id": 4}, {"bbox": BOXES[1], "category_id": 1}],
        [(1, [BOXES[1]]), (4, [BOXES[0]])],
    ),
    "SageMaker": (
        [{"class_id": 0, "left": 1, "top": 2, "width": 3, "height": 4}] * 2,
        [(0, [[1, 2, 3, 4]] * 2)],
    ),
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("name", CLASSES)
def test_the_number_of_a_class_without_a_name_is_kept(name, tmp_path):
    objects, right = CLASSES[name]
    doubt = drafted(tmp_path, {"image": "1.jpg", "annotations": objects}).doubts["answer.form"]
    typed = re.search("`(jq -c .*?) > NEW`", doubt, re.DOTALL)[1]
    done = subprocess.run(typed, shell=True, cwd=tmp_path, check=True, capture_output=True)
    rows = list(map(json.loads, done.stdout.splitlines()))
    number = next(key for key in objects[0] if key.endswith("_id"))
    assert [(row[number], row["bbox"]) for row in rows] == right
    assert {row["question"] for row in rows} == {"CHECK"}
