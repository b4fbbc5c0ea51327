"""Records whose images a program numbers itself are those of the files' names, or are refused."""

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError, UsageError
from harness.formats import read_format
from harness.interchange.answers import row_to_answer
from harness.media import open_image
from harness.run.score import Unsure
from harness.tasks.table.protocols import chosen_protocol
from harness.types import Answer, AnswerForm, Box, Prediction, Query, Sample, Target, query_id

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


def test_the_part_of_an_id_that_several_images_have_is_not_an_image_s_number(tmp_path, samples):
    """The record is of 1.jpg, which is clip/2; its category is not the number of a question."""
    frames = [replace(samples[0], id="clip/1"), replace(samples[1], id="clip/2")]
    rows = read_format("coco", records(tmp_path, ("1.jpg", None)), frames).rows
    assert [row.value for row in rows.values()] == [[], [[0, 2, 10, 22]]]


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("folder", ["", "val/"])
def test_a_number_beside_the_name_of_another_file_is_refused(folder, tmp_path, samples):
    path = records(tmp_path, (1, f"{folder}1.jpg"), (2, f"{folder}2.jpg"))
    with pytest.raises(DataError, match=r"'image_id': expected 2, .*1.jpg', found 1") as error:
        lefts(path, samples)
    typed = shlex.split(re.search("`(jq .*?) > NEW`", str(error.value))[1])
    new = subprocess.run(typed, cwd=tmp_path, capture_output=True, check=True).stdout
    path.write_bytes(new)
    assert lefts(path, samples) == {"2": 0, "1": 1}


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize(("place", "left"), [(0, 30), (1, 25)], ids=["corner", "centre"])
def test_a_box_in_four_fields_has_a_command_for_each_meaning(place, left, tmp_path, samples):
    path = tmp_path / "results.json"
    box = {"x": 30, "y": 30, "width": 10, "height": 20}
    path.write_text(json.dumps([{"image_id": 1, "category_id": 1, "score": 0.9, **box}]))
    with pytest.raises(DataError, match="corner") as error:
        lefts(path, samples)
    typed = shlex.split(re.findall("`(jq .*?) > NEW`", str(error.value))[place])
    path.write_bytes(subprocess.run(typed, cwd=tmp_path, capture_output=True, check=True).stdout)
    assert lefts(path, samples) == {"1": left}


@pytest.mark.parametrize(("score", "n_left_out"), [(0.65, 3), (0.7, 3), (0.71, 0)])
def test_boxes_that_a_protocol_leaves_out_for_their_scores_are_noted(
    score, n_left_out, tmp_path, samples
):
    path = records(tmp_path, (1, None), (2, None), (3, None))
    boxes = [{**box, "score": score} for box in json.loads(path.read_text())]
    path.write_text(json.dumps(boxes))
    rows = read_format("coco", path, samples, threshold=0.3)
    assert any("--threshold does not compare" in note for note in rows.notes)
    unsure, protocol = Unsure(), chosen_protocol("boxes", "")
    for sample in samples:
        answer = row_to_answer(rows.rows[sample.id], sample.query)
        prediction = Prediction(query_id=sample.query.id, answer=answer)
        unsure.add(protocol, [prediction])
    notes = unsure.notes(protocol)
    assert bool(notes) == bool(n_left_out) and all(f"{n_left_out} of 3" in note for note in notes)


def test_a_protocol_that_counts_all_boxes_leaves_none_out(samples):
    """Scores may be logits, which are below 0."""
    answer = Answer(boxes=(Box(1, 2, 3, 4),), box_scores=(-1.2,))
    unsure, protocol = Unsure(), chosen_protocol("boxes", "coco_detection:coco/scores")
    unsure.add(protocol, [Prediction(query_id=samples[0].query.id, answer=answer)])
    assert not unsure.notes(protocol)


def test_a_protocol_that_needs_its_own_benchmark_s_files_says_so(samples):
    protocol = chosen_protocol("boxes", "coco_detection:coco/scores")
    sample = replace(samples[0], target=Target(answer=Answer(boxes=(Box(1, 2, 3, 4),))))
    prediction = Prediction(query_id=sample.query.id, answer=sample.target.answer)
    with pytest.raises(UsageError, match="'image' of the files of coco_detection"):
        protocol.score([sample], [prediction])
