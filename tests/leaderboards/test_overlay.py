import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.errors import MaskError, MediaError
from harness.frames import uniform
from harness.overlay import (
    dot,
    outline,
    rectangle,
    side_by_side,
    thumbnail,
    tint,
)

RED, BLUE = (255, 0, 0), (0, 0, 255)


def grey(height=8, width=10, level=100):
    return np.full((height, width, 3), level, dtype=np.uint8)


def box_mask(top, bottom, left, right, shape=(8, 10)):
    mask = np.zeros(shape, dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def test_a_tint_blends_inside_the_mask_only_and_copies():
    image = grey()
    mask = box_mask(2, 4, 3, 5)
    drawn = tint(image, mask, colour=RED, alpha=0.5)
    assert drawn[3, 4].tolist() == [178, 50, 50]
    assert (drawn[~mask] == 100).all()
    assert (image == 100).all()
    assert (tint(image, mask, colour=RED, alpha=0) == image).all()
    assert (tint(image, mask, colour=RED, alpha=1)[mask] == RED).all()


def test_an_outline_is_the_rim_of_the_mask():
    mask = box_mask(1, 7, 1, 9)
    drawn = outline(grey(), mask, colour=RED, width=2)
    painted = (drawn == RED).all(axis=2)
    assert (painted == (mask & ~box_mask(3, 5, 3, 7))).all()


def test_an_outline_runs_along_the_border():
    drawn = outline(grey(), np.ones((8, 10), dtype=bool), colour=RED, width=1)
    painted = (drawn == RED).all(axis=2)
    assert painted[0].all()
    assert painted[:, -1].all()
    assert not painted[1:-1, 1:-1].any()


@given(arrays(bool, (6, 7)), st.integers(1, 3))
def test_an_outline_stays_within_its_mask(mask, width):
    painted = (outline(grey(6, 7), mask, colour=RED, width=width) == RED).all(axis=2)
    assert not painted[~mask].any()
    assert painted.any() == mask.any()


@pytest.mark.parametrize("draw", [tint, outline])
def test_a_mask_of_another_size_is_refused(draw):
    with pytest.raises(MaskError, match="10 × 8"):
        draw(grey(), np.zeros((10, 8), dtype=bool), colour=RED)


def test_a_rectangle_paints_its_frame_with_exclusive_ends():
    drawn = rectangle(grey(), (2, 1, 6, 5), colour=RED, width=1)
    painted = (drawn == RED).all(axis=2)
    assert (painted == (box_mask(1, 5, 2, 6) & ~box_mask(2, 4, 3, 5))).all()


@pytest.mark.parametrize(
    "box", [(-9, -9, -1, -1), (20, 20, 30, 30), (2, -5, 5, 0)], ids=["before", "behind", "above"]
)
def test_a_rectangle_outside_is_not_drawn(box):
    assert (rectangle(grey(), box, colour=RED) == 100).all()


def test_a_huge_rectangle_is_cut_at_the_image():
    drawn = rectangle(grey(), (float("-inf"), -1e30, 1e30, float("inf")), colour=RED, width=1)
    assert (drawn[0] == RED).all()
    assert (drawn[4, 4] == 100).all()


def test_a_dot_is_centred_on_its_point():
    drawn = dot(grey(21, 21), (10.5, 10.5), colour=BLUE, radius=3)
    painted = (drawn == BLUE).all(axis=2)
    rows, columns = np.nonzero(painted)
    assert (rows.mean(), columns.mean()) == (10, 10)
    assert (drawn[10, 14] == 255).all()  # the rim


def test_a_thumbnail_keeps_the_shape_and_is_never_enlarged():
    assert thumbnail(grey(80, 200), width=50).shape == (20, 50, 3)
    assert thumbnail(grey(8, 10), width=50).shape == (8, 10, 3)
    assert thumbnail(grey(1, 3000), width=100).shape == (1, 100, 3)


def test_a_thumbnail_averages():
    image = grey(10, 10, 0)
    image[:, ::2] = 200
    assert (thumbnail(image, width=5) == 100).all()


def test_images_stand_side_by_side_on_white():
    row = side_by_side([grey(4, 3, 10), grey(6, 5, 20)], gap=2)
    assert row.shape == (6, 10, 3)
    assert (row[:4, :3] == 10).all()
    assert (row[:, 5:] == 20).all()
    assert (row[:, 3:5] == 255).all()
    assert (row[4:, :3] == 255).all()
    with pytest.raises(MediaError, match=r"^images .*none"):
        side_by_side([])


@given(st.integers(1, 500), st.integers(1, 9))
def test_spread_frames_are_in_order_and_reach_from_end_to_end(frames, most):
    chosen = uniform(range(frames), most)
    assert len(chosen) == min(frames, most)
    assert list(chosen) == sorted(set(chosen))
    assert chosen[0] == 0
    assert most == 1 or chosen[-1] == frames - 1
