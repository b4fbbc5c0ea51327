"""Records whose images a program numbers itself are those of the files' names, or are refused."""

import json
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.formats import read_format
from harness.media import open_image
from harness.types import AnswerForm, Query, Sample, query_id

NUMBERS = {"2.jpg": 1, "1.jpg": 2, "a_jpg.rf.11.jpg": 3}
"""Numbers of the images in the benchmark, as an export of a data set has them."""


@pytest.fixture
def samples(tmp_path):
    """A question about the cats of each image."""
    listed = []
    for name, number in NUMBERS.items():
        Image.fromarray(np.full((60, 90, 3), number, np.uint8)).save(tmp_path / name)
        query = Query(
            id=query_id(name),
            text="cat",
            media=(open_image(tmp_path / name),),
            forms=(AnswerForm.BOXES,),
        )
        listed.append(Sample(id=f"{number}/1", query=query, target=None))
    return listed


def records(tmp_path, *images):
    """A file with a box for each (image_id, file_name), which lies at its number in the list."""
    path = tmp_path / "results.json"
    boxes = [
        {"image_id": id, "category_id": 1, "bbox": [place, 2, 10, 20], "score": 0.9}
        | ({"file_name": name} if name else {})
        for place, (id, name) in enumerate(images)
    ]
    path.write_text(json.dumps(boxes), encoding="utf-8")
    return path


def lefts(path, samples):
    """The left side of the box of each image, by the image's number."""
    rows = read_format("coco", path, samples).rows
    return {name.partition("/")[0]: row.value[0][0] for name, row in rows.items() if row.value}


def test_an_image_may_be_named_by_its_file(tmp_path, samples):
    path = records(tmp_path, ("a_jpg.rf.11", "a_jpg.rf.11.jpg"), ("2.jpg", None), ("1.jpg", None))
    assert lefts(path, samples) == {"3": 0, "1": 1, "2": 2}


def test_a_number_is_the_benchmarks_where_no_file_is_named(tmp_path, samples):
    path = records(tmp_path, (1, None), (2, "elsewhere.jpg"), (3, "a_jpg.rf.11.jpg"))
    assert lefts(path, samples) == {"1": 0, "2": 1, "3": 2}


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_a_number_beside_the_name_of_another_file_is_refused(tmp_path, samples):
    path = records(tmp_path, (1, "1.jpg"), (2, "2.jpg"))
    with pytest.raises(DataError, match=r"'image_id': expected 2, .*'1.jpg', found 1") as error:
        lefts(path, samples)
    typed = shlex.split(re.search("`(jq .*?) > NEW`", str(error.value))[1])
    new = subprocess.run(typed, cwd=tmp_path, capture_output=True, check=True).stdout
    path.write_bytes(new)
    assert lefts(path, samples) == {"2": 0, "1": 1}
