"""COCO's results: what pycocotools' loadRes takes is taken, and a lost number is refused."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from pycocotools import mask as coco_masks

from harness.errors import DataError
from harness.formats import read_format
from harness.interchange.answers import row_to_answer
from harness.media import pixels
from harness.types import AnswerForm, Query, Sample, query_id

HEIGHT, WIDTH = 6, 9
IMAGE = pixels([np.zeros((HEIGHT, WIDTH, 3), np.uint8)], times=(0.0,), is_video=False, id="p")
SQUARE = [[1.0, 1.0, 5.0, 1.0, 5.0, 4.0, 1.0, 4.0]]
MASK = np.zeros((HEIGHT, WIDTH), np.uint8)
MASK[1:4, 1:5] = 1
COMPRESSED = coco_masks.encode(np.asfortranarray(MASK))
RUNS = {"size": [HEIGHT, WIDTH], "counts": [7, 3, 3, 3, 3, 3, 3, 3, 26]}


def sample(name, form=AnswerForm.MASK, **more):
    query = Query(id=query_id(name), text="?", media=(IMAGE,), forms=(form,), **more)
    return Sample(id=name, query=query, target=None)


IMAGE_QUERY = Query(id="q", text="?", media=(IMAGE,), forms=(AnswerForm.BOXES,))


def read(tmp_path, records, samples, **more):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(records))
    return read_format("coco", path, samples, **more)


def answer(tmp_path, record, one):
    row = read(tmp_path, [{"image_id": one.id, "score": 0.9, **record}], [one]).rows[one.id]
    return row_to_answer(row, one.query)


@pytest.mark.parametrize(
    "segmentation",
    [SQUARE, RUNS, {**COMPRESSED, "counts": COMPRESSED["counts"].decode()}],
    ids=["polygons", "runs", "compressed"],
)
def test_segmentations_are_masks_and_their_extents_boxes(tmp_path, segmentation):
    record = {"segmentation": segmentation}
    (mask,) = answer(tmp_path, record, sample("7")).masks
    assert np.array_equal(mask.to_array(), MASK)
    (box,) = answer(tmp_path, record, sample("7", AnswerForm.BOXES)).boxes
    assert tuple(box) == (1, 1, 5, 4)


@pytest.mark.parametrize(
    ("identity", "id"),
    [
        ({"image_id": 7, "category_id": 2}, "7"),
        ({"image_id": 7, "category_id": 2}, "7/2"),
        ({"image_id": "000007"}, "7"),
        ({"image_id": 7.0}, "7"),
        ({"image_id": "a.JPG"}, "a"),
        ({"image_id": "a.b"}, "a.b"),
    ],
)
def test_a_record_is_of_the_sample_that_its_numbers_name(tmp_path, identity, id):
    found = read(tmp_path, [{**identity, "segmentation": SQUARE}], [sample(id), sample("8")])
    assert row_to_answer(found.rows[id], sample(id).query).masks[0].area == 12
    assert not found.unmatched
    stranger = read(tmp_path, [{"image_id": 9, "category_id": 3}], [sample(id)])
    assert stranger.unmatched[0].endswith("record 0, '9', category 3") and not stranger.rows


def test_where_nothing_was_found_nothing_is_predicted(tmp_path):
    asked = [
        sample("1"),
        sample("2"),
        sample("3", instances=True),
        sample("4", AnswerForm.BOXES),
    ]
    found = read(tmp_path, [{"image_id": 1, "segmentation": SQUARE, "score": 0.4}], asked)
    answers = [row_to_answer(found.rows[one.id], one.query) for one in asked]
    assert [one.masks and one.masks[0].area for one in answers] == [0, 0, 0, None]
    assert answers[2].no_target and answers[3].boxes == ()
    assert found.notes == (
        "1 records whose score is not above 0.5, left out of the mask",
        "3 samples without a record: nothing was found there, as COCO's form has it",
    )
    lower = read(
        tmp_path, [{"image_id": 1, "segmentation": SQUARE, "score": 0.4}], asked, threshold=0.3
    )
    assert row_to_answer(lower.rows["1"], asked[0].query).masks[0].area == 12


def test_boxes_are_left_top_width_height_and_one_without_extent_overlaps_nothing(tmp_path):
    records = [
        {"image_id": 7, "bbox": [1, 2, 3.5, 2], "score": 0.9},
        {"image_id": 7, "bbox": [1, 2, 0, 2], "score": 0.8},
    ]
    one = sample("7", AnswerForm.BOXES)
    found = read(tmp_path, records, [one])
    made = row_to_answer(found.rows["7"], one.query)
    assert tuple(made.boxes[0]) == (1, 2, 4.5, 4) and made.box_scores == (0.9, 0.8)
    assert made.boxes[1].right - made.boxes[1].left < 1e-5
    assert found.notes == ("1 boxes without a width or a height, which overlap nothing",)


BAD = {
    "bbox": [{"bbox": [1, 2, -3, 4]}, {"bbox": [1, 2, 3]}, {"bbox": [1, 2, 3, float("nan")]}, {}],
    "segmentation": [
        {"segmentation": [[1, 1, 2, 2]]},
        {"segmentation": [[1, 1, 2, 2, 1e9, 1]]},
        {"segmentation": {"size": [HEIGHT, WIDTH + 1], "counts": [70]}},
        {"segmentation": {"size": [HEIGHT, WIDTH]}},
        {"bbox": [1, 2, 3, 4]},
    ],
    "score": [{"segmentation": SQUARE, "score": one} for one in (float("inf"), True, "0,5")],
    "image_id": [{"image_id": None}, {"image_id": True}, {"image_id": 0.5}],
}


@pytest.mark.parametrize("field", BAD)
def test_a_malformed_record_is_named(tmp_path, field):
    one = sample("7", AnswerForm.BOXES if field == "bbox" else AnswerForm.MASK)
    for record in BAD[field]:
        with pytest.raises(DataError) as error:
            read(tmp_path, [{"image_id": 7, **record}], [one])
        assert "record 0" in str(error.value) and field in str(error.value), record
    with pytest.raises(DataError, match="a score for each record, or for none"):
        records = [{"image_id": 7, "bbox": [1, 2, 3, 4], "segmentation": SQUARE}] * 2
        read(tmp_path, [records[0], {**records[1], "score": 0.5}], [one])
    with pytest.raises(DataError, match="a list"):
        read(tmp_path, {"annotations": []}, [one])


LARGE = pixels([np.zeros((60, 90, 3), np.uint8)], times=(0.0,), is_video=False, id="l")
CORNERS = [10, 10, 50, 40]
RECTANGLE = [[10, 10, 50, 10, 50, 40, 10, 40]]
FILLED = np.zeros((60, 90), np.uint8, order="F")
FILLED[10:40, 10:50] = 1


@pytest.mark.parametrize("is_polygon", [True, False])
def test_a_box_that_is_the_corners_of_its_own_mask_is_refused(tmp_path, is_polygon):
    runs = coco_masks.encode(FILLED)
    mask = RECTANGLE if is_polygon else {**runs, "counts": runs["counts"].decode()}
    query = Query(id="q", text="?", media=(LARGE,), forms=(AnswerForm.BOXES,))
    asked = Sample(id="7", query=query, target=None)
    with pytest.raises(DataError, match="corners of the record's own mask"):
        answer(tmp_path, {"bbox": CORNERS, "segmentation": mask}, asked)
    (box,) = answer(tmp_path, {"bbox": [10, 10, 40, 30], "segmentation": mask}, asked).boxes
    assert tuple(box) == (10, 10, 50, 40)
    (box,) = answer(tmp_path, {"bbox": CORNERS, "segmentation": {"size": [1]}}, asked).boxes
    assert tuple(box) == (10, 10, 60, 50)  # nothing says that they are corners


def test_a_loose_box_around_a_small_mask_is_read(tmp_path):
    query = Query(id="q", text="?", media=(LARGE,), forms=(AnswerForm.BOXES,))
    asked = Sample(id="7", query=query, target=None)
    for box, mask in (
        ([5, 5, 9, 9], [5, 5, 10, 5, 10, 10, 5, 10]),
        ([2, 2, 4, 4], [2, 2, 4, 2, 4, 4]),
    ):
        (read_box,) = answer(tmp_path, {"bbox": box, "segmentation": [mask]}, asked).boxes
        assert tuple(read_box) == (box[0], box[1], box[0] + box[2], box[1] + box[3])


def test_a_detector_s_label_is_not_compared_with_the_question(tmp_path):
    asked = [
        replace(sample(name, AnswerForm.BOXES), query=replace(IMAGE_QUERY, id=name, text=text))
        for name, text in (("i/0", "dog"), ("i/1", "the left dog"), ("train/img1.jpg", "dog"))
    ]
    box = {"label": "dog", "bbox": [1, 1, 4, 3], "score": 0.9}
    records = [{"image_id": "i", "category_id": 1, **box}, {"image_id": "train/img1.jpg", **box}]
    rows = read(tmp_path, records, asked).rows
    assert [len(rows[question.id].value or ()) for question in asked] == [0, 1, 1]


def test_a_category_s_name_is_that_of_the_question_where_it_is_all_of_it(tmp_path):
    """As in a table of COCO's annotations, whose questions are the categories' names."""
    questions = [
        replace(sample(name, AnswerForm.BOXES), query=replace(IMAGE_QUERY, id=name, text=text))
        for name, text in (("7/1", "person"), ("7/18", "dog"))
    ]
    record = {"image_id": 7, "category_id": "Dog", "bbox": [1, 1, 4, 3], "score": 0.9}
    rows = read(tmp_path, [record], questions).rows
    assert [len(rows[name].value or ()) for name in ("7/1", "7/18")] == [0, 1]


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize(("form", "box"), [("xyxy", [1, 1, 5, 4]), ("xywh", [1, 1, 4, 3])])
def test_a_result_of_grounded_sam_2_has_a_command(form, box, tmp_path):
    annotation = {"class_name": "dog", "bbox": box, "segmentation": RUNS, "score": [0.9]}
    plain = {"image_path": "val/0007.jpg", "annotations": [annotation], "box_format": form}
    question = sample("7/18", AnswerForm.BOXES)
    question = replace(question, query=replace(question.query, text="dog"))
    with pytest.raises(DataError) as error:
        read(tmp_path, plain, [question])
    typed = re.search(r"`(jq .*? > NEW\S*)`", str(error.value))[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    (new,) = tmp_path.glob("NEW*")
    (row,) = read_format("coco", new, [question]).rows.values()
    assert tuple(row_to_answer(row, question.query).boxes[0]) == (1, 1, 5, 4)


def test_boxes_of_a_category_that_the_question_does_not_name_are_noted(tmp_path):
    asked = replace(sample("7", AnswerForm.BOXES))
    asked = replace(asked, query=replace(asked.query, text="the animal"))
    box = {"image_id": "7", "bbox": [1, 1, 3, 2], "score": 0.9}
    named = read(tmp_path, [{**box, "category_id": "animal"}], [asked])
    assert not any("category" in note for note in named.notes)
    other = read(tmp_path, [{**box, "category_id": "person"}], [asked])
    assert "1 records of category 'person', which their question does not name" in other.notes
