"""The 840 × 840 tables: official numbers come through unchanged, wrong rows are named."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError
from harness.tasks.refer.tables import write_table
from harness.tasks.training.refcocog_9k.task import solution as one_object
from harness.tasks.training.shapes840 import COLUMNS, box_of, circles
from harness.tasks.training.visionreasoner_7k.task import solution as objects
from harness.types import Box, Point
from harness.world.encode import encode_png
from harness.world.raster import visible_masks
from harness.world.shapes import make_world

FOLDERS = {
    "visionreasoner_7k": "VisionReasoner_multi_object_7k_840",
    "refcocog_9k": "refCOCOg_9k_840",
}
GOOD = {
    "visionreasoner_7k": '[{"bbox_2d": [10, 100, 200, 210], "point_2d": [30, 110]}]',
    "refcocog_9k": "<box>(10,100),(200,210)</box><points>(30,110),(35,180)</points>",
}
IMAGE = encode_png(np.zeros((840, 840, 3), np.uint8))


def table(root, name, *rows):
    whole = [
        {
            "id": "a",
            "problem": " the dog ",
            "solution": GOOD[name],
            "img_height": 427,
            "img_width": 640,
            "image": {"bytes": IMAGE, "path": "a.png"},
            **row,
        }
        for row in rows
    ]
    write_table(root / name / FOLDERS[name], "train", whole, COLUMNS)


def test_visionreasoners_numbers_are_kept_and_named_as_officially(build, tmp_path):
    two = (
        '[{"bbox_2d": [10, 100, 200, 210], "point_2d": [30, 110]}, '
        '{"bbox_2d": [225, 296, 706, 786], "point_2d": [302, 410]}]'
    )
    table(tmp_path, "visionreasoner_7k", {"solution": two})
    (sample,) = build("visionreasoner_7k", tmp_path).samples()
    answer = sample.target.answer
    assert answer.boxes == (Box(10, 100, 200, 210), Box(225, 296, 706, 786))
    assert answer.points == (Point(30, 110), Point(302, 410))
    assert sample.target.extra == {"objects": json.loads(two)}
    assert (sample.query.text, sample.query.size) == ("the dog", (840, 840))
    assert sample.categories == {"objects": "several"} and not answer.no_target


def test_seg_zeros_object_has_one_box_and_two_points(build, tmp_path):
    table(tmp_path, "refcocog_9k", {})
    (sample,) = build("refcocog_9k", tmp_path).samples()
    assert sample.target.answer.boxes == (Box(10, 100, 200, 210),)
    assert sample.target.answer.points == (Point(30, 110), Point(35, 180))
    assert sample.target.extra == {
        "bbox": [10, 100, 200, 210],
        "points_1": [30, 110],
        "points_2": [35, 180],
    }


def test_nothing_meant_is_an_answer(build, tmp_path):
    table(tmp_path, "visionreasoner_7k", {"solution": "[]"})
    (sample,) = build("visionreasoner_7k", tmp_path).samples()
    assert sample.target.answer.no_target and sample.target.answer.boxes == ()
    assert sample.categories == {"objects": "none"}


def test_an_id_that_comes_again_is_numbered(build, tmp_path):
    table(tmp_path, "refcocog_9k", {}, {"id": "b"}, {}, {})
    assert [one.id for one in build("refcocog_9k", tmp_path).samples()] == ["a", "b", "a#2", "a#3"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("visionreasoner_7k", "not json"),
        ("visionreasoner_7k", '{"bbox_2d": [1, 2, 3, 4]}'),
        ("visionreasoner_7k", '[{"bbox_2d": [1, 2, 3], "point_2d": [1, 2]}]'),
        ("visionreasoner_7k", '[{"bbox_2d": [1, 2, 3, 4]}]'),
        ("visionreasoner_7k", '[{"bbox_2d": [1, 2, 3, 841], "point_2d": [1, 2]}]'),
        ("visionreasoner_7k", '[{"bbox_2d": [5, 2, 3, 4], "point_2d": [1, 2]}]'),
        ("visionreasoner_7k", '[{"bbox_2d": [1, 2, 3, true], "point_2d": [1, 2]}]'),
        ("refcocog_9k", "<box>(10,100),(200,210)</box>"),
        ("refcocog_9k", "<box>(200,100),(10,210)</box><points>(1,1),(2,2)</points>"),
        ("refcocog_9k", "<box>(0,0),(900,210)</box><points>(1,1),(2,2)</points>"),
    ],
)
def test_a_wrong_solution_names_its_row(build, tmp_path, name, text):
    table(tmp_path, name, {}, {"id": "wrong", "solution": text})
    task = build(name, tmp_path)
    with pytest.raises(DataError, match=r"row 1: 'solution'"):
        list(task.samples())
    (problem,) = task.check()
    assert "row 1" in problem.message


def test_an_image_of_another_size_and_a_lost_one_are_named(build, tmp_path):
    small = encode_png(np.zeros((840, 839, 3), np.uint8))
    table(
        tmp_path,
        "refcocog_9k",
        {"id": "small", "image": {"bytes": small, "path": ""}},
        {"id": "cut", "image": {"bytes": IMAGE[:20], "path": ""}},
    )
    problems = list(build("refcocog_9k", tmp_path).check())
    assert ["839" in one.message for one in problems] == [True, False]
    assert [one.path for one in problems] == ["question 'small'", "question 'cut'"]
    table(tmp_path / "none", "refcocog_9k", {"image": {"bytes": None, "path": "x"}})
    with pytest.raises(DataError, match="row 0: 'image'"):
        list(build("refcocog_9k", tmp_path / "none").samples())


@given(st.text(max_size=80))
def test_any_text_as_a_solution_is_read_or_refused_by_name(text):
    for parse in (objects, one_object):
        try:
            found = parse(text, "row 7")
        except DataError as error:
            assert "row 7" in str(error)
        else:
            assert found.answer.boxes is not None


def test_shapes_solutions_are_made_as_the_official_script_makes_them():
    """Extremes of the mask and centres of circles, scaled by int(v * 840 / W + .5)."""
    for scene in make_world(seed=5, size=2).scenes("still", "train")[:4]:
        for mask in visible_masks(scene):
            y, x = np.nonzero(mask)
            expected = [
                int(x.min() * 840 / scene.width + 0.5),
                int(y.min() * 840 / scene.height + 0.5),
                int(x.max() * 840 / scene.width + 0.5),
                int(y.max() * 840 / scene.height + 0.5),
            ]
            assert box_of(mask, scene) == expected
            (px, py), second = circles(mask, scene, 2)
            assert expected[0] <= px <= expected[2] and expected[1] <= py <= expected[3]
            assert len(second) == 2
