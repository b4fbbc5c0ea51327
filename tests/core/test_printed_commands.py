"""Commands that make predictions of other files: what they do not know ends with an error."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from harness.errors import DataError
from harness.foreign import backslashes, in_place_of
from harness.foreign_lines import polygons
from harness.formats.coco import coco_results
from harness.interchange.rows import read_rows
from harness.masks import Rle
from harness.media import pixels
from harness.types import AnswerForm, Query, Sample, query_id

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")


def run(folder, text, name="a.json"):
    """Run the command of a text that reads the file; return its lines, or None, and its stderr."""
    typed = next(t for t in re.findall(r"`(.*?)`", text, re.DOTALL) if f" {name} >" in t)
    done = subprocess.run(typed, shell=True, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        assert "compile error" not in done.stderr
        return None, done.stderr
    written = (folder / "NEW").read_text()
    try:
        return json.loads(written), done.stderr
    except ValueError:
        return [json.loads(line) for line in written.splitlines()], done.stderr


def gemini(key, **response):
    return {"key": key, "response": response}


def candidate(*parts):
    return {"content": {"role": "model", "parts": [*parts]}, "finishReason": "STOP"}


def chat(name, *roles):
    return {"id": name, "messages": [{"role": role, "content": role} for role in roles]}


MASK = {"size": [2, 2], "counts": "04"}
PREDICTION = {"origin_prompt": "?", "prediction": "B"}
LINES = {
    "what Gemini blocked": (
        [gemini("a", candidates=[candidate({"text": "B"})]), gemini("b", promptFeedback={})],
        [{"id": "a", "response": "B"}, {"id": "b", "response": None}],
    ),
    "what Gemini failed": (
        [gemini("a", candidates=[candidate({"text": "B"})]), {"key": "b", "error": {"code": 500}}],
        [{"id": "a", "response": "B"}, {"id": "b", "response": None}],
    ),
    "a conversation": (
        [chat("a", "user", "assistant"), chat("b", "user", "model")],
        [{"id": "a", "response": "assistant"}, {"id": "b", "response": "model"}],
    ),
    "a conversation without its end": (
        [chat("a", "user", "assistant"), chat("b", "system", "user")],
        "not the model's",
    ),
    "an image without its masks": (
        [{"image_id": 3, "pred_masks": [MASK]}, {"image_id": 4}],
        [{"id": "3", "instances": [[MASK]]}, {"id": "4", "response": None}],
    ),
    "an image with no mask": (
        [{"image_id": 3, "pred_masks": [MASK]}, {"image_id": 4, "pred_masks": []}],
        [{"id": "3", "instances": [[MASK]]}, {"id": "4", "instances": []}],
    ),
}
OBJECTS = {
    "NExT-QA's failures": (
        {"v_1": {"prediction": -2, "answer": 1}, "v_0": {"prediction": 4, "answer": 0}},
        [{"id": "v_1", "response": None}, {"id": "v_0", "answer": "E"}],
    ),
    "moments with scores": (
        {"v>>>one>>>[1, 2]": [1.0, 2.5], "v>>>two>>>[4, 5]": [4.0, 5.0, 0.9]},
        "not pairs",
    ),
    "objects by id": (
        {"b": {"response": "B"}, "a": {"response": "C"}},
        [{"response": "B", "id": "b"}, {"response": "C", "id": "a"}],
    ),
}


@pytest.mark.parametrize("name", [*LINES, *OBJECTS])
def test_each_line_keeps_its_value_or_the_command_ends(name, tmp_path):
    plain, right = {**LINES, **OBJECTS}[name]
    lines = plain if name in LINES else [plain]
    (tmp_path / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError) as error:
        list(read_rows(tmp_path / "a.json"))
    rows, said = run(tmp_path, str(error.value))
    assert rows == right if isinstance(right, list) else rows is None and right in said


@pytest.mark.parametrize(
    ("masks", "right"),
    [
        ([[1, 2], [9, 2], [9, 8]], [[1, 2, 9, 2, 9, 8]]),
        (
            [[[1, 2], [9, 2], [9, 8]], [[1, 1], [2, 1], [2, 2]]],
            [[1, 2, 9, 2, 9, 8], [1, 1, 2, 1, 2, 2]],
        ),
        ([1, 2, 9, 2, 9, 8], [[1, 2, 9, 2, 9, 8]]),
        ([[1, 2, 9, 2, 9, 8]], [[1, 2, 9, 2, 9, 8]]),
    ],
)
def test_polygons_keep_their_corners(masks, right, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"id": "a", "masks": masks}))
    rows, _ = run(tmp_path, polygons("a.json"))
    assert [record["segmentation"] for record in rows] == [right]


def sample():
    image = pixels([np.zeros((64, 64, 3), np.uint8)], times=[0.0], is_video=False, id="7")
    query = Query(id=query_id("7"), text="cat", media=(image,), forms=(AnswerForm.BOXES,))
    return Sample(id="7/1", query=query, target=None)


def refused(path, records):
    path.write_text(json.dumps(records))
    with pytest.raises(DataError) as error:
        coco_results(path, [sample()])
    return str(error.value)


@pytest.mark.parametrize(
    ("second", "is_corners"), [([20, 30, 40, 50], True), ([30, 40, 10, 5], False)]
)
def test_boxes_with_sides_among_corners_end_the_command(second, is_corners, tmp_path):
    area = np.zeros((64, 64), bool)
    area[10:40, 20:60] = True
    box = {"image_id": 7, "category_id": 1, "score": 0.5}
    records = [
        {**box, "bbox": [20, 10, 60, 40], "segmentation": Rle.from_array(area).to_json()},
        {**box, "bbox": second},
    ]
    rows, said = run(tmp_path, refused(tmp_path / "a.json", records))
    assert rows[1]["bbox"] == [20, 30, 20, 20] if is_corners else "not two corners" in said


@pytest.mark.parametrize(("second", "is_known"), [("y/j.jpg", True), ("y/i.jpg", False)])
def test_images_of_one_name_in_several_folders_end_the_command(second, is_known, tmp_path):
    names = ("x/i.jpg", second)
    images = [{"id": n, "file_name": name} for n, name in enumerate(names)]
    annotations = [{"image_id": n, "category_id": 1, "bbox": [1, 2, 3, 4]} for n in (0, 1)]
    plain = {"images": images, "categories": [{"id": 1, "name": "cat"}], "annotations": annotations}
    text = refused(tmp_path / "a.json", plain)
    rows, said = run(tmp_path, text[text.index("itself") :])
    right = ["i.jpg", "j.jpg"]
    assert [row["image_id"] for row in rows] == right if is_known else "one name" in said


@pytest.mark.parametrize(("rotation", "is_kept"), [(0.0, False), (30.5, True)])
def test_rotated_boxes_of_datumaro_stay_so(rotation, is_kept, tmp_path):
    box = {"type": "bbox", "label_id": 0, "bbox": [8, 12, 16, 24]}
    item = {"id": "7", "annotations": [{**box, "attributes": {"rotation": rotation}}]}
    item["image"] = {"path": "7.png", "size": [64, 64]}
    plain = {"categories": {"label": {"labels": [{"name": "cat"}]}}, "items": [item]}
    rows, _ = run(tmp_path, refused(tmp_path / "a.json", plain))
    path = tmp_path / "b.json"
    path.write_text(json.dumps(rows))
    if not is_kept:
        coco_results(path, [sample()])
        return
    with pytest.raises(DataError, match="before a rotation"):
        coco_results(path, [sample()])


def test_a_record_with_an_image_keeps_it(tmp_path):
    bare = {"category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}
    rows, said = run(tmp_path, refused(tmp_path / "a.json", [bare, {**bare, "image_id": 8}]))
    assert rows is None and "with an image" in said
    rows, _ = run(tmp_path, refused(tmp_path / "a.json", [bare, bare]))
    assert [record["image_id"] for record in rows] == ["ID", "ID"]


def test_several_scores_of_a_record_stay(tmp_path):
    box = {"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}
    scores = [[0.5], [0.1, 0.9], 0.3]
    records = [{**box, "score": score} for score in scores]
    rows, _ = run(tmp_path, refused(tmp_path / "a.json", records))
    assert [record["score"] for record in rows] == [0.5, [0.1, 0.9], 0.3]


@pytest.mark.parametrize("both", [True, False])
def test_renaming_replaces_no_other_file(both, tmp_path):
    names = ["a.jpeg", "b.jpeg", *(["b.jpg"] if both else [])]
    for name in names:
        (tmp_path / name).write_text(name)
    (typed,) = re.findall("`(.*?)`", in_place_of(tmp_path / "a.jpg").fix)
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept.pop("a.jpg") == "a.jpeg" and sorted(kept.values()) == names[1:]


@pytest.mark.parametrize("exists", [True, False])
def test_folders_of_backslashes_replace_no_other_file(exists, tmp_path):
    (tmp_path / "v\\0.png").write_text("backslash")
    (tmp_path / "v").mkdir()
    if exists:
        (tmp_path / "v" / "0.png").write_text("folder")
    (typed,) = re.findall("`python (.*?)`", backslashes(["v\\0.png"]))
    done = subprocess.run([sys.executable, *shlex.split(typed)], cwd=tmp_path, check=False)
    assert (done.returncode == 0) is not exists
    assert (tmp_path / "v" / "0.png").read_text() == ("folder" if exists else "backslash")
