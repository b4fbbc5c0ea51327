"""Polygons of COCO's results in another order or size are refused or noted; pairs are read."""

import json
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.formats.agreement import Agreement
from harness.interchange.answers import row_to_answer
from harness.masks import Rle
from harness.media import pixels
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id

WIDTH, HEIGHT = 200, 120
IMAGE = pixels([np.zeros((HEIGHT, WIDTH, 3), np.uint8)], times=[0.0], is_video=False, id="image")
OBJECTS = [(20 + 9 * n, 8 + 5 * n, 45, 25 + n) for n in range(5)]
"""Left, top, width and height; all lie in the part of the image that y first does not leave."""
RIGHT = (150, 10, 40, 30)


def sample(number, box=(0, 0, 9, 9)):
    query = Query(id=query_id(str(number)), text="?", media=(IMAGE,), forms=(AnswerForm.MASK,))
    mask = np.zeros((HEIGHT, WIDTH), bool)
    left, top, width, height = box
    mask[top : top + height, left : left + width] = True
    truth = Target(answer=Answer(masks=(Rle.from_array(mask),)))
    return Sample(id=str(number), query=query, target=truth, group=str(number))


def polygon(box, *, y_first=False, factor=1.0):
    left, top, width, height = (side * factor for side in box)
    corners = [(left, top), (left + width, top), (left + width, top + height), (left, top + height)]
    return [number for x, y in corners for number in ((y, x) if y_first else (x, y))]


def written(root, records):
    path = root / "results.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def notes(root, boxes, **how):
    records = [
        {"image_id": n, "segmentation": [polygon(box, **how)]} for n, box in enumerate(boxes)
    ]
    samples = [sample(number, box) for number, box in enumerate(boxes)]
    matched = read_format("coco", written(root, records), samples)
    agreement = Agreement()
    for question in samples:
        answer = row_to_answer(matched.rows[question.id], question.query)
        agreement.add([question], [Prediction(query_id=question.query.id, answer=answer)])
    return " ".join([*matched.notes, *agreement.notes("file", "x.json")])


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize(
    "record",
    [
        {"segmentation": [polygon(RIGHT, y_first=True)]},
        {"segmentation": [polygon(OBJECTS[0], y_first=True)], "bbox": OBJECTS[0]},
    ],
    ids=["beyond the image", "beside its own box"],
)
def test_y_first_is_refused_with_a_command_that_swaps(record, tmp_path):
    path = written(tmp_path, [{"image_id": 0, **record}])
    with pytest.raises(DataError, match=r"\[y, x, y, x") as error:
        read_format("coco", path, [sample(0)])
    (typed,) = re.findall(r"`(jq -c .*?) > NEW`", str(error.value))
    path.write_bytes(
        subprocess.run(shlex.split(typed), cwd=tmp_path, capture_output=True, check=True).stdout
    )
    box = record.get("bbox", RIGHT)
    answer = row_to_answer(read_format("coco", path, [sample(0)]).rows["0"], sample(0).query)
    assert answer == sample(0, box).target.answer


def test_y_first_inside_the_image_is_noted_by_the_ground_truth(tmp_path):
    assert "polygons with y first" in notes(tmp_path, OBJECTS, y_first=True)
    assert not notes(tmp_path, OBJECTS)


def test_a_box_around_more_than_the_polygon_is_no_contradiction(tmp_path):
    record = {"image_id": 0, "segmentation": [polygon(OBJECTS[0])], "bbox": [0, 0, 150, 110]}
    assert read_format("coco", written(tmp_path, [record]), [sample(0)]).notes == ()


APART = [RIGHT, (10, 10, 40, 30), (80, 70, 40, 30), (20, 80, 40, 30), (150, 60, 40, 50)]


@pytest.mark.parametrize("count", [3, 5])
def test_polygons_of_an_image_of_half_the_size_are_noted(count, tmp_path):
    said = notes(tmp_path, APART[:count], factor=0.5)
    assert "images whose sides are divided by 2" in said
    assert ("upper left quarter" in said) == (count == 5)


def test_polygons_of_a_larger_image_are_refused(tmp_path):
    with pytest.raises(DataError, match="more than a tenth"):
        notes(tmp_path, APART, factor=1.9)


@pytest.mark.parametrize("is_nested", [False, True])
def test_corners_may_be_pairs(is_nested, tmp_path):
    flat = polygon(OBJECTS[0])
    pairs = [flat[place : place + 2] for place in range(0, len(flat), 2)]
    record = {"image_id": 0, "segmentation": [pairs] if is_nested else pairs}
    row = read_format("coco", written(tmp_path, [record]), [sample(0)]).rows["0"]
    assert row_to_answer(row, sample(0).query) == sample(0, OBJECTS[0]).target.answer
