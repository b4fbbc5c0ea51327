"""Values of other types than usual are read as what they say, or refused; none is a crash."""

import json
import re
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import harness
from harness.errors import DataError
from harness.media import pixels
from harness.tasks.table.cells import without_marks
from harness.tasks.table.class_labels import class_features, read_with_class_names
from harness.tasks.table.description import AnswerField
from harness.tasks.table.draft import draft
from harness.tasks.table.draft_options import objects_texts, with_answer
from harness.tasks.table.layouts import LAYOUTS
from harness.tasks.table.line_files import columns
from harness.tasks.table.truth import boxes_of, plain_answer
from harness.tasks.table.unread_fields import stated_size
from harness.types import Box, Interval

ANIMALS = {"_type": "ClassLabel", "names": ["cat", "dog"]}


def saved(folder, rows, name="a.jsonl"):
    """Write lines of records, an image and the drafted description; return the lines' path."""
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    path = folder / name
    path.write_text("".join(json.dumps({"image": "a.png", **row}) + "\n" for row in rows))
    path.with_suffix(".toml").write_text(draft(path).toml("mine"))
    return path


def answers(path):
    task = harness.load_task(f"table(file={path})")
    return [sample.target and sample.target.answer for sample in task.samples()]


def read(layout, path):
    return [parse() for _, parse in LAYOUTS[layout](path, (), ())]


def said(role, content):
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("spoken", "reply"),
    [
        (["no"], "no"),
        ([[{"type": "text", "text": "no"}]], "no"),
        ([None, "no"], "no"),  # a call of a tool, and the answer after it
        ([None], None),
        ([[{"type": "text", "text": None}]], None),
        ([[{"type": "text", "text": 5}]], "5"),
    ],
)
def test_a_message_without_a_text_says_nothing(spoken, reply, tmp_path):
    messages = [said("user", "Red?"), *(said("assistant", content) for content in spoken)]
    (row,) = read("messages", saved(tmp_path, [{"messages": messages}]))
    assert row.get("reply") == reply and row["question"] == "Red?"


def test_a_question_without_a_text_is_empty(tmp_path):
    path = saved(tmp_path, [{"messages": [said("user", None), said("assistant", "no")]}])
    assert read("messages", path)[0]["question"] == ""


@pytest.mark.parametrize("content", [["a.png", "Red?"], {"text": "Red?"}, 5])
def test_a_message_of_other_parts_is_refused(content, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"messages": [said("user", content), said("assistant", "no")]}))
    with pytest.raises(DataError, match="'messages': 'content'"):
        draft(path)


def coco(folder, *, name="cat", image=(), annotation=()):
    """Write a file of one object; return its path."""
    plain = {
        "images": [{"id": 1, "file_name": "a.png", **dict(image)}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], **dict(annotation)}
        ],
        "categories": [{"id": 1, "name": name}],
    }
    path = folder / "a.json"
    path.write_text(json.dumps(plain))
    return path


def test_the_name_of_a_category_may_be_a_number(tmp_path):
    assert read("coco", coco(tmp_path, name=7))[0]["category"] == "7"
    with pytest.raises(DataError, match="'name'"):
        read("coco", coco(tmp_path, name=None))


def test_the_id_of_an_image_may_be_a_whole_float(tmp_path):
    (row,) = read("coco", coco(tmp_path, annotation={"image_id": 1.0}))
    assert row["image"] == "a.png" and row["boxes"] == [[1, 2, 4, 6]]


@pytest.mark.parametrize("layout", ["coco", "captions"])
@pytest.mark.parametrize(
    ("image", "annotation"),
    [
        ({"id": [1]}, {}),
        ({"file_name": ["a.png"]}, {}),
        ({}, {"image_id": {"a": 1}}),
        ({}, {"bbox": [1, "2", 3, 4]}),
        ({}, {"bbox": [1, [2], 3, 4]}),
        ({}, {"bbox": [1, 2, 3, None]}),
    ],
)
def test_odd_entries_of_coco_are_refused(image, annotation, layout, tmp_path):
    path = coco(tmp_path, image={"caption": "a cat", **image}, annotation=annotation)
    with pytest.raises(DataError, match=f"'{next(iter({**image, **annotation}))}'"):
        read(layout, path)


@pytest.mark.parametrize("region", ["cat", [], None, {"phrase": ["cat"], "bbox": [1, 2, 3, 4]}])
def test_odd_regions_of_odvg_are_refused(region, tmp_path):
    grounding = {"caption": "a cat", "regions": [region]}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"filename": "a.png", "grounding": grounding}))
    with pytest.raises(DataError, match="phrase"):
        read("odvg", path)


def test_a_text_that_is_too_long_for_a_name_is_no_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"image,question\n{{'bytes': {'x' * 300}}},Red?\n")
    assert draft(path).media["images"] == "image"


def test_a_list_of_a_polygon_and_something_else_is_no_mask(tmp_path):
    mask = [[[1, 1, 5, 1, 5, 5], True], 1]
    assert draft(saved(tmp_path, [{"question": "Which?", "mask": mask}])).answer["form"] == "text"


def test_a_table_without_any_answer_has_no_list_of_classes(tmp_path):
    row = {"question": "Which?", "bboxes": [{"x": 1, "y": 2}], "choices": "3", "options": []}
    assert draft(saved(tmp_path, [row])).answer


@pytest.mark.parametrize(("listed", "is_open"), [([1], 1), ([2], 0), (1, 0), (None, 0)])
def test_categories_that_are_not_exhaustive(listed, is_open, tmp_path):
    path = coco(tmp_path, image={"not_exhaustive_category_ids": listed})
    assert read("coco", path)[0]["iscrowd"] == is_open
    plain = json.loads(coco(tmp_path, image={"video_id": 5}).read_text())
    plain["videos"] = [{"id": 5, "not_exhaustive_category_ids": listed}]  # as in TAO
    path.write_text(json.dumps(plain))
    assert read("coco", path)[0]["iscrowd"] == is_open


@pytest.mark.parametrize("spans", [[[2, 8]], [[-3, -1]], [[3, 1]], [[1, 1]], [1, 3], "x"])
def test_a_phrase_beyond_its_caption_is_refused(spans, tmp_path):
    path = coco(tmp_path, image={"caption": "a cat"}, annotation={"tokens_positive": spans})
    with pytest.raises(DataError, match="'tokens_positive'"):
        read("captions", path)


def test_a_caption_of_another_type_is_refused(tmp_path):
    path = coco(tmp_path, image={"caption": 5}, annotation={"tokens_positive": [[0, 1]]})
    with pytest.raises(DataError, match="'caption'"):
        read("captions", path)


@pytest.mark.parametrize(
    ("value", "name"),
    [(1, "dog"), (1.0, "dog"), ("dog", "dog"), (-1, None), (float("nan"), None), (None, None)],
)
def test_a_class_is_a_number_of_any_type_or_a_name(value, name):
    assert read_with_class_names(lambda: {"label": value}, {"label": ANIMALS}, "row 0") == {
        "label": name
    }


@pytest.mark.parametrize("value", [0.5, "horse", 2, -2])
def test_another_class_is_refused(value):
    with pytest.raises(DataError, match="field 'label'"):
        read_with_class_names(lambda: {"label": value}, {"label": ANIMALS}, "row 0")


def test_classes_without_names_stay_beside_others(tmp_path):
    unnamed = {"_type": "ClassLabel", "num_classes": 2}
    info = {"info": {"features": {"kind": unnamed, "both": {"a": ANIMALS, "b": unnamed}}}}
    table = pa.table({"kind": [1], "both": [{"a": 1, "b": 1}]})
    parquet.write_table(
        table.replace_schema_metadata({b"huggingface": json.dumps(info).encode()}),
        tmp_path / "a.parquet",
    )
    features = class_features(tmp_path / "a.parquet")
    row = read_with_class_names(lambda: {"kind": 1, "both": {"a": 1, "b": 1}}, features, "row 0")
    assert row == {"kind": 1, "both": {"a": "dog", "b": 1}}


@pytest.mark.parametrize(
    ("sides", "size"),
    [
        ([640, 480], [640, 480]),
        ([480, 640, 3], [640, 480]),
        ([3, 480, 640], [640, 480]),
        ([3, 640, 3], [3, 640]),
        ({"width": "640", "height": 480.0}, [640, 480]),
        ({"width": 480, "height": 640}, [480, 640]),  # of an image that was turned
        ({"width": None, "height": None}, None),
        ([0, 0], None),
        ([224, 224], [224, 224]),
    ],
)
def test_the_size_of_an_image_is_stated_in_several_forms(sides, size):
    stated = stated_size({"image_shape": sides}, (640, 480))
    assert (stated and stated[1]) == size


TEXTS = ("cat", "dog", "cow")


def entries(key, names):
    return [{key: name, "text": text} for name, text in zip(names, TEXTS, strict=False)]


@pytest.mark.parametrize(
    ("key", "names", "answer", "right"),
    [
        ("id", (0, 1, 2), 2, "cow"),
        ("id", (1, 2, 3), 2, "dog"),
        ("id", (2, 0, 1), 2, "cat"),
        ("label", ("B", "A"), "B", "cat"),
        ("label", ("A", "B"), "B", "dog"),
        ("label", ("x", "y"), "y", "dog"),
        ("label", ("x", "y"), "cat", "cat"),
    ],
)
def test_an_answer_that_names_an_option_by_its_key(key, names, answer, right, tmp_path):
    row = {"question": "Which?", "choices": entries(key, names), "answer": answer}
    path = saved(tmp_path, [row])
    doubt = draft(path).doubts.get("answer.written", "")
    if doubt and shutil.which("jq") is None:
        pytest.skip("the way out is a command of jq")
    if doubt:
        subprocess.run(re.search(r"`(.*?)`", doubt)[1], shell=True, cwd=tmp_path, check=True)
        path = saved(tmp_path, [json.loads((tmp_path / "NEW").read_text())], "new.jsonl")
    (sample,) = harness.load_task(f"table(file={path})").samples()
    place = "ABC".index(sample.target.answer.choice)
    assert not draft(path).doubts and sample.query.options[place] == right


def test_letters_in_the_texts_of_objects_are_not_shown_twice(tmp_path):
    choices = [{"text": "A. cat"}, {"text": "B. dog"}]
    path = saved(tmp_path, [{"question": "Which?", "choices": choices, "answer": "A"}])
    (sample,) = harness.load_task(f"table(file={path})").samples()
    assert sample.query.options == ("cat", "dog")


def test_numbers_are_rather_the_keys_of_options_than_their_texts():
    assert objects_texts("o", [[{"value": "0", "label": "cat"}]]) == ["o.0.label"]
    assert objects_texts("o", [[{"value": "3 m", "label": "A"}]]) == ["o.0.value"]


def test_options_that_no_field_names_are_refused(tmp_path):
    row = {"question": "Which?", "choices": entries("id", (0, 1)), "answer": 1}
    path = saved(tmp_path, [row])
    longer = {"image": "a.png", **row, "choices": entries("id", (0, 1, 2))}
    path.write_text(f"{path.read_text()}{json.dumps(longer)}\n")
    with pytest.raises(DataError, match=r"line 2: 'choices'.*2 options"):
        answers(path)


def test_wrong_options_in_the_text_of_a_cell_have_no_command(tmp_path):
    assert "`" not in with_answer(tmp_path / "a.csv", "wrong_answers", "answer")
    assert "`" in with_answer(tmp_path / "a.csv", ["wrong_1", "wrong_2"], "answer")


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (r"$\boxed{\frac{1}{2}}$", r"\frac{1}{2}"),
        (r"\boxed{\sqrt{\frac{1}{2}}}", r"\sqrt{\frac{1}{2}}"),
        (r"\boxed{1} or \boxed{2}", r"\boxed{1} or \boxed{2}"),
    ],
)
def test_marks_around_a_formula_are_no_part_of_it(cell, text):
    assert without_marks(cell) == text


def test_other_marks_around_answers_are_to_be_checked(tmp_path):
    row = {"question": "How?", "solution": "So it is <answer>red</answer>."}
    assert "marks" in draft(saved(tmp_path, [row])).doubts["answer.form"]


@pytest.mark.parametrize("value", ["3.5s - 7s", "3 to 7 seconds", "00:03-00:07", ["0:03", "0:07"]])
def test_times_in_seconds_are_no_milliseconds(value):
    field = AnswerField(form="interval", field="a", written="milliseconds")
    with pytest.raises(DataError, match="states seconds"):
        plain_answer(value, field, "line 1")
    assert plain_answer("3000-7000", field, "line 1")[0].interval == Interval(3, 7)


def test_the_sides_of_a_box_may_have_numbers_as_names():
    field = AnswerField(form="boxes", field="a", written="xyxy")
    medium = pixels([np.zeros((8, 8, 3), np.uint8)], times=[0], is_video=False, id="a")
    assert boxes_of("{1: 1, 2: 2, 3: 3, 4: 4}", field, medium, "line 1") == (Box(1, 2, 3, 4),)


@pytest.mark.parametrize(("mark", "count"), [("0", 1), ("1", 0), ("1.0", 0), ("True", 0)])
def test_a_group_of_open_images_is_marked_in_several_forms(mark, count, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\na,/m/1,0,1,0,1,{mark}\n")
    assert len(list(columns(str(path), "ImageID", "LabelName", "XMin YMin XMax YMax"))) == count
