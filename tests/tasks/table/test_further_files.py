"""Annotations in XML, in layers, in words and in YOLO's polygons become right records."""

import json
import subprocess

import pytest
from PIL import Image

from harness.errors import DataError
from harness.masks import Rle
from harness.tasks.table.annotation_tools import layers
from harness.tasks.table.draft import draft
from harness.tasks.table.line_files import locations
from harness.tasks.table.xml_files import boxes
from harness.tasks.table.yolo_files import yolo


def test_boxes_in_xml_keep_the_values_of_the_elements_around(tmp_path):
    path = tmp_path / "ARMS.xml"
    face = '<face xmin="20" ymin="10" xmax="80" ymax="60" character="3"/>'
    path.write_text(f'<book title="A"><pages><page index="0">{face}</page></pages></book>')
    (record,) = boxes([str(path)])
    assert (record["index"], record["question"], record["boxes"]) == (0, "face", [[20, 10, 80, 60]])
    sides = (
        "<box_xmin>2</box_xmin><box_ymin>1</box_ymin><box_xmax>8</box_xmax><box_ymax>6</box_ymax>"
    )
    path.write_text(
        f"<i><name>a</name><o><Class_ID>13</Class_ID>{sides}<mbox_ang>1.4</mbox_ang></o></i>"
    )
    (record,) = boxes([str(path)])
    assert (record["question"], record["boxes"]) == ("13", [[2, 1, 8, 6]])


def test_dlib_boxes_without_a_label_are_marked_and_ignored_ones_refused(tmp_path):
    path, box = tmp_path / "faces.xml", '<box top="20" left="10" width="30" height="40"/>'
    path.write_text(f"<dataset><images><image file='1.jpg'>{box}</image></images></dataset>")
    (record,) = boxes([str(path)])
    assert (record["question"], record["boxes"]) == ("CHECK", [[10, 20, 30, 40]])
    path.write_text(path.read_text().replace("/></image>", ' ignore="1"/></image>'))
    with pytest.raises(DataError, match="ignore = 1"):
        list(boxes([str(path)]))


def drafted(path, records):
    """Write JSON lines; return their draft."""
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return draft(path)


def run(typed, folder):
    """Run the command in a doubt; return its records."""
    subprocess.run(typed.split("`")[1], shell=True, cwd=folder, check=True)
    return list(map(json.loads, (folder / "NEW").read_text().splitlines()))


def test_boxes_in_several_rows_become_one_record(tmp_path):
    Image.new("RGB", (100, 100)).save(tmp_path / "i.png")
    boxes = [[1, 2, 30, 40], [50, 50, 90, 90]]
    rows = [{"image": "i.png", "question": "the cats", "bbox": box} for box in boxes]
    doubts = drafted(tmp_path / "t.jsonl", rows).doubts
    assert run(doubts["answer.field"], tmp_path) == [{**rows[0], "bbox": boxes}]


def test_several_windows_may_be_numbers_of_segments(tmp_path):
    row = {"video": "a.mp4", "question": "It jumps.", "times": [[5, 10], [0, 10]]}
    doubts = drafted(tmp_path / "t.jsonl", [row, row]).doubts
    assert "segments" in doubts["answer.written"]


def test_a_table_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match="absent"):
        draft(tmp_path / "absent.jsonl")


SIDES = 'xmin="20" ymin="10" xmax="80" ymax="60"'


@pytest.mark.parametrize(
    "body",
    [
        f'<ignored_region><box {SIDES} name="car"/></ignored_region>',
        f'<cat {SIDES} angle="30"/>',
        f'<cat {SIDES}/><cat x="1" y="2" width="3" height="4"/>',
        '<cat xmin="nan" ymin="10" xmax="80" ymax="60"/>',
        '<image x="0" y="0" width="640" height="480"/>',
    ],
)
def test_boxes_in_xml_that_are_not_certain_are_refused(body, tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(f"<root>{body}</root>")
    with pytest.raises(DataError):
        list(boxes([str(path)]))


def test_boxes_in_xml_are_named_by_their_object(tmp_path):
    path = tmp_path / "a.xml"
    sides = 'x="0.25" y="0.5" width="0.5" height="0.25"'
    path.write_text(f'<r xmlns="urn:a"><object><name>cat</name><box {sides}/></object></r>')
    (record,) = boxes([str(path)])
    assert (record["question"], record["bbox_mode"]) == ("cat", "XYWH_REL")


@pytest.mark.parametrize(
    "further",
    [
        {"objects": [{"label": "car", "polygon": [[0, 0], [9, 9]]}]},
        {"objects": [{"category": "car", "polygon": [[0, 0], [9, 0], [9, 9]]}]},
        {"objects": [{"label": "car", "bbox": [0, 0, 9, 9]}]},
        {"objects": [], "width": None},
    ],
)
def test_layers_that_are_not_polygons_of_labels_are_refused(further, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"width": 10, "height": 10, **further}))
    with pytest.raises(DataError):
        list(layers([str(path)]))


def test_eight_words_of_a_location_are_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"image": "a.jpg", "suffix": f"a cat{'<loc_125>' * 8}"}))
    with pytest.raises(DataError, match="4 location words"):
        list(locations(str(path), "suffix"))


def test_later_polygons_cover_earlier_ones(tmp_path):
    square = [[0, 0], [9, 0], [9, 9], [0, 9]]
    half = [[0, 0], [9, 0], [9, 4], [0, 4]]
    objects = [{"label": "road", "polygon": square}, {"label": "car", "polygon": half}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"width": 10, "height": 10, "objects": objects}))
    areas = {r["question"]: Rle.from_json(r["mask"]).to_array().sum() for r in layers([str(path)])}
    assert areas == {"road": 50, "car": 50}


def test_boxes_as_words_are_read_in_their_models_order(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [
        "<loc0256><loc0128><loc0512><loc0768> a cat",
        "a cat<loc_125><loc_250><loc_750><loc_500>",
    ]
    for text in rows:
        path.write_text(json.dumps({"image": "a.jpg", "suffix": text}))
        (record,) = locations(str(path), "suffix")
        assert record["question"] == "a cat" and record["image"] == "a.jpg"
        assert record["boxes"] == [[0.125, 0.25, 0.75, 0.5]]


def test_polygons_of_yolo_are_masks_in_pixels(tmp_path):
    Image.new("RGB", (200, 100)).save(tmp_path / "a.png")
    (tmp_path / "classes.txt").write_text("cat\n")
    (tmp_path / "data.yaml").write_text("names: [cat]\n")
    data, labels = str(tmp_path / "data.yaml"), tmp_path / "a.txt"
    polygon = "0 0.1 0.1 0.4 0.1 0.4 0.6"
    labels.write_text(polygon)
    (record,) = yolo([data, str(labels)])
    assert record["mask"] == [[20, 10, 80, 10, 80, 60]]
    with pytest.raises(DataError, match="without kpt_shape"):  # it may be a pose of one keypoint
        list(yolo([str(tmp_path / "classes.txt"), str(labels)]))
    for line in ("0 0.1 0.1 0.4 0.1 0.9 1", "0 0.1 0.1 0.4 0.1 0.4 2.0"):
        labels.write_text(line)
        with pytest.raises(DataError, match="6 numbers"):
            list(yolo([data, str(labels)]))
