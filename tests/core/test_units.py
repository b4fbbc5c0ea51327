"""Files of predictions in other units, or another order, are refused or counted: kind by kind."""

import json
import re
import shlex
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.formats import read_format
from harness.formats.logs import lmms_eval
from harness.formats.mask_tree import mask_tree
from harness.formats.tables import vlmevalkit
from harness.formats.units import MaskCount, check_units
from harness.interchange.rows import Row, RowFile
from harness.masks import Rle
from harness.media import pixels
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, query_id

WIDTH, HEIGHT, SECONDS = 100, 60, 30
BOXES = [(5.0, 10.0, 45.0, 30.0), (60.0, 20.0, 98.0, 58.0), (70.0, 2.0, 99.0, 20.0), (0, 0, 9, 9)]


def sample(name, form=AnswerForm.BOXES, **more):
    count = SECONDS if form is AnswerForm.INTERVAL else 1
    frames = [np.zeros((HEIGHT, WIDTH, 3), np.uint8)] * count
    media = pixels(frames, times=range(count), is_video=count > 1, id=name)
    query = Query(id=query_id(name), text="?", media=(media,), forms=(form,), **more)
    return Sample(id=name, query=query, target=None)


def coco(tmp_path, boxes, **record):
    """The notes on COCO's results with these boxes, one an image."""
    records = [
        {"image_id": number, "category_id": 1, "bbox": list(box), "score": 0.5, **record}
        for number, box in enumerate(boxes)
    ]
    return notes(tmp_path, "coco", json.dumps(records), AnswerForm.BOXES, len(boxes))


def lines(tmp_path, kind, values, form, **more):
    """The notes on lines of ours with these values, one an image."""
    rows = [json.dumps({"id": str(n), kind: one, **more}) for n, one in enumerate(values)]
    return notes(tmp_path, "jsonl", "\n".join(rows), form, len(values))


def notes(tmp_path, name, text, form, count):
    path = tmp_path / "predictions.json"
    path.write_text(text)
    samples = [sample(str(number), form) for number in range(count)]
    found = read_format(name, path, samples)
    return [*found.notes, *check_units(found.rows, samples, "predictions", sizes=name == "coco")]


ORDERS = {
    "sizes": lambda left, top, right, bottom: (left, top, right - left, bottom - top),
    "corners": lambda *box: box,
    "centre": lambda left, top, right, bottom: (
        *((left + right) / 2, (top + bottom) / 2),
        *(right - left, bottom - top),
    ),
    "y first": lambda left, top, right, bottom: (top, left, bottom - top, right - left),
    "fractions": lambda left, top, right, bottom: (
        *(left / WIDTH, top / HEIGHT),
        *((right - left) / WIDTH, (bottom - top) / HEIGHT),
    ),
    "thousandths": lambda left, top, right, bottom: (
        *(left * 1000 / WIDTH, top * 1000 / HEIGHT),
        *((right - left) * 1000 / WIDTH, (bottom - top) * 1000 / HEIGHT),
    ),
}


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ("corners", r"of 4 .*as \[left, top, right, bottom\]"),
        ("centre", r"all would fit as \[centre x"),
        ("y first", r"all would fit as \[top, left, height, width\]"),
        ("fractions", "fractions of the image"),
        ("thousandths", "by more than a tenth"),
    ],
)
def test_boxes_of_coco_in_another_order_or_unit_are_refused(tmp_path, order, says):
    assert coco(tmp_path, [ORDERS["sizes"](*box) for box in BOXES]) == []
    with pytest.raises(DataError, match=says):
        coco(tmp_path, [ORDERS[order](*box) for box in [*BOXES[:-1], (50, 30, 98, 58)]])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda left, top, right, bottom: (top, left, bottom, right), r"\[top, left, bottom"),
        (lambda *box: [side / 100 for side in box], "fractions of the image"),
        (lambda *box: [side * 10 for side in box], "by more than a tenth"),
    ],
)
def test_boxes_of_ours_likewise(tmp_path, change, says):
    assert lines(tmp_path, "boxes", [[box] for box in BOXES], AnswerForm.BOXES) == []
    with pytest.raises(DataError, match=says):
        lines(tmp_path, "boxes", [[change(*box)] for box in BOXES], AnswerForm.BOXES)


def test_what_a_detector_may_do_is_counted(tmp_path):
    """A box or two beyond the image, and placeholders in its corner, are no other unit."""
    unclipped = [(-3, -2, 50, 30), (60, 20, 60, 20), (10, 10, 5, 5), (0, 0, 1, 1), (0, 0, 0, 0)]
    found = coco(tmp_path, unclipped)
    assert "2 of 5 boxes reach beyond their image" in found and len(found) == 2
    assert coco(tmp_path, [(0, 0, 0, 0)] * 3) == [
        "3 boxes without a width or a height, which overlap nothing"
    ]


def test_points_likewise(tmp_path):
    form = AnswerForm.POINTS
    assert lines(tmp_path, "points", [[[99, 59]], [[3, 4], [0, 0]]], form) == []
    assert lines(tmp_path, "points", [[[99, 59], [104, 4]], [[3, 4]]], form) == [
        "1 of 3 points reach beyond their image"
    ]
    for points, says in (
        ([[[0.5, 0.5]], [[0.1, 0.9]]], "fractions"),
        ([[[10, 90]], [[20, 20]]], r"\[y, x\]"),
        ([[[500, 900]], [[20, 20], [700, 7]]], "by more than a tenth"),
    ):
        with pytest.raises(DataError, match=says):
            lines(tmp_path, "points", points, form)


def test_intervals_are_seconds_of_their_video(tmp_path):
    form = AnswerForm.INTERVAL
    assert lines(tmp_path, "answer", [[0, 1], [3, 29.5], [0, 45]], form) == []
    assert lines(tmp_path, "answer", [[0, 1], [3, 29], [40, 45]], form) == [
        "1 of 3 intervals begin after their video's end"
    ]
    with pytest.raises(DataError, match="fractions of the video"):
        lines(tmp_path, "answer", [[0.1, 0.4]] * 5, form)
    with pytest.raises(DataError, match="after the video's end"):
        lines(tmp_path, "answer", [[90, 200], [60, 80], [0, 10]], form)


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ([[0.1, 0.5], [0.4, 0.9]], "first second: fractions"),
        ([[0.1, 0.5], [0.4, 1.9], [0, 0.8], [0.7, 1.0]], ""),
        ([[0, 2.1], [1, 2]], ""),
        ([[1, 3], [2, 4]], "numbers of frames"),
    ],
)
def test_a_clip_of_two_seconds_shows_other_units_of_few_answers(spans, says, tmp_path):
    images = [np.zeros((4, 4, 3), np.uint8)] * 4
    clip = pixels(images, times=[0, 0.5, 1, 1.5], is_video=True, id="clip")
    samples = [
        replace(one, query=replace(one.query, media=(clip,)))
        for one in (sample(str(number), AnswerForm.INTERVAL) for number in range(len(spans)))
    ]
    path = tmp_path / "spans.jsonl"
    rows = [{"id": str(number), "answer": span} for number, span in enumerate(spans)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    try:
        said = " ".join(check_units(RowFile(path), samples, "predictions"))
    except DataError as error:
        said = str(error)
    assert says in said if says else not said


def test_scores_are_probabilities_where_a_threshold_counts(tmp_path):
    boxes = [ORDERS["sizes"](*box) for box in BOXES]
    assert coco(tmp_path, boxes, score=1.0004) == []  # of 16 bits
    assert coco(tmp_path, boxes, score=91.0) == [
        "4 scores outside 0 to 1, of which only the order is used"
    ]
    square = {"segmentation": [[1, 1, 20, 1, 20, 20, 1, 20]], "image_id": 0}
    path = tmp_path / "masks.json"
    asked = sample("0", AnswerForm.MASK), sample("0", AnswerForm.MASK, instances=True)
    for score in (91.0, -2.0):
        path.write_text(json.dumps([{**square, "score": score}]))
        with pytest.raises(DataError, match="percentages"):
            read_format("coco", path, asked[:1])
        with pytest.raises(DataError, match="percentages"):
            check_units(read_format("coco", path, asked[1:]).rows, asked[1:], "predictions")


def test_categories_that_are_numbered_otherwise(tmp_path):
    path = tmp_path / "results.json"
    asked = [sample("7/1"), sample("7/90")]

    def read(*categories):
        records = [
            {"image_id": 7, "category_id": one, "bbox": [1, 2, 30, 40], "score": 0.5}
            for one in categories
        ]
        path.write_text(json.dumps(records))
        return read_format("coco", path, asked)

    assert len(read(1, 90.0).rows["7/90"].value) == 1
    with pytest.raises(DataError, match="numbered from 0"):
        read(0, 1)
    found = " ".join(read(1, 12, 26).notes)
    assert "2 records of categories that no question has, such as 12, 26" in found
    assert "1 records that appear twice" in " ".join(read(1, 1, 90).notes)


def test_scores_under_another_name_are_not_lost(tmp_path):
    box = {"image_id": 0, "bbox": [5, 6, 70, 40]}
    assert notes(tmp_path, "coco", json.dumps([box]), AnswerForm.BOXES, 1) == [
        "1 records without a score, which count as 1"
    ]
    with pytest.raises(DataError, match="'confidence'"):
        notes(tmp_path, "coco", json.dumps([{**box, "confidence": 0.3}]), AnswerForm.BOXES, 1)


def test_a_detectors_unsure_boxes_are_not_counted(tmp_path):
    path = tmp_path / "results.json"
    scored = [0.9, 0.51, 0.5, 0.01]
    records = [{"image_id": 1, "bbox": [n, 2, 3, 4], "score": one} for n, one in enumerate(scored)]
    path.write_text(json.dumps(records))
    for limit, count in ((None, 2), (0.7, 1), (0.0, 4)):
        found = read_format("coco", path, [sample("1", AnswerForm.COUNT)], threshold=limit)
        assert len(found.rows["1"].value) == count
        assert bool(found.notes) == (count < 4)
    path.write_text(json.dumps([{**records[0], "score": 90}]))
    with pytest.raises(DataError, match="from 0 to 1"):
        read_format("coco", path, [sample("1", AnswerForm.COUNT)])
    boxes = [[n, 2, n + 3, 6] for n in range(4)]
    said = lines(tmp_path, "boxes", [boxes], AnswerForm.COUNT, box_scores=scored)
    assert said == ["2 boxes of counts have a score of 0.5 or less: each counts"]


@pytest.mark.parametrize("scale", [1, 0.5])
def test_boxes_that_all_lie_in_one_quarter_are_said(tmp_path, scale):
    boxes = [[scale * side for side in ORDERS["sizes"](*box)] for box in BOXES * 5]
    found = coco(tmp_path, boxes)
    assert [text for text in found if "upper left quarter" in text] == found[: scale < 1]


@pytest.mark.parametrize("text", ['{"annotations": []}', '\ufeff {"image_id": 1}\n{"image_id": 2}'])
def test_an_object_in_the_place_of_the_list_has_a_way_out(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"jq -s \. .*\.annotations"):
        read_format("coco", path, [sample("1")])


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize(
    "data_set",
    [
        {  # CVAT, FiftyOne and supervision number images from 1, whatever the benchmark calls them
            "images": [{"id": 1, "file_name": "train/0.png"}, {"id": 2, "file_name": "1.png"}],
            "annotations": [{"id": 7, "image_id": 2, "bbox": [1, 2, 3, 4]}],
        },
        {  # SA-1B: one image a file, which its annotations do not name
            "image": {"image_id": 5, "file_name": "1.png"},
            "annotations": [{"id": 7, "bbox": [1, 2, 3, 4]}],
        },
    ],
)
def test_a_data_set_is_listed_by_the_names_of_its_images(tmp_path, data_set):
    path = tmp_path / "exported.json"
    path.write_text(json.dumps(data_set))
    with pytest.raises(DataError) as refused:
        read_format("coco", path, [sample("1")])
    command = re.search(r"`(jq '.*?' exported\.json) > NEW`", str(refused.value))[1]
    done = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=True)
    path.write_bytes(done.stdout)
    found = read_format("coco", path, [sample("0"), sample("1")])
    assert not found.unmatched
    assert [found.rows[name].value for name in "01"] == [[], [[1, 2, 4, 6]]]


def test_annotations_without_their_images_are_noted(tmp_path):
    found = coco(tmp_path, [(5, 5, 9, 9)], iscrowd=0, id=1)
    assert [text for text in found if text.startswith("1 records with 'iscrowd'")]


@pytest.mark.parametrize("record", [{"name": "cat", "box": {"x1": 1}}, {"bbox": [1, 2, 3, 4]}])
def test_a_record_without_an_image_has_a_way_out(tmp_path, record):
    path = tmp_path / "results.json"
    path.write_text(json.dumps([record]))
    with pytest.raises(DataError, match=r"'image_id'.*\[left, top, width, height\]"):
        read_format("coco", path, [sample("1")])


def test_polygons_are_in_pixels(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"image_id": 1, "segmentation": [[0.1, 0.1, 0.9, 0.1, 0.9, 0.9]]}]))
    with pytest.raises(DataError, match="fractions of the image"):
        read_format("coco", path, [sample("1", AnswerForm.MASK)])


# Masks in images


def palette(values, colours, path, **more):
    image = Image.fromarray(np.array(values, np.uint8))
    image.putpalette([part for colour in colours for part in colour])
    image.save(path, **more)


BLACK, RED, WHITE = (0, 0, 0), (128, 0, 0), (255, 255, 255)
RAMP = [(one, one, one) for one in range(256)]


@pytest.mark.parametrize(
    ("values", "colours", "more", "says"),
    [
        ((0, 1, 2), (BLACK, RED, WHITE), {}, None),
        ((0, 255), RAMP, {}, None),
        ((0, 1), ((120, 120, 120), RED), {}, None),
        ((0, 1), (BLACK, RED), {"transparency": 0}, None),
        ((0, 1), (WHITE, BLACK), {}, "shows 0 as"),
        ((0, 0), (WHITE,), {}, "shows 0 as"),
        ((0, 1), (RED, BLACK), {}, "shows 0 as"),
        ((0, 1), (BLACK, RED), {"transparency": 1}, "transparent"),
        ((0, 1), (BLACK, RED), {"transparency": b"\xff\x80"}, "transparent"),
        ((0, 1, 255), RAMP, {}, "255 beside 1"),
        ((0, 2, 254), RAMP, {}, "254 beside 2"),
    ],
)
def test_palettes_that_mean_something_else_are_refused(tmp_path, values, colours, more, says):
    rows = np.resize(np.array(values, np.uint8), WIDTH)[None].repeat(HEIGHT, 0)
    palette(rows, colours, tmp_path / "x.png", **more)
    asked = [sample("x", AnswerForm.MASK)]
    if says is None:
        (found,) = mask_tree(tmp_path, asked)
        assert np.array_equal(found.answer.masks[0].to_array(), rows > 0)
        return
    with pytest.raises(DataError, match=says):
        list(mask_tree(tmp_path, asked))


@pytest.mark.parametrize("transparent", [0, 255])
def test_grey_values_that_are_transparent_are_no_foreground(tmp_path, transparent):
    grey = np.zeros((HEIGHT, WIDTH), np.uint8)
    grey[9:20] = 255
    Image.fromarray(grey).save(tmp_path / "x.png", transparency=transparent)
    asked = [sample("x", AnswerForm.MASK)]
    if not transparent:
        (found,) = mask_tree(tmp_path, asked)
        assert np.array_equal(found.answer.masks[0].to_array(), grey > 0)
        return
    with pytest.raises(DataError, match="transparent"):
        list(mask_tree(tmp_path, asked))


@pytest.mark.parametrize(
    ("areas", "says"),
    [
        ([0] * 5, "every mask is empty (5 answers)"),
        ([70], "every mask has more than half of the pixels (1 answers): inverted?"),
        ([70] * 5 + [20], None),
        ([0] * 4 + [1], None),
        ([], None),
    ],
)
def test_masks_that_are_all_empty_or_inverted_are_said(areas, says):
    counted = MaskCount()
    for number, area in enumerate(areas):
        mask = Rle.from_array(np.arange(100).reshape(10, 10) < area)
        counted.add([Prediction(query_id=str(number), answer=Answer(masks=(mask,)))])
    assert counted.notes() == (() if says is None else (says,))


# Responses


@pytest.mark.parametrize(
    ("cell", "is_date"),
    [
        *((cell, True) for cell in ("2-Jan", "02. Jan", "Jan-02", "1/2/2024")),
        *((cell, False) for cell in ("2.5", "may", "D", "May 5 people be there?", "1/2")),
    ],
)
def test_predictions_that_a_spreadsheet_made_dates_are_counted(tmp_path, cell, is_date):
    path = tmp_path / "x.csv"
    path.write_text(f'index,question,prediction\n0,?,"{cell}"\n')
    (entry,) = vlmevalkit(path)
    assert entry.response == (cell,) and ("dates" in entry.note) == is_date


@pytest.mark.parametrize(("resps", "several"), [([["A"]], False), ([["A", "B"]], True)])
def test_several_responses_of_lmms_eval_are_counted(tmp_path, resps, several):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"doc_id": 0, "resps": resps}) + "\n")
    (entry,) = lmms_eval(path)
    assert entry.response == "A" and ("several" in entry.note) == several


@pytest.mark.parametrize(
    ("texts", "is_refused"),
    [
        (["65,0", "44,5", "49,152"], True),
        (["0,125", "49,152"], True),
        (["65,0", "44,5"], False),
        (["1,234", "49,152"], False),
        (["65.0", "49,152"], False),
        (["The area is 65,0", "49,152"], False),
    ],
)
def test_decimal_commas_beside_thousands_are_refused(texts, is_refused):
    rows = {
        str(place): Row(str(place), "response", text, None, "x, line 1")
        for place, text in enumerate(texts)
    }
    samples = [sample(name, AnswerForm.NUMBER) for name in rows]
    with pytest.raises(DataError, match="49,152") if is_refused else nullcontext():
        check_units(rows, samples, "x")
