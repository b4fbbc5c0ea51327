"""Boxes, points and times whose unit few numbers cannot show: asked for, and read as stated."""

import json

import numpy as np
import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.formats.units import check_units
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import Written
from harness.media import pixels
from harness.types import AnswerForm, Query, Sample, query_id

SIZE = (640, 480)
PLACES = [(0.1, 0.2, 0.5, 0.9), (0.3, 0.3, 0.6, 0.7), (0.62, 0.05, 0.9, 0.95)]
"""Boxes as shares of their images."""


def sample(name, form, size=SIZE, seconds=0):
    frame = np.zeros((*size[::-1], 3), np.uint8)
    frames = [frame] * (seconds or 1)
    media = pixels(frames, times=range(len(frames)), is_video=seconds > 0, id=name)
    query = Query(id=query_id(name), text="?", media=(media,), forms=(form,))
    return Sample(id=name, query=query, target=None)


def write(tmp_path, name, kind, values):
    """Write a file of values, one an image, and return its path."""
    path = tmp_path / f"{kind}.json"
    if name == "coco":
        records = [
            {"image_id": number, "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]]}
            for number, box in enumerate(values)
        ]
        path.write_text(json.dumps(records))
    else:
        rows = [
            {"id": str(number), kind: value if kind == "answer" else [value]}
            for number, value in enumerate(values)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def check(path, name, asked, **more):
    return check_units(
        read_format(name, path, asked).rows, asked, "file", sizes=name == "coco", **more
    )


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("side", [100, 1000])
@pytest.mark.parametrize("y_first", [False, True])
@pytest.mark.parametrize(
    ("name", "kind"), [("jsonl", "boxes"), ("jsonl", "points"), ("coco", "boxes")]
)
def test_few_percentages_and_thousandths_are_asked_for_and_read_as_stated(
    tmp_path, count, side, y_first, name, kind
):
    size = SIZE if side == 100 else (6400, 4800)
    length = 2 if kind == "points" else 4
    shares = [box[:length] for box in PLACES[:count]]
    swap = (1, 0, 3, 2)[:length] if y_first else range(length)
    values = [[side * box[place] for place in swap] for box in shares]
    asked = [sample(str(number), AnswerForm(kind), size) for number in range(count)]
    path = write(tmp_path, name, kind, values)
    with pytest.raises(DataError, match=rf"--coordinates pixels, normalized_{side}, or norm"):
        check(path, name, asked)
    check(path, name, asked, stated=True)
    stated = Written(f"normalized_{side}" + "_yx" * y_first)
    found = read_format(name, path, asked, written=stated)
    for one, box in zip(asked, shares, strict=True):
        answer = row_to_answer(found.rows[one.id], one.query)
        (read,) = answer.points if kind == "points" else answer.boxes
        wanted = [share * size[place % 2] for place, share in enumerate(box)]
        assert list(read) == pytest.approx(wanted)


def test_the_advice_for_thousandths_is_to_state_them_in_either_order(tmp_path):
    """Gemini's `[y, x]` in thousandths also fits as pixels with y first, where y is small."""
    asked = [sample(str(number), AnswerForm.POINTS, (1280, 720)) for number in range(2)]
    path = write(tmp_path, "jsonl", "points", [[430, 900], [300, 950]])
    with pytest.raises(DataError, match=r"thousandths.*normalized_1000_yx.*Gemini.*pixels_yx"):
        check(path, "jsonl", asked)


def test_numbers_all_over_the_image_and_counts_are_not_asked_about(tmp_path):
    asked = [sample(str(number), AnswerForm.POINTS) for number in range(2)]
    assert check(write(tmp_path, "jsonl", "points", [[50, 50], [320, 90]]), "jsonl", asked) == ()
    counted = [sample(str(number), AnswerForm.COUNT) for number in range(2)]
    assert check(write(tmp_path, "jsonl", "points", [[50, 50], [32, 90]]), "jsonl", counted) == ()
    small = [sample(str(number), AnswerForm.POINTS, (120, 90)) for number in range(2)]
    assert check(write(tmp_path, "jsonl", "points", [[50, 50], [32, 80]]), "jsonl", small) == ()


def test_frames_of_one_object_count_as_one_place(tmp_path):
    frame = np.zeros((120, 200, 3), np.uint8)
    media = pixels([frame] * 9, times=range(9), is_video=True, id="v")
    query = Query(id=query_id("0"), text="?", media=(media,), forms=(AnswerForm.BOX_TRACK,))
    path = tmp_path / "track.json"
    path.write_text(json.dumps({"id": "0", "boxes": [[5, 5, 90, 80]] * 9}))
    (note,) = check(path, "jsonl", [Sample(id="0", query=query, target=None)])
    assert note.startswith("1 answers with coordinates from 0 to 100, read as pixels")


def test_percentages_of_a_video_are_named_and_few_fractions_noted(tmp_path):
    asked = [sample(str(number), AnswerForm.INTERVAL, (8, 8), 30) for number in range(3)]
    path = write(tmp_path, "jsonl", "answer", [[10, 45], [50, 80], [60, 99]])
    with pytest.raises(DataError, match="percentages"):
        check(path, "jsonl", asked)
    long = [sample(str(number), AnswerForm.INTERVAL, (8, 8), 400) for number in range(3)]
    (note,) = check(path, "jsonl", long)
    assert note == "3 intervals, all of which lie in the first 100 seconds: percentages?"
    (note,) = check(write(tmp_path, "jsonl", "answer", [[0.1, 0.4]]), "jsonl", asked[:1])
    assert note == "1 intervals, all of which lie in the first two seconds: fractions?"
