"""What boxes, polygons and masks of a file may mean: read so, to be checked, or refused."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table
from harness.types import Answer, Box

WIDTH, HEIGHT = 640, 480
RING = [100, 100, 300, 100, 300, 300, 100, 300]


def lines(root, *records, size=(WIDTH, HEIGHT)):
    """Write records of an image as lines of JSON; return their path."""
    Image.new("RGB", size).save(root / "i.png")
    path = root / "mine.jsonl"
    rows = [{"image": "i.png", "question": f"the cat {n}", **r} for n, r in enumerate(records)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path, **answer):
    """Return the answers by the drafted description, of which some keys are replaced."""
    described = draft(path)
    described.answer.update(answer)
    path.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    return [sample.target.answer for sample in table(path.parent, file=path).samples()]


@pytest.mark.parametrize(
    ("name", "box", "coordinates"),
    [
        ("bbox", [0.25, 0.125, 0.75, 0.5], "relative"),
        ("box_2d", [250, 125, 750, 500], "thousandths"),
    ],
)
def test_boxes_that_may_have_y_first_are_to_be_checked(name, box, coordinates, tmp_path):
    path = lines(tmp_path, {name: box})
    swapped = re.search(r'field = "(.*?)"', draft(path).doubts["answer.written"])[1]
    expected = Box(80.0, 120.0, 320.0, 360.0)
    answer = {"written": "xyxy", "coordinates": coordinates}
    assert read(path, field=swapped, **answer) == [Answer(boxes=(expected,))]


@pytest.mark.parametrize(
    ("sides", "order"),
    [
        ({"y2": 400, "x2": 110, "y1": 20, "x1": 10}, "xyxy"),
        ([{"left": 10, "top": 20, "right": 110, "bottom": 400}], "xyxy"),
        ({"h": 380, "w": 100, "y": 20, "x": 10}, "xywh"),
        ({"x": 60, "y": 210, "width": 100, "height": 380}, "cxcywh"),
        ({"cx": 60, "cy": 210, "w": 100, "h": 380}, "cxcywh"),
        ({"xmin": 10, "ymin": 20, "depth": 1, "height": 1}, ""),
    ],
)
def test_the_names_of_sides_say_their_order(sides, order, tmp_path):
    path = lines(tmp_path, {"bbox": sides})
    described = draft(path)
    if not order:
        assert described.answer["form"] == "text" and "answer.form" in described.doubts
        return
    assert order in described.doubts.get("answer.written", described.answer["written"])
    assert read(path, written=order, coordinates="pixels") == [
        Answer(boxes=(Box(10, 20, 110, 400),))
    ]


def test_an_order_that_is_stated_is_not_doubted(tmp_path):
    path = lines(tmp_path, {"bbox": [0.25, 0.125, 0.75, 0.5], "bbox_mode": "XYXY_REL"})
    assert not draft(path).doubts


def test_boxes_in_pixels_that_fit_with_y_first_alone(tmp_path):
    path = lines(tmp_path, {"bbox": [400, 100, 470, 600]})
    assert "{bbox.1}, {bbox.0}" in draft(path).doubts["answer.written"]
    path = lines(tmp_path, {"bbox": [100, 400, 600, 470]})
    assert "y first" not in str(draft(path).doubts)


@pytest.mark.parametrize(
    ("fields", "size", "is_open"),
    [
        ({"bbox": [10.5, 20, 60, 90]}, (WIDTH, HEIGHT), True),
        ({"bbox": [10.5, 20, 60, 101]}, (WIDTH, HEIGHT), False),
        ({"bbox": [10.5, 20, 60, 90]}, (120, 100), True),
        ({"bbox": [10.5, 20, 60, 90], "bbox_mode": "XYXY_ABS"}, (WIDTH, HEIGHT), False),
        ({"polygon": [10, 10, 90, 10, 90, 80]}, (WIDTH, HEIGHT), True),
        ({"polygon": [10, 10, 390, 10, 390, 80]}, (WIDTH, HEIGHT), False),
    ],
)
def test_places_that_may_be_percent_are_to_be_checked(fields, size, is_open, tmp_path):
    doubts = draft(lines(tmp_path, fields, size=size)).doubts
    assert ("percent" in str(doubts)) == is_open


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("POLYGON ((10 10, 100 10, 100 100))", "polygon"),
        ("[ 10.  20. 100. 120.]", "answer"),
        ("<ref>cat</ref><box>[[100, 200, 500, 600]]</box>", "answer"),
        ("the cat [0.25, 0.125, 0.75, 0.5]", "answer"),
    ],
)
def test_places_that_would_be_read_as_texts_are_to_be_checked(written, field, tmp_path):
    path = lines(tmp_path, {field: written})
    assert draft(path).answer["form"] == "text"
    assert "answer.form" in draft(path).doubts


def test_places_as_words_of_a_model_have_a_command(tmp_path):
    path = lines(tmp_path, {"answer": "<loc0256><loc0128><loc0512><loc0768> cat"})
    with pytest.raises(DataError, match="makes lines of boxes") as error:
        draft(path)
    typed = re.search("`(.*?)`", str(error.value))[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    new_table = (tmp_path / "NEW").rename(tmp_path / "new.jsonl")
    assert read(new_table) == [Answer(boxes=(Box(80, 120, 480, 240),))]


def test_a_mask_of_several_objects_is_to_be_checked(tmp_path):
    values = np.zeros((HEIGHT, WIDTH), np.uint8)
    values[:10], values[20:30] = 1, 2
    image = Image.fromarray(values)
    image.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0])
    image.save(tmp_path / "m.png")
    path = lines(tmp_path, {"mask": "m.png"})
    assert "1, 2: they are one mask" in draft(path).doubts["answer.field"]
    Image.fromarray(np.minimum(values, 1)).save(tmp_path / "m.png")
    assert not draft(path).doubts


@pytest.mark.parametrize(
    ("second", "is_open"),
    [
        ([150, 150, 200, 150, 200, 200], True),
        ([350, 150, 400, 150, 400, 200], False),
        ([250, 150, 400, 150, 400, 200], False),
    ],
)
def test_polygons_that_may_be_holes_are_to_be_checked(second, is_open, tmp_path):
    doubts = draft(lines(tmp_path, {"segmentation": [RING, second]})).doubts
    assert ("holes" in doubts.get("answer.written", "")) == is_open


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_boxes_of_create_ml_are_by_their_middle(tmp_path):
    middle = {"x": 100, "y": 120, "width": 80, "height": 60}
    record = {"image": "i.png", "annotations": [{"label": "cat", "coordinates": middle}]}
    Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / "i.png")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([record]), encoding="utf-8")
    typed = re.search("`(.*?)`", draft(path).doubts["answer.form"])[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    new_table = (tmp_path / "NEW").rename(tmp_path / "new.jsonl")
    assert read(new_table) == [Answer(boxes=(Box(60.0, 90.0, 140.0, 150.0),))]


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("is_nested", [False, True])
def test_boxes_with_classes_by_position_have_a_command(is_nested, tmp_path):
    boxes = [[10, 20, 110, 120], [300, 20, 500, 120], [30, 300, 90, 450]]
    objects = {"bbox": boxes, "category": ["cat", "dog", "cat"]}
    Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / "i.png")
    path = tmp_path / "mine.jsonl"
    record = {"image": "i.png", **({"objects": objects} if is_nested else objects)}
    path.write_text(json.dumps(record), encoding="utf-8")
    typed = re.search("`(.*?)`", draft(path).doubts["answer.field"])[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    new_table = (tmp_path / "NEW").rename(tmp_path / "new.jsonl")
    assert not draft(new_table).doubts.get("answer.field")
    answers = read(new_table, written="xyxy")
    assert [tuple(map(list, answer.boxes)) for answer in answers] == [
        (boxes[0], boxes[2]),
        (boxes[1],),
    ]


def test_masks_with_phrases_by_position_are_to_be_checked(tmp_path):
    polygons = [[[10, 20, 100, 20, 100, 120]], [[200, 20, 300, 20, 300, 120]]]
    path = lines(tmp_path, {"labels": ["a man", "a dog"], "segmentation": polygons})
    assert "labels has the class of each" in draft(path).doubts["answer.field"]
    path = lines(tmp_path, {"labels": ["a dog", "a dog"], "segmentation": polygons})
    assert "answer.field" not in draft(path).doubts


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_several_texts_of_a_box_have_a_command(tmp_path):
    sides = {"bbox": [10, 20, 110, 420], "bbox_mode": "XYXY_ABS"}
    path = lines(tmp_path, {"question": ["a man", "left"], **sides})
    described = draft(path)
    described.question["text"] = "question"
    path.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    with pytest.raises(DataError, match="expected a text") as error:
        list(table(tmp_path, file=path).samples())
    subprocess.run(str(error.value).split("`")[1], shell=True, cwd=tmp_path, check=True)
    new_table = (tmp_path / "NEW").rename(tmp_path / "new.jsonl")
    assert read(new_table) == 2 * [Answer(boxes=(Box(10, 20, 110, 420),))]


def coco(root, box, image, **annotation):
    """Write a box of COCO; return its path."""
    Image.new("RGB", (WIDTH, HEIGHT)).save(root / "i.png")
    plain = {
        "images": [{"id": 1, **image}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": box, **annotation}],
    }
    path = root / "mine.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    return path


def test_objects_of_one_phrase_are_one_question(tmp_path):
    path = coco(tmp_path, [10, 20, 100, 100], {"file_name": "i.png", "caption": "a man, two dogs"})
    plain = json.loads(path.read_text(encoding="utf-8"))
    spans = [[[0, 5]], [[7, 15]], [[7, 15]]]
    (first,) = plain["annotations"]
    plain["annotations"] = [
        {**first, "id": number, "tokens_positive": span} for number, span in enumerate(spans)
    ]
    path.write_text(json.dumps(plain), encoding="utf-8")
    described = draft(path)
    assert "phrase, or caption" in described.doubts["question.text"]
    path.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    samples = list(table(tmp_path, file=path).samples())
    assert [(sample.query.text, len(sample.target.answer.boxes)) for sample in samples] == [
        ("a man", 1),
        ("two dogs", 2),
    ]


def test_crowds_of_odvg_are_left_out(tmp_path):
    Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / "i.png")
    kinds = [("cat", 0), ("cat", 1), ("dog", 0)]
    objects = [
        {"bbox": [10, 20, 110, 120], "category": kind, "iscrowd": bit} for kind, bit in kinds
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text(
        json.dumps({"filename": "i.png", "detection": {"instances": objects}}), encoding="utf-8"
    )
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    (sample,) = table(tmp_path, file=path).samples()
    assert sample.query.text == "dog"


def test_fractions_are_no_pixels(tmp_path):
    path = coco(tmp_path, [0.25, 0.125, 0.5, 0.25], {"file_name": "i.png"})
    with pytest.raises(DataError, match=r'fractions.*coordinates = "relative"'):
        read(path)
    assert read(path, coordinates="relative") == [Answer(boxes=(Box(160, 60, 480, 180),))]


def test_fractions_that_leave_their_image_are_no_pixels(tmp_path):
    path = lines(tmp_path, {"bbox": [0.85, 0.4, 1.05, 0.6]})
    assert draft(path).answer["coordinates"] == "relative"
    with pytest.raises(DataError, match="xyxy in relative"):
        read(path)
    with pytest.raises(DataError, match="fractions of the image"):
        read(path, coordinates="pixels")


def test_the_area_of_a_box_shows_that_it_is_two_corners(tmp_path):
    image = {"file_name": "i.png"}
    with pytest.raises(DataError, match=r"its area as \[left, top, right, bottom\]"):
        read(coco(tmp_path, [10, 20, 110, 120], image, area=10000))
    for area in (110 * 120, 9000):
        path = coco(tmp_path, [10, 20, 110, 120], image, area=area)
        assert read(path) == [Answer(boxes=(Box(10, 20, 120, 140),))]


def test_an_image_of_lvis_is_named_by_its_address(tmp_path):
    address = "http://images.cocodataset.org/val2017/i.png"
    path = coco(tmp_path, [10, 20, 110, 120], {"coco_url": address})
    (tmp_path / "val2017").mkdir()
    (tmp_path / "i.png").rename(tmp_path / "val2017" / "i.png")
    assert read(path) == [Answer(boxes=(Box(10, 20, 120, 140),))]
    with pytest.raises(DataError, match="expected file_name"):
        read(coco(tmp_path, [10, 20, 110, 120], {}))
