"""Geometry of the STV builder, worked out by hand, and its laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from stv_builder import kitti, scannet
from stv_builder.geometry import (
    EARTH,
    Place,
    bounds,
    box_around,
    clip_box,
    flip_y,
    inverse,
    mercator,
    project,
    rotation,
    share_inside,
    transform_points,
    turn,
)
from stv_builder.ply import read_vertices
from stv_builder.spatial import side_of

from harness.errors import DataError
from harness.types import Box, Box3D

CALIBRATION = """P0: 1 0 0 0 0 1 0 0 0 0 1 0
P2: 700 0 600 35 0 700 180 0 0 0 1 0
R_rect 1 0 0 0 1 0 0 0 1
Tr_velo_cam 0 -1 0 0 0 0 -1 0 1 0 0 0
Tr_imu_velo 1 0 0 0 0 1 0 0 0 0 1 0
"""
SIZE = (1200, 360)


@pytest.fixture
def calibration(tmp_path):
    path = tmp_path / "0000.txt"
    path.write_text(CALIBRATION, encoding="utf-8")
    return kitti.read_calibration(path)


def label(text, tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text(text, encoding="utf-8")
    (found,) = kitti.read_labels(path)
    return found


def car(tmp_path, *, x=1.0, y=1.6, z=10.0, turned=0.0, occluded=0):
    return label(
        f"0 7 Car 0 {occluded} 0 550 150 750 300 1.5 1.6 4.0 {x} {y} {z} {turned}\n", tmp_path
    )


def test_a_car_of_kitti_stands_where_its_label_says(tmp_path, calibration):
    """Height 1.5, width 1.6, length 4 m; its bottom's centre is (1, 1.6, 10), y down.

    Camera 2 lies 35 / 700 = 0.05 m beside camera 0, so that x grows by that.
    """
    sight = kitti.sight_of(car(tmp_path), calibration, SIZE, None)
    assert sight.centre == pytest.approx((1.05, -0.85, 10.0))
    assert sight.extent == pytest.approx(Box3D(1.05, -0.85, 10.0, 4.0, 1.5, 1.6))
    assert sight.ground == pytest.approx((1.05, 10.0, 0.0))
    assert sorted(sight.sides) == [1.5, 1.6, 4.0]
    assert (sight.category, sight.track, sight.visible) == ("car", "7", 1.0)
    assert sight.box == Box(550, 150, 750, 300) and sight.world is None


def test_a_car_turned_by_a_quarter_is_as_long_as_it_was_wide(tmp_path, calibration):
    sight = kitti.sight_of(car(tmp_path, turned=math.pi / 2), calibration, SIZE, None)
    assert sight.extent == pytest.approx(Box3D(1.05, -0.85, 10.0, 1.6, 1.5, 4.0))


def test_what_is_seen_of_a_car_is_its_share_in_the_image_times_its_occlusion(tmp_path, calibration):
    """A car whose middle lies on the left border: half of its box is inside, nearly.

    Its front, at z - 0.8, is the widest part: pixels 600 + 700 (x ± 2) / 9.2.
    """
    x = -600 * 9.2 / 700 - 0.05
    sight = kitti.sight_of(car(tmp_path, x=x, z=10.0), calibration, SIZE, None)
    near, far = 600 + 700 * (x + 0.05 + 2) / 9.2, 600 + 700 * (x + 0.05 + 2) / 10.8
    left = 600 + 700 * (x + 0.05 - 2) / 9.2
    right = max(near, far)
    assert sight.visible == pytest.approx(right / (right - left))
    hidden = kitti.sight_of(car(tmp_path, x=x, occluded=1), calibration, SIZE, None)
    assert hidden.visible == pytest.approx(0.5 * sight.visible)
    assert kitti.sight_of(car(tmp_path, occluded=3), calibration, SIZE, None).visible == 0
    assert kitti.sight_of(car(tmp_path, z=0.5), calibration, SIZE, None).visible == 0


def test_what_keeps_its_distance_to_a_moving_car_has_moved_as_far(tmp_path, calibration):
    """The car drives 2 m to the east; IMU ahead is camera ahead."""
    degrees = math.degrees(2 / (EARTH * math.cos(math.radians(49))))
    path = tmp_path / "oxts.txt"
    rest = " ".join(["0"] * 27)
    path.write_text(f"49 8 110 {rest}\n49 {8 + degrees:.12f} 110 {rest}\n", encoding="utf-8")
    first, second = kitti.read_poses(path)
    assert second[:3, 3] - first[:3, 3] == pytest.approx([2, 0, 0], abs=1e-4)
    poses = [pose @ inverse(calibration.camera_from_imu) for pose in (first, second)]
    ahead = [kitti.sight_of(car(tmp_path), calibration, SIZE, pose).world for pose in poses]
    assert math.dist(*ahead) == pytest.approx(2, abs=1e-4)
    nearer = kitti.sight_of(car(tmp_path, z=8.0), calibration, SIZE, poses[1]).world
    assert math.dist(ahead[0], nearer) == pytest.approx(0, abs=1e-4), "it stood still"


def test_mercator_goes_east_and_north_by_the_radius_of_the_earth():
    here = mercator(0, 0, 5, scale=1)
    assert here == pytest.approx([0, 0, 5], abs=1e-6)
    degree = math.radians(1) * EARTH
    assert mercator(0, 1, 0, scale=1)[0] == pytest.approx(degree)
    assert mercator(0.001, 0, 0, scale=1)[1] == pytest.approx(degree / 1000, rel=1e-6)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("0 7 Car 0 0 0 1 2 3 4 1 1 1 0 0 5", "line 1"),
        ("0 7 Spaceship 0 0 0 1 2 3 4 1 1 1 0 0 5 0", "type"),
        ("0 7 Car 0 9 0 1 2 3 4 1 1 1 0 0 5 0", "occluded"),
        ("0 7 Car 0 0 0 1 2 3 x 1 1 1 0 0 5 0", "numbers"),
        ("0 7 Car 0 0 0 1 2 3 nan 1 1 1 0 0 5 0", "finite"),
    ],
)
def test_a_wrong_line_of_kitti_is_named(tmp_path, line, named):
    with pytest.raises(DataError, match=named):
        label(line, tmp_path)


AREA = "{} -1 DontCare -1 -1 -10.000000 219.31 188.49 245.5 218.56 -1000 -1000 -1000 -10 -1 -1 -1"
CAR = "{} 7 Car 0 0 0 550 150 750 300 1.5 1.6 4.0 1.0 1.6 10.0 0.0"


def test_areas_without_labels_are_no_objects_but_are_told_of_their_frames(tmp_path):
    path = tmp_path / "labels.txt"
    rows = [AREA.format(0), CAR.format(0), CAR.format(1), AREA.format(3), AREA.format(3)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert [one.frame for one in kitti.read_labels(path)] == [0, 1]
    assert kitti.read_partly_labelled(path) == {0, 3}
    path.write_text(AREA.format("x"), encoding="utf-8")
    with pytest.raises(DataError, match=r"labels\.txt, line 1: .*'x'"):
        kitti.read_partly_labelled(path)


def test_a_clip_of_kitti_knows_in_which_frames_anything_may_be_there(tmp_path):
    """Frames 0, 2, 4 and 6 are used, in clips of two; there is an area in frames 2 and 3."""
    root = tmp_path / "kitti_tracking" / "training"
    rows = [*(CAR.format(frame) for frame in range(7)), AREA.format(2), AREA.format(3)]
    for name, text in (("calib", CALIBRATION), ("label_02", "\n".join(rows))):
        (root / name).mkdir(parents=True)
        (root / name / "0000.txt").write_text(text, encoding="utf-8")
    (root / "image_02" / "0000").mkdir(parents=True)
    for frame in range(7):
        Image.new("RGB", SIZE).save(root / "image_02" / "0000" / f"{frame:06d}.png")
    first, second = kitti.read_kitti(tmp_path, frames=2, step=2)
    everything = {"car", "van", "truck", "pedestrian", "sitting person", "cyclist", "tram"}
    assert first.uncounted == (frozenset(), everything) and not any(second.uncounted)
    assert first.uncounted_ever == everything and not second.uncounted_ever
    assert not first.image(0).uncounted_ever and first.image(1).uncounted_ever == everything


@pytest.mark.parametrize("lost", ["P2", "R_rect", "Tr_velo_cam", "Tr_imu_velo"])
def test_a_calibration_without_a_matrix_names_it(tmp_path, lost):
    path = tmp_path / "0000.txt"
    kept = [line for line in CALIBRATION.splitlines() if not line.startswith(lost)]
    path.write_text("\n".join(kept), encoding="utf-8")
    with pytest.raises(DataError, match=lost):
        kitti.read_calibration(path)


CAMERA = np.array([[160.0, 0, 112, 0], [0, 160, 84, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
POSE = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 1.5], [0, 0, 0, 1]])
"""A camera at (0, 0, 1.5) that looks along y: world from camera."""


def chest():
    """One metre wide and high, 0.2 m deep; its front's middle is 4 m ahead, 1.5 m to the right."""
    low, high = np.array([1.0, 4.0, 1.0]), np.array([2.0, 4.2, 2.0])
    spots = [
        [x, y, z] for x in np.linspace(1, 2, 5) for y in (4, 4.2) for z in np.linspace(1, 2, 5)
    ]
    return scannet.Thing("3", "chest", np.array(spots), low, high)


def test_a_chest_of_scannet_is_seen_where_it_stands():
    sight = scannet.sight_of(chest(), inverse(POSE), CAMERA, (224, 168))
    assert sight.centre == pytest.approx((1.5, 0.0, 4.1))
    assert sight.extent == pytest.approx(Box3D(1.5, 0, 4.1, 1, 1, 0.2))
    assert sight.world == pytest.approx((1.5, 4.1, 1.5)) and sight.visible == 1
    assert sorted(sight.sides) == pytest.approx([0.2, 1, 1])
    # x from 1 to 2 m, 4 m ahead: 112 + 160 / 4 and 112 + 2 * 160 / 4; the back is further in.
    assert sight.box.right == pytest.approx(192) and sight.box.top == pytest.approx(64)
    assert sight.box.left == pytest.approx(112 + 160 / 4.2)


def test_a_chest_half_out_of_the_image_is_seen_by_half():
    """An image that ends at pixel 170 has x / z < 58 / 160: 3 of 5 columns in front, 3 behind."""
    sight = scannet.sight_of(chest(), inverse(POSE), CAMERA, (170, 168))
    expected = [x / y < 58 / 160 for x in np.linspace(1, 2, 5) for y in (4, 4.2)]
    assert sight.visible == pytest.approx(np.mean(expected)) and 0 < sight.visible < 1
    assert scannet.sight_of(chest(), inverse(POSE), CAMERA, (112, 168)) is None


def test_what_a_depth_image_shows_before_a_chest_hides_it():
    def seen(depth):
        return scannet.sight_of(chest(), inverse(POSE), CAMERA, (224, 168), depth)

    assert seen(np.full((84, 112), 2.0)) is None
    assert seen(np.full((84, 112), 0.0)).visible == 1, "gaps hide nothing"
    assert seen(np.full((84, 112), 3.9)).visible == pytest.approx(0.5), "its back is hidden"
    assert seen(np.full((84, 112), 4.1)).visible == 1


def test_the_area_of_a_room_is_that_of_its_floor_seen_from_above():
    floor = np.array([[0.0, 0, 0], [4, 0, 0], [4, 3, 0.01], [0, 3, 0], [2, 1, 0]])
    assert scannet.room_area(floor) == pytest.approx(12)
    assert scannet.room_area(floor[:2]) is None
    assert scannet.room_area(floor * [1, 0, 1]) is None


def test_vertices_are_read_from_a_binary_file(tmp_path):
    from stv_builder.shapes.scannet import write_ply

    spots = np.array([[1.5, -2, 3], [0, 0.25, 8]])
    write_ply(tmp_path / "a.ply", spots)
    assert np.array_equal(read_vertices(tmp_path / "a.ply"), spots)
    whole = (tmp_path / "a.ply").read_bytes()
    text = whole.replace(b"binary_little_endian", b"ascii")
    lacking = whole.replace(b"float z", b"float w")
    for damaged in (whole[:-20], b"obj" + whole, lacking, text, b""):
        (tmp_path / "c.ply").write_bytes(damaged)
        with pytest.raises(DataError, match=r"c\.ply"):
            read_vertices(tmp_path / "c.ply")


spots = st.tuples(*[st.floats(-50, 50)] * 2).map(lambda spot: Place(*spot, 0.0))


@given(spots, spots, spots, st.floats(-math.pi, math.pi))
def test_which_way_to_turn_does_not_depend_on_where_north_is(start, ahead, other, angle):
    if min(math.dist(start, ahead), math.dist(start, other)) < 1e-2:
        return
    whole = rotation(0, 0, angle)
    turned = [Place(*(whole @ np.array(spot))) for spot in (start, ahead, other)]
    difference = turn(start, ahead, other) - turn(*turned)
    assert math.cos(math.radians(difference)) == pytest.approx(1, abs=1e-6)


@given(st.floats(-180, 180))
def test_left_and_right_change_places_in_a_mirror(degrees):
    mirrored = {"left": "right", "right": "left", "back": "back", None: None}
    assert side_of(-degrees) == mirrored[side_of(degrees)]


matrices = st.tuples(*[st.floats(-3, 3)] * 6).map(
    lambda six: np.block(
        [[rotation(*six[:3]), np.array(six[3:])[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]]
    )
)


@given(matrices)
def test_an_inverse_undoes_a_pose(pose):
    points = np.array([[1.0, 2, 3], [-4, 0, 5]])
    assert transform_points(inverse(pose), transform_points(pose, points)) == pytest.approx(
        points, abs=1e-9
    )
    assert flip_y(flip_y(points)) == pytest.approx(points)


sides = st.floats(-100, 300)


@given(st.tuples(sides, sides, sides, sides))
def test_the_part_of_a_box_in_an_image_is_a_share(four):
    x, y, u, v = four
    box = Box(min(x, u), min(y, v), max(x, u), max(y, v))
    share = share_inside(box, (200, 100))
    assert 0 <= share <= 1
    inner = clip_box(box, (200, 100))
    assert clip_box(inner, (200, 100)) == inner


def test_boxes_around_points_reach_from_the_first_to_the_last():
    assert box_around(np.array([[0.0, 0, 0], [2, 4, 6]])) == Box3D(1, 2, 3, 2, 4, 6)
    pixels = project(CAMERA[:3, :3], np.array([[0.0, 0, 2], [1, 1, 2]]))
    assert bounds(pixels) == Box(112, 84, 192, 164)
