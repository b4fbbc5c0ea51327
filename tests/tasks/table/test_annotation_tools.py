"""Files of annotation tools: the command that the refusal names keeps every shape and its label."""

import csv
import json
import shutil
import subprocess

import pytest
from PIL import Image

from harness.errors import DataError
from harness.tasks.table.annotation_tools import cvat, label_studio
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table
from harness.tasks.table.tracking_files import mots

WIDTH, HEIGHT = 64, 48
BOX = {"x": 12.5, "y": 25.0, "width": 25.0, "height": 50.0, "rotation": 0}
CORNERS = {"points": [[12.5, 25], [37.5, 25], [37.5, 75], [12.5, 75]], "closed": True}
STATED = {"original_width": WIDTH, "original_height": HEIGHT}
LABEL_STUDIO = {
    "rectanglelabels": [
        {**BOX, **STATED, "rectanglelabels": ["dog"]},
        {**BOX, **STATED, "x": 50, "rectanglelabels": ["cat"]},
    ],
    "polygonlabels": [{**CORNERS, **STATED, "polygonlabels": ["dog"]}],
}
DATUMARO = {
    "info": {},
    "categories": {"label": {"labels": [{"name": "cat"}, {"name": "dog"}]}},
    "items": [
        {
            "id": "i",
            "annotations": [
                {"type": "bbox", "label_id": 1, "bbox": [8, 12, 16, 24]},
                {"type": "polygon", "label_id": 0, "points": [8, 12, 24, 12, 24, 36, 8, 36]},
            ],
            "image": {"path": "i.png", "size": [HEIGHT, WIDTH]},
        }
    ],
}


def converted(path, name):
    """Return the samples of the table that the command of the refusal makes."""
    Image.new("RGB", (WIDTH, HEIGHT), "red").save(path.parent / "i.png")
    with pytest.raises(DataError) as error:
        draft(path)
    typed = str(error.value).split("`")[1].removesuffix(".json")
    subprocess.run(typed, shell=True, cwd=path.parent, check=True)
    made = (path.parent / "NEW").rename(path.parent / name)
    described = draft(made)
    made.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    return list(table(path.parent, file=made).samples())


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@pytest.mark.parametrize("kind", LABEL_STUDIO)
def test_shapes_of_label_studio_in_pixels(kind, suffix, tmp_path):
    path = tmp_path / f"export{suffix}"
    row = {"id": 1, "image": "/data/upload/1/i.png", "shape": LABEL_STUDIO[kind]}
    if suffix == ".json":
        path.write_text(json.dumps([row]), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*row, "annotator"])
            writer.writeheader()
            writer.writerow({**row, "shape": json.dumps(row["shape"]), "annotator": 1})
            writer.writerow({**row, "shape": "", "annotator": 1})
    samples = converted(path, "NEW.jsonl")
    assert [sample.query.text for sample in samples] == ["dog", "cat"][: len(LABEL_STUDIO[kind])]
    answer = samples[0].target.answer
    if kind == "rectanglelabels":
        assert [tuple(box) for box in answer.boxes] == [(8, 12, 24, 36)]
    else:
        assert answer.masks[0].area == 16 * 24


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("size", [[HEIGHT, WIDTH], None, f"{WIDTH} x {HEIGHT}"])
def test_datumaros_shapes_keep_their_labels(size, tmp_path):
    path = tmp_path / "default.json"
    (item,) = DATUMARO["items"]
    items = [{**item, "image": {"path": "i.png", "size": size}}]
    path.write_text(json.dumps({**DATUMARO, "items": items}), encoding="utf-8")
    samples = converted(path, "NEW.json")
    assert sorted(sample.query.text for sample in samples) == ["cat", "dog"]
    first, second = (sample.target.answer.masks[0] for sample in samples)
    assert first == second and first.area == 16 * 24


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("name", ["is_crowd", "ignore"])
def test_a_crowd_of_datumaro_stops_the_command(name, tmp_path):
    plain = json.loads(json.dumps(DATUMARO))
    plain["items"][0]["annotations"][0]["attributes"] = {name: True}
    path = tmp_path / "default.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        converted(path, "NEW.json")


@pytest.mark.parametrize(
    ("label", "attribute"), [("Ignored regions", ""), ("cat", "ignore"), ("cat", "difficult")]
)
def test_a_shape_in_which_nothing_counts_is_left_out_and_its_image_refused(
    label, attribute, tmp_path
):
    box = '<box label="{}" xtl="8" ytl="12" xbr="24" ybr="36">{}</box>'
    said = f'<attribute name="{attribute}">true</attribute>' if attribute else ""
    image = '<image id="0" name="{}.png" width="64" height="48">{}</image>'
    path = tmp_path / "annotations.xml"
    path.write_text(
        "<annotations>"
        + image.format("i", box.format("cat", "") + box.format(label, said))
        + image.format("j", box.format("cat", '<attribute name="ignore">false</attribute>'))
        + "</annotations>",
        encoding="utf-8",
    )
    records = list(cvat([str(path)]))
    assert [(row["question"], row["image"], row["ignored"]) for row in records] == [
        ("cat", "i.png", 1),
        ("cat", "j.png", 0),
    ]
    assert all(len(row["boxes"]) == 1 for row in records)


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([{"first": "/a/left.jpg", "second": "/a/right.jpg"}], "one field with an image"),
        ([{"image": "https://x/a/i.jpg?s=1"}, {"image": "https://x/b/i.jpg"}], "one image called"),
    ],
)
def test_an_image_of_label_studio_that_is_not_certain_is_refused(tasks, words, tmp_path):
    side = {"x": 10, "y": 10, "width": 20, "height": 20, "rectanglelabels": ["cat"]}
    shape = {"original_width": 100, "original_height": 50, "value": side}
    relation = {"from_id": "a", "to_id": "b", "type": "relation"}
    rows = [{"data": data, "annotations": [{"result": [shape, relation]}]} for data in tasks]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(DataError, match=words):
        list(label_studio(str(path)))
    path.write_text(json.dumps(rows[-1:] if len(rows) > 1 else []), encoding="utf-8")
    assert [row["image"] for row in label_studio(str(path))] == ["i.jpg"] * (len(rows) - 1)


def test_text_files_of_mots_whose_frames_share_names_are_refused(tmp_path):
    paths = [tmp_path / f"MOTS20-0{number}.txt" for number in (2, 5)]
    for path in paths:
        path.write_text("1 2001 2 4 4 04444\n\n", encoding="utf-8")
    with pytest.raises(DataError, match="Convert each file by itself"):
        list(mots(map(str, paths)))


def test_moments_of_label_studio_are_refused_with_what_to_write(tmp_path):
    value = {"ranges": [{"start": 11, "end": 30}], "timelinelabels": ["Run"]}
    result = {"type": "timelinelabels", "value": value}
    path = tmp_path / "export.json"
    path.write_text(
        json.dumps([{"data": {"video": "v.mp4"}, "annotations": [{"result": [result]}]}])
    )
    with pytest.raises(DataError, match="divided by the frames per second"):
        list(label_studio(str(path)))
