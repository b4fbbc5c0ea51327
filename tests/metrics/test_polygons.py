"""Polygons: what is refused, and what degenerate ones paint."""

import time

import numpy as np
import pytest

from harness.errors import DataError, MaskError
from harness.metrics.polygons import IGNORE, MAX_COORDINATE, TARGET, rasterise

SQUARE = {"label": "target", "points": [[1, 1], [3, 1], [3, 3], [1, 3]]}


@pytest.mark.parametrize(
    "points",
    [
        [],
        None,
        "1, 2",
        [1, 2],
        [[1]],
        [[1, 2, 3]],
        [[1, 2], [3, float("nan")]],
        [[1, 2], [3, float("inf")]],
        [[1, 2], ["3", 4]],
        [[1, 2], [True, 4]],
        [[1, 2], [MAX_COORDINATE + 1, 4]],
        [[1, 2], [10**400, 4]],
    ],
)
def test_a_shape_without_real_points_is_refused_by_name(points):
    with pytest.raises(DataError, match=r"shape 1 \('Odd one'\): "):
        rasterise([SQUARE, {"label": "Odd one", "points": points}], 5, 5)


@pytest.mark.parametrize("shape", [None, "target", {}, {"label": 3, "points": []}, ["target"]])
def test_a_shape_without_a_label_is_refused_by_number(shape):
    with pytest.raises(DataError, match="shape 1"):
        rasterise([SQUARE, shape], 5, 5)


def test_an_image_without_pixels_is_refused():
    with pytest.raises(MaskError, match="size"):
        rasterise([SQUARE], 0, 5)


def test_a_flag_is_skipped_whatever_its_points_are():
    flag = {"label": "Flag", "points": []}
    assert (rasterise([flag, SQUARE], 5, 5) == rasterise([SQUARE], 5, 5)).all()


def test_no_shapes_paint_nothing():
    assert rasterise([], 3, 4).tolist() == [[0] * 4] * 3


def test_one_point_paints_a_pixel_and_two_paint_a_line():
    painted = rasterise([{"label": "", "points": [[3.99, 2.99]]}], 5, 5)
    assert np.argwhere(painted == TARGET).tolist() == [[2, 3]]
    painted = rasterise([{"label": "ignore", "points": [[0, 4], [2, 4]]}], 5, 5)
    assert np.argwhere(painted == IGNORE).tolist() == [[4, 0], [4, 1], [4, 2]]


def test_of_equally_large_shapes_the_earlier_wins():
    ignored = {**SQUARE, "label": "ignore"}
    assert rasterise([SQUARE, ignored], 5, 5).max() == TARGET
    assert rasterise([ignored, SQUARE], 5, 5).max() == IGNORE


def test_points_far_outside_take_no_time():
    far = MAX_COORDINATE
    start = time.perf_counter()
    painted = rasterise([{"label": "", "points": [[-far, -far], [far, -far], [0, far]]}], 40, 40)
    assert (painted == TARGET).all()
    assert time.perf_counter() - start < 1
