"""KITTI tracking (Geiger et al., 2013): boxes in the image and in space, from a moving car.

Below `kitti_tracking/training`: `image_02/%04d/%06d.png`, `label_02/%04d.txt`, `calib/%04d.txt`,
and `oxts/%04d.txt` for where the car was. A line of labels has 17 columns:

    frame track type truncated occluded alpha left top right bottom height width length x y z ry

The box in space stands on its bottom face's centre (x, y, z) in the rectified frame of camera 0
(x right, y *down*, z ahead) and is turned by ry around y; images are those of camera 2.

A line of type `DontCare` is no object but an area in which objects were left without labels, since
they are too far away (the development kit's readme), of any type and number: the number of objects
in such a frame is not known, and only objects near enough to be labelled have a name.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import DataError, raised_as
from harness.files import read_text
from harness.frame_folder import frames_in
from harness.image_file import header_size
from harness.types import Box
from stv_builder.clips import Clip, ObjectView
from stv_builder.geometry import (
    NEAR,
    Array,
    Place,
    bounds,
    box_around,
    flip_y,
    inverse,
    mercator,
    place,
    project,
    rotation,
    share_inside,
    transform_points,
)

RATE = 10.0  # frames a second
COLUMNS = 17
WORDS: Mapping[str, str] = {
    "Car": "car",
    "Van": "van",
    "Truck": "truck",
    "Pedestrian": "pedestrian",
    "Person_sitting": "sitting person",
    "Person": "sitting person",
    "Cyclist": "cyclist",
    "Tram": "tram",
    "Misc": "",
}
"""Names for readers of each type of object."""

UNLABELLED = "DontCare"
ANYTHING = frozenset(WORDS.values()) - {""}
"""Categories that may occur in an area without labels."""

SEEN_AT: Mapping[int, float] = {0: 1.0, 1: 0.5, 2: 0.1, 3: 0.0}
"""The share taken to be seen at each level of occlusion: fully, partly, largely hidden, unknown."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Transforms of a calibration file, as 4 × 4 matrices."""

    intrinsics: Array
    """3 × 3, of camera 2."""
    offset: Array
    """Offset from a place in camera 0's frame to its place in camera 2's, metres."""
    camera_from_imu: Array


@dataclass(frozen=True, slots=True)
class Label:
    """One line of labels, checked."""

    frame: int
    track: str
    kind: str
    occluded: int
    box: Box
    dimensions: tuple[float, float, float]
    """Height, width, length in metres."""
    location: Place
    turned: float


def read_kitti(data: Path, *, frames: int = 16, step: int = 5) -> Iterator[Clip]:
    """Every sequence, cut into clips of at most `frames` frames, `step` frames apart.

    Raises:
        DataError: a file is missing or not in its layout; the file and the line are named.
    """
    root = data / "kitti_tracking" / "training"
    files = sorted((root / "label_02").glob("[0-9][0-9][0-9][0-9].txt"))
    if not files:
        raise DataError(
            f"folder {root / 'label_02'}", expected="labels, 0000.txt and so on", found="none"
        )
    for path in files:
        yield from _sequence(root, path.stem, frames=frames, step=step)


def _sequence(root: Path, name: str, *, frames: int, step: int) -> Iterator[Clip]:
    labels: dict[int, list[Label]] = defaultdict(list)
    for label in read_labels(root / "label_02" / f"{name}.txt"):
        labels[label.frame].append(label)
    partly = read_partly_labelled(root / "label_02" / f"{name}.txt")
    calibration = read_calibration(root / "calib" / f"{name}.txt")
    images = frames_in(root / "image_02" / name)
    if images[-1].stem != f"{len(images) - 1:06}":
        raise DataError(
            f"folder {root / 'image_02' / name}",
            expected="an image of every frame from 0 on",
            found=f"{len(images)}, the last one {images[-1].name}",
        )
    size = header_size(images[0])
    oxts = root / "oxts" / f"{name}.txt"
    poses = read_poses(oxts) if oxts.is_file() else None
    chosen = list(range(0, len(images), step))
    for start in range(0, len(chosen), frames):
        window = chosen[start : start + frames]
        sights = [
            tuple(
                sight_of(label, calibration, size, _pose(poses, frame, oxts, calibration))
                for label in labels[frame]
            )
            for frame in window
        ]
        shown = [f"kitti_tracking/training/image_02/{name}/{images[one].name}" for one in window]
        yield Clip(
            id=f"kitti/{name}/{window[0]}",
            source="kitti",
            images=tuple(shown),
            rate=RATE / step,
            size=size,
            sights=tuple(sights),
            uncounted=tuple(ANYTHING if one in partly else frozenset() for one in window),
        )


def read_labels(path: Path) -> Iterator[Label]:
    """The objects of a sequence.

    Raises:
        DataError: a line has other columns.
    """
    for where, columns in _rows(path):
        if columns[2] == UNLABELLED:
            continue
        if columns[2] not in WORDS:
            raise DataError(f"{where}: type", expected=", ".join(WORDS), found=columns[2][:40])
        numbers = _numbers(columns[:2] + columns[3:], where)
        occluded = int(numbers[3])
        if occluded not in SEEN_AT:
            raise DataError(f"{where}: occluded", expected="0, 1, 2 or 3", found=columns[4])
        yield Label(
            frame=int(numbers[0]),
            track=columns[1],
            kind=columns[2],
            occluded=occluded,
            box=Box(*numbers[5:9]),
            dimensions=(numbers[9], numbers[10], numbers[11]),
            location=place(numbers[12:15]),
            turned=numbers[15],
        )


def read_partly_labelled(path: Path) -> frozenset[int]:
    """The frames of a sequence with an area in which objects were left without labels.

    Raises:
        DataError: a line has other columns.
    """
    return frozenset(
        int(_numbers(columns[:1], where)[0])
        for where, columns in _rows(path)
        if columns[2] == UNLABELLED
    )


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (place, columns) of every line of labels."""
    for number, line in enumerate(_lines(path), start=1):
        columns, where = line.split(), f"{path}, line {number}"
        if len(columns) != COLUMNS:
            raise DataError(where, expected=f"{COLUMNS} columns", found=str(len(columns)))
        yield where, columns


def read_calibration(path: Path) -> Calibration:
    """`P2`, `R_rect`, `Tr_velo_cam` and `Tr_imu_velo`, with or without colons, under either name.

    Raises:
        DataError: one is missing, or has not as many numbers as it should.
    """
    found = {}
    for line in _lines(path):
        name, *rest = line.replace(":", " ").split()
        found[name] = _numbers(rest, f"{path}: {name}")

    def matrix(names: Sequence[str], rows: int, columns: int) -> Array:
        numbers = next((found[name] for name in names if name in found), [])
        if len(numbers) != rows * columns:
            raise DataError(
                f"{path}: {' or '.join(names)}",
                expected=f"{rows * columns} numbers",
                found=str(len(numbers)) if numbers else "none",
            )
        whole = np.eye(4)
        whole[:rows, :columns] = np.array(numbers).reshape(rows, columns)
        return whole

    second = matrix(("P2",), 3, 4)
    rectified = matrix(("R_rect", "R0_rect"), 3, 3)
    velodyne = matrix(("Tr_velo_cam", "Tr_velo_to_cam"), 3, 4)
    imu = matrix(("Tr_imu_velo", "Tr_imu_to_velo"), 3, 4)
    intrinsics = second[:3, :3]
    return Calibration(
        intrinsics=intrinsics,
        offset=np.asarray(np.linalg.solve(intrinsics, second[:3, 3]), dtype=np.float64),
        camera_from_imu=rectified @ velodyne @ imu,
    )


def read_poses(path: Path) -> list[Array]:
    """World from IMU for each frame, 4 × 4, from latitude, longitude, altitude and three angles.

    Raises:
        DataError: a line has fewer than six numbers.
    """
    rows = [
        _numbers(line.split(), f"{path}, line {number}")
        for number, line in enumerate(_lines(path), start=1)
    ]
    poses = []
    for number, row in enumerate(rows, start=1):
        if len(row) < 6:
            raise DataError(f"{path}, line {number}", expected="30 numbers", found=str(len(row)))
        whole = np.eye(4)
        whole[:3, :3] = rotation(*row[3:6])
        scale = float(np.cos(np.radians(rows[0][0])))
        whole[:3, 3] = mercator(*row[:3], scale=scale)
        poses.append(whole)
    return poses


def _pose(
    poses: Sequence[Array] | None, frame: int, path: Path, calibration: Calibration
) -> Array | None:
    """World from camera 0 in a frame."""
    if poses is None:
        return None
    if frame >= len(poses):
        raise DataError(
            f"{path}", expected=f"a line for frame {frame}", found=f"{len(poses)} lines"
        )
    # R_rect and the others are rotations with translations: their product is rigid.
    whole: Array = poses[frame] @ inverse(calibration.camera_from_imu)
    return whole


def corners(label: Label) -> Array:
    """Eight corners in camera 0's frame, y down: the bottom face at the label's own height."""
    height, width, length = label.dimensions
    spots = np.array(
        [
            [x, y, z]
            for x in (length / 2, -length / 2)
            for y in (0.0, -height)
            for z in (width / 2, -width / 2)
        ]
    )
    cos, sin = np.cos(label.turned), np.sin(label.turned)
    turned = spots @ np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]]).T
    result: Array = turned + np.array(label.location)
    return result


def sight_of(
    label: Label, calibration: Calibration, size: tuple[int, int], pose: Array | None
) -> ObjectView:
    """An object as the images' camera sees it.

    The visible share is the part of the projected box in space that lies in the image, times the
    share of its level of occlusion; 0 if a corner is behind the camera.
    """
    x, y, z = label.location
    height, width, length = label.dimensions
    middle = np.array([[x, y - height / 2, z]])
    seen = corners(label) + calibration.offset
    share = 0.0
    if seen[:, 2].min() > NEAR:
        share = share_inside(bounds(project(calibration.intrinsics, seen)), size)
    centre = place(flip_y(middle + calibration.offset)[0])
    return ObjectView(
        track=label.track,
        category=WORDS[label.kind],
        box=label.box,
        visible=share * SEEN_AT[label.occluded],
        centre=centre,
        extent=box_around(flip_y(seen)),
        ground=Place(centre.x, centre.z, 0.0),
        world=None if pose is None else place(transform_points(pose, middle)[0]),
        sides=(length, width, height),
    )


def _lines(path: Path) -> list[str]:
    with raised_as(DataError, f"file {path}", "lines of text", OSError, UnicodeDecodeError):
        return [line for line in read_text(path).splitlines() if line.strip()]


def _numbers(words: Sequence[str], where: str) -> list[float]:
    with raised_as(DataError, where, "numbers", ValueError):
        numbers = [float(word) for word in words]
    if not all(np.isfinite(numbers)):
        raise DataError(where, expected="finite numbers", found=" ".join(words)[:60])
    return numbers
