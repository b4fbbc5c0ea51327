"""Categories that a program numbers in another order are those of their names."""

import json
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.interchange.rows import read_rows
from harness.media import pixels
from harness.types import AnswerForm, Query, Sample, query_id

COMMAND = re.compile(r"`(jq (?:-\w+ )?'.*?'.*?) > NEW`", re.DOTALL)
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
SIZE = (90, 60)
IMAGE = pixels([np.zeros((60, 90, 3), np.uint8)], times=(0.0,), is_video=False, id="p")
NUMBERS = {"person": 1, "cat": 17, "Traffic Light": 10}


def samples():
    """A question for each category of an image, under the benchmark's numbers."""
    return [
        Sample(
            id=f"7/{number}",
            query=Query(id=query_id(name), text=name, media=(IMAGE,), forms=(AnswerForm.BOXES,)),
            target=None,
            categories={"category": name},
        )
        for name, number in NUMBERS.items()
    ]


def boxes_of(path):
    """The boxes by question, without those of questions that have none."""
    rows = read_format("coco", path, samples()).rows
    return {name: row.value for name, row in rows.items() if row.value}


def run(error, folder, place=0):
    """Run a command of an error in a folder; return what it prints."""
    command = COMMAND.findall(str(error.value))[place]
    parts = shlex.split(command)
    if parts[-1] == "*.json":
        parts[-1:] = sorted(path.name for path in folder.glob("*.json"))
    return subprocess.run(parts, cwd=folder, capture_output=True, check=True).stdout


def data_set(**more):
    """A data set in COCO's form, with categories in the order of their names, as CVAT has them."""
    return {
        "images": [{"id": 1, "file_name": "val/000000000007.jpg", "width": 90, "height": 60}],
        "categories": [
            {"id": 1, "name": "cat"},
            {"id": 2, "name": "person"},
            {"id": 3, "name": "traffic light"},
        ],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 2, "bbox": [1, 2, 10, 20]},
            {"id": 2, "image_id": 1, "category_id": 1, "bbox": [3, 4, 30, 40]},
            {"id": 3, "image_id": 1, "category_id": 3, "bbox": [5, 6, 7, 8]},
        ],
        **more,
    }


EXPECTED = {"7/1": [[1, 2, 11, 22]], "7/17": [[3, 4, 33, 44]], "7/10": [[5, 6, 12, 14]]}


@needs_jq
def test_the_command_for_a_data_set_keeps_the_names_of_categories(tmp_path):
    path = tmp_path / "instances default.json"
    path.write_text(json.dumps(data_set()))
    with pytest.raises(DataError) as error:
        boxes_of(path)
    path.write_bytes(run(error, tmp_path))
    assert boxes_of(path) == EXPECTED


@needs_jq
def test_images_of_another_size_and_annotations_of_no_image_are_refused(tmp_path):
    path = tmp_path / "x.json"
    half = [{"id": 1, "file_name": "7.jpg", "width": 45, "height": 30}]
    for images, says in ((half, "90 × 60, found those of one of 45 × 30"), ([], "image_id")):
        path.write_text(json.dumps(data_set(images=images)))
        with pytest.raises(DataError) as error:
            boxes_of(path)
        path.write_bytes(run(error, tmp_path))
        with pytest.raises(DataError, match=says):
            boxes_of(path)


@needs_jq
def test_annotations_of_a_category_that_is_not_listed_end_the_command(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data_set(categories=[{"id": 1, "name": "cat"}])))
    with pytest.raises(DataError) as error:
        boxes_of(path)
    with pytest.raises(subprocess.CalledProcessError):
        run(error, tmp_path)


@needs_jq
def test_files_of_labelme_become_results_by_name(tmp_path):
    shapes = [
        {"label": "cat", "points": [[33, 44], [3, 4]], "shape_type": "rectangle"},
        {
            "label": "person",
            "points": [[1, 2], [11, 2], [11, 22], [1, 22]],
            "shape_type": "polygon",
        },
        {"label": "traffic light", "points": [[5, 6], [12, 14]], "shape_type": "rectangle"},
    ]
    plain = {"imagePath": "..\\images\\7.jpg", "imageHeight": 60, "imageWidth": 90}
    path = tmp_path / "7.json"
    path.write_text(json.dumps({**plain, "shapes": shapes}, indent=2))
    with pytest.raises(DataError) as error:
        boxes_of(path)
    made = run(error, tmp_path, 1)
    one_line = tmp_path / "lines"
    one_line.write_text(json.dumps({**plain, "shapes": shapes}) + "\n")
    with pytest.raises(DataError, match="--format coco") as error:
        list(read_rows(one_line))
    assert run(error, tmp_path) == made
    path.write_bytes(made)
    assert boxes_of(path) == EXPECTED
    path.write_text(json.dumps({**plain, "shapes": [{**shapes[0], "shape_type": "circle"}]}))
    with pytest.raises(subprocess.CalledProcessError):
        run(error, tmp_path)


@needs_jq
def test_annotations_of_datumaro_become_results_by_name(tmp_path):
    shapes = [
        {"type": "bbox", "label_id": 1, "bbox": [3, 4, 30, 40]},
        {"type": "polygon", "label_id": 0, "points": [1, 2, 11, 2, 11, 22, 1, 22]},
        {"type": "mask", "label_id": 2, "rle": {"size": [60, 90], "counts": [306, 8, 5086]}},
    ]
    names = [{"name": name} for name in ("person", "cat", "traffic light")]
    item = {"id": "val/000000000007", "annotations": shapes, "image": {"size": [60, 90]}}
    path = tmp_path / "default.json"
    path.write_text(json.dumps({"categories": {"label": {"labels": names}}, "items": [item]}))
    with pytest.raises(DataError) as error:
        boxes_of(path)
    path.write_bytes(run(error, tmp_path))
    assert boxes_of(path) == {**EXPECTED, "7/10": [[5, 6, 6, 14]]}


@needs_jq
def test_a_name_beside_another_number_is_refused_with_a_command(tmp_path):
    path = tmp_path / "results.json"
    record = {"image_id": 7, "category_id": 1, "category_name": "cat", "bbox": [3, 4, 30, 40]}
    path.write_text(json.dumps([record]))
    with pytest.raises(DataError, match="expected 17, the benchmark's 'cat', found 1") as error:
        boxes_of(path)
    path.write_bytes(run(error, tmp_path))
    assert boxes_of(path) == {"7/17": EXPECTED["7/17"]}
