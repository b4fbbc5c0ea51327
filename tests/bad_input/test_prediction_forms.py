"""Files that other programs wrote: the command in the error makes a file that is scored."""

import json
import re
import shlex
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from harness.foreign import in_place_of
from harness.masks import Rle
from harness.world.encode import encode_png

case = pytest.mark.case
COMMAND = re.compile(r"`((?:jq|\S*python\S*) -c.*?)(?: > NEW)?`", re.DOTALL)


@pytest.fixture
def images(reason_seg):
    """(id, width, height) of each image, in the benchmark's order."""
    paths = sorted(reason_seg.glob("*.jpg"))
    return [(path.stem, *Image.open(path).size) for path in paths]


def in_this_python(command):
    """Arguments of a printed command; `python` is the one that runs the tests."""
    first, *rest = shlex.split(command)
    return [sys.executable if first == "python" else first, *rest]


def convert(harness, done, place=0):
    """Return what the command of an error prints, with the names of task and data filled in."""
    command = COMMAND.findall(done.err)[place]
    command = command.replace("TASK", "reason_seg").replace("ROOT", str(harness.folder / "data"))
    return subprocess.run(
        in_this_python(command), cwd=harness.folder, capture_output=True, check=True
    ).stdout


def whole_frame(width, height):
    """The model's text for a box of the whole image."""
    return json.dumps([{"bbox_2d": [0, 0, width, height], "label": "it"}])


def overlap(done):
    """Return the mean overlap, which whole frames have with every mask."""
    overlap = done.json["tasks"]["reason_seg"]["metrics"]["gIoU"]
    assert overlap > 0
    return overlap


@case("run-lengths as GLaMM and SAMTok write them", "refused with the command to type", code=3)
@pytest.mark.parametrize("key", ["pred_masks", "prediction_masks"])
def test_run_lengths_by_image(harness, images, key):
    whole = {name: [Rle.full(height, width).to_json()] for name, width, height in images}
    expected = overlap(harness.score([{"id": n, "masks": m} for n, m in whole.items()], code=0))
    rows = [{"image_id": n, key: m, "phrases": ["it"], "gt_masks": []} for n, m in whole.items()]
    made = convert(harness, harness.score(rows).says("run-lengths by image"))
    assert overlap(harness.score(made, code=0)) == expected
    rows = [{"id": name, key: masks} for name, masks in whole.items()]
    made = convert(harness, harness.score(rows))
    assert overlap(harness.score(made, code=0)) == expected


@case("polygons in the place of masks", "refused with the command that makes records", code=3)
@pytest.mark.parametrize("form", ["flat", "one", "pairs"])
def test_polygons(harness, images, form):
    rows = []
    for name, width, height in images:
        polygon = [0, 0, width, 0, width, height, 0, height]
        pairs = [polygon[place : place + 2] for place in range(0, 8, 2)]
        rows.append(
            {"id": name, "masks": {"flat": polygon, "one": [polygon], "pairs": [pairs]}[form]}
        )
    made = convert(harness, harness.score(rows).says("--format coco"))
    overlap(harness.score(made, "--format", "coco", code=0))


@case("COCO's scores in lists of one", "refused with the command to type", code=3)
def test_scores_in_lists(harness, images):
    rows = [
        {
            "image_id": name,
            "category_id": 1,
            "segmentation": Rle.full(height, width).to_json(),
            "score": [0.9],
        }
        for name, width, height in images
    ]
    done = harness.score(json.dumps(rows).encode(), "--format", "coco")
    overlap(harness.score(convert(harness, done), "--format", "coco", code=0))


@case("lines without ids", "refused with the command that joins them by order", code=3)
@pytest.mark.parametrize(
    "line",
    [
        {"question": "?", "ground_truth": [0, 0, 1, 1], "model_output": "TEXT", "correct": 0},
        {"answer": "TEXT", "gt_bbox": [1, 2, 3, 4], "hw": [9, 9]},
        {"prompt": "?", "predict": "TEXT", "label": "A"},
        {"response": "TEXT", "labels": "A", "logprobs": None, "messages": []},
    ],
)
def test_lines_without_ids_are_joined_by_order(harness, images, line):
    rows = []
    for _, width, height in images:
        text = whole_frame(width, height)
        rows.append({k: text if v == "TEXT" else v for k, v in line.items()})
    made = convert(harness, harness.score(rows).says("in the order of the samples"))
    lines = list(map(json.loads, made.splitlines()))
    assert [row["id"] for row in lines] == [name for name, *_ in images]
    assert [json.loads(row["response"])[0]["bbox_2d"][2:] for row in lines] == [
        list(size) for _, *size in images
    ]
    harness.score(rows[1:])
    with pytest.raises(subprocess.CalledProcessError):  # another number of lines than samples
        convert(harness, harness.score(rows[1:]))


@case("ids that are the numbers of rows", "refused with the command to type", code=3)
@pytest.mark.parametrize("program", ["EvalScope", "OpenCompass"])
def test_rows_that_are_numbered(harness, images, program):
    indices = [1, 0]
    texts = [f"text {place}" for place in indices]
    if program == "EvalScope":
        rows = [
            {"index": place, "sample_score": {"score": {"prediction": text}}}
            for place, text in zip(indices, texts, strict=True)
        ]
    else:
        rows = [
            {
                str(place): {"origin_prompt": "?", "prediction": text}
                for place, text in zip(indices, texts, strict=True)
            }
        ]
    made = convert(harness, harness.score(rows).says(program))
    made = convert(harness, harness.score(made).says("number the samples from 0"))
    assert [(row["id"], row["response"]) for row in map(json.loads, made.splitlines())] == [
        (images[place][0], text) for place, text in zip(indices, texts, strict=True)
    ]


@case("masks whose names have backslashes", "refused with the command to type", code=3)
@pytest.mark.parametrize("tool", ["archive", "folder"])
def test_backslashes_in_names(harness, images, tool):
    folder = harness.folder / "masks"
    folder.mkdir()
    masks = {n: encode_png(np.full((h, w), 255, np.uint8)) for n, w, h in images}
    options = ("--format", "mask-tree", "--predictions", folder)
    scored = ("score", "--tasks", "reason_seg", "--data", harness.folder / "data", "--json")
    if tool == "archive":
        path = harness.folder / "masks.zip"
        with zipfile.ZipFile(path, "w") as file:
            for name, content in masks.items():
                file.writestr(f"masks\\{name}\\0.png", content)
        done = harness(*scored, "--predictions", path).says("backslashes")
        assert "backslashes" in in_place_of(path).found
        convert(harness, done)
    else:
        for name, content in masks.items():
            (folder / f"{name}\\0.png").write_bytes(content)
        done = harness(*scored, *options).says("Backslashes")
        (command,) = COMMAND.findall(done.err)
        subprocess.run(in_this_python(command), cwd=folder, check=True)
    overlap(harness(*scored, *options, code=0))


@case("a table with semicolons", "refused with the command to type", code=3)
@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_tables(harness, counting, mark):
    names = [row["id"] for row in _right(harness)]
    table = "\n".join([mark.join(("id", "answer")), *(f"{name}{mark}3" for name in names)])
    made = convert(harness, harness.score(b"\xef\xbb\xbf" + table.encode() + b"\n"))
    made = convert(harness, harness.score(made).says("finite number"))
    harness.score(made, code=0)


def _right(harness):
    from harness import load_task

    samples = load_task("counting", data=harness.folder / "data").samples()
    return [{"id": one.id, "answer": one.target.answer.count} for one in samples]


@case("values in lists of one, as jsonlite writes", "refused with the command to type", code=3)
def test_values_in_lists_of_one(harness, counting):
    right = _right(harness)
    rows = [{key: [value] for key, value in row.items()} for row in right]
    made = convert(harness, harness.score(rows).says("in a list"))
    assert list(map(json.loads, made.splitlines())) == right
    harness.score(made, code=0)


@case("a line a sample with other ids", "refused with the command for their order", code=3)
def test_lines_in_the_order_of_the_samples_get_their_ids(harness, images):
    rows = [{"id": f"other_{name}", "no_target": True} for name, *_ in images]
    new_lines = convert(harness, harness.score(rows).says("in the order"), place=1)
    own = [{**row, "id": name} for row, (name, *_) in zip(rows, images, strict=True)]
    assert list(map(json.loads, new_lines.splitlines())) == own
    assert "in the order" not in harness.score(rows[1:]).err


@case("ids of no sample", "refused with the command that prints the ids", code=3)
def test_the_ids_of_the_samples_are_printed(harness, images):
    rows = [{"id": f"other_{name}", "no_target": True} for name, *_ in images]
    printed = convert(harness, harness.score(rows).says("prints the ids")).decode().split()
    assert printed == [name for name, *_ in images]
    harness.score([{**row, "id": name} for row, name in zip(rows, printed, strict=True)], code=0)


@case("masks of videos whose names have backslashes", "refused with the command to type", code=3)
def test_backslashes_in_names_of_frames(harness, mevis):
    from harness import load_task

    folder = harness.folder / "masks"
    folder.mkdir()
    for sample in load_task("mevis", data=harness.folder / "data").samples():
        blank = encode_png(np.zeros(sample.query.size[::-1], np.uint8))
        for path in sorted((mevis / "JPEGImages" / sample.id.split("/")[0]).iterdir()):
            name = "\\".join((*sample.id.split("/"), f"{path.stem}.png"))
            (folder / name).write_bytes(blank)
    options = ("--format", "png-tree", "--predictions", folder, "--json")
    scored = ("score", "--tasks", "mevis", "--data", harness.folder / "data", *options)
    (command,) = COMMAND.findall(harness(*scored).says("Backslashes").err)
    subprocess.run(in_this_python(command), cwd=folder, check=True)
    harness(*scored, code=0)
