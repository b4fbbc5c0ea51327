"""Files of detectors and of servers become lines of predictions by printed commands."""

import json

import pytest

from harness import foreign_boxes
from harness.errors import DataError
from harness.foreign_forms import nested_text
from harness.foreign_lines import of_boxes
from harness.formats.line_order import checked
from harness.types import Answer, Query, Sample, Target

SIDES = {"x1": 20.0, "y1": 10.0, "x2": 80.0, "y2": 60.0}
FRACTIONS = [0.1, 0.1, 0.4, 0.6]
FILES = {
    "MegaDetector": (
        {
            "images": [
                {
                    "file": "a",
                    "detections": [{"category": "1", "conf": 0.9, "bbox": [0.1, 0.1, 0.3, 0.5]}],
                }
            ],
            "detection_categories": {"1": "animal"},
        },
        FRACTIONS,
    ),
    "Ultralytics": ({"a": [{"name": "car", "confidence": 0.9, "box": SIDES}]}, [20, 10, 80, 60]),
    "Florence-2": (
        {"a": {"<OD>": {"bboxes": [[20, 10, 80, 60]], "labels": ["car"]}}},
        [20, 10, 80, 60],
    ),
    "Kosmos-2": ({"a": ["A car", [["car", [2, 5], [FRACTIONS]]]]}, FRACTIONS),
    "Gemini": ([{"id": "a", "box_2d": [100, 200, 600, 800]}], [200, 100, 800, 600]),
    "Roboflow": (
        [
            {
                "image_path": "a",
                "predictions": [
                    {"x": 50, "y": 35, "width": 60, "height": 50, "confidence": 0.9, "class": "car"}
                ],
            }
        ],
        [20, 10, 80, 60],
    ),
    "Darknet": (
        [
            {
                "frame_id": 1,
                "filename": "a",
                "objects": [
                    {
                        "class_id": 2,
                        "name": "car",
                        "relative_coordinates": {
                            "center_x": 0.25,
                            "center_y": 0.35,
                            "width": 0.3,
                            "height": 0.5,
                        },
                        "confidence": 0.9,
                    }
                ],
            }
        ],
        FRACTIONS,
    ),
    "FiftyOne": (
        {
            "filepath": "a",
            "predictions": {"detections": [{"label": "x", "bounding_box": [0.1, 0.1, 0.3, 0.5]}]},
        },
        FRACTIONS,
    ),
    "Detectron2": ({"id": "a", "bbox": [20, 10, 60, 50], "bbox_mode": 1}, [20, 10, 80, 60]),
    "YOLO": ("0 0.25 0.35 0.3 0.5 0.9\n", FRACTIONS),
}


@pytest.mark.parametrize("name", FILES)
def test_boxes_of_detectors_become_corners(tmp_path, name):
    plain, box = FILES[name]
    path = tmp_path / "a.txt"
    path.write_text(plain if isinstance(plain, str) else json.dumps(plain))
    (line,) = foreign_boxes.lines([str(path)], order="xyxy")
    assert line["id"] == "a" and line["boxes"][0] == pytest.approx(box)


def test_boxes_of_several_classes_are_refused_until_one_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"bboxes": [[1, 1, 9, 9], [2, 2, 8, 8]], "labels": [0, 1]}))
    with pytest.raises(DataError, match="keeps one"):
        list(foreign_boxes.lines([str(path)]))
    assert [line["boxes"] for line in foreign_boxes.lines([str(path)], "1", "xyxy")] == [
        [[2, 2, 8, 8]]
    ]


def boxes_of(path, plain, *args):
    """Return the boxes of the only image in a value of JSON."""
    path.write_text(plain if isinstance(plain, str) else json.dumps(plain), encoding="utf-8")
    (line,) = foreign_boxes.lines([str(path)], *args)
    return line["id"], line["boxes"]


@pytest.mark.parametrize("beside", [{"conf": 0.9}, {"class": "car", "score": 0.9}])
def test_the_order_of_four_numbers_is_an_argument_where_it_is_not_stated(beside, tmp_path):
    plain, path = {"image_id": 7, "bbox": [2, 1, 8, 6], **beside}, tmp_path / "a.json"
    with pytest.raises(DataError, match='order="xyxy"'):
        boxes_of(path, plain)
    assert boxes_of(path, plain, "", "xyxy") == ("7", [[2, 1, 8, 6]])
    assert boxes_of(path, plain, "", "xywh") == ("7", [[2, 1, 10, 7]])
    assert 'order="xywh"' in of_boxes("a.json", plain)
    assert "order=" not in of_boxes("a.json", {**plain, "format": "xyxy"})


AMAZON = [
    {
        "Name": name,
        "Instances": [{"BoundingBox": {"Width": 0.1, "Height": 0.1, "Left": 0.2, "Top": 0.2}}],
    }
    for name in ("Car", "Dog")
]


@pytest.mark.parametrize(
    "plain",
    [
        {"Labels": AMAZON},
        {"xyxy": [[1, 1, 9, 9], [2, 2, 8, 8]], "pred_classes": [0, 1]},
        [{"image": "a", "phrase": text, "xyxy": [[1, 1, 9, 9]]} for text in ("left", "right")],
        {"image": "a", "cars": [{"xyxy": [1, 1, 9, 9]}], "dogs": [{"xyxy": [1, 1, 9, 9]}]},
        {"xyxy": [[1, 1, 9, 9], [2, 2, 8, 8]], "labels": ["car"]},
        '{"xyxy": [1, 1, NaN, 9]}',
        '{"xyxy": [1, 1, 1e999, 9]}',
        '{"xyxy": [1, 1',
        "[" * 100_000,
    ],
)
def test_boxes_of_doubt_are_refused(plain, tmp_path):
    with pytest.raises(DataError):
        boxes_of(tmp_path / "a.json", plain)


def test_the_text_of_a_user_is_not_taken_for_the_models():
    turns = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "B"}]
    assert nested_text({"id": "a", "output": [{"generated_text": turns}]})[1].endswith("-1.content")
    assert nested_text({"id": "a", "output": [{"generated_text": turns[:1]}]}) is None
    assert nested_text({"id": "a", "one": {"text": "B"}, "two": {"text": "C"}}) is None


@pytest.mark.parametrize(
    "key",
    "reasoning thinking judge evaluation expected query context task source inputs target".split(),
)
def test_a_text_beside_the_answer_is_not_taken_for_it(key):
    assert nested_text({"id": "a", key: {"text": "B"}}) is None
    assert nested_text({"id": "a", key: [{"content": "B"}], "choice": {"text": "C"}})[1] == (
        "choice.text"
    )


def test_lines_in_another_order_than_their_ground_truths_are_refused(tmp_path):
    samples = [
        Sample(
            id=text,
            query=Query(id=text, text="What?", media=(), forms=()),
            target=Target(answer=Answer(text=text)),
        )
        for text in ("cat", "dog")
    ]
    path = tmp_path / "p.jsonl"
    rows = [{"predict": "x", "gts": text} for text in ("Cat.", "dog")]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert checked(samples, str(path)) == samples
    path.write_text("\n".join(map(json.dumps, rows[::-1])))
    with pytest.raises(DataError, match="of another sample"):
        checked(samples, str(path))
