"""Moving scenes in the layout of KITTI tracking: each thing is a thin plate that faces the camera.

The scene's order of depth becomes metres, and a pixel's place follows from a pinhole camera that
stands still: image, box in the image and box in space agree exactly.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from harness.world.encode import scene_png
from harness.world.raster import edges, extents, visible_masks, whole_areas
from harness.world.scene import Scene, Shape, Thing

FOCAL = 200.0  # pixels
NEAREST, APART = 8.0, 4.0  # metres of the nearest thing, and between one and the next
THICK = 0.1  # metres
TYPES: Mapping[Shape, str] = MappingProxyType(
    {
        "circle": "Car",
        "square": "Van",
        "triangle": "Pedestrian",
        "rectangle": "Truck",
        "diamond": "Cyclist",
        "star": "Person_sitting",
        "cross": "Tram",
        "hexagon": "Misc",
    }
)
"""The type that each shape is called, since the layout knows no shapes."""

IMU = "49.011212804408 8.4228850417969 112.83492279053 0 0 0"
VELODYNE = "0 -1 0 0 0 0 -1 0 1 0 0 0"


def write_kitti(root: Path, scenes: Sequence[Scene]) -> None:
    """Write `root/kitti_tracking/training`: images, labels, calibrations and poses."""
    base = root / "kitti_tracking" / "training"
    for name in ("image_02", "label_02", "calib", "oxts"):
        (base / name).mkdir(parents=True)
    for number, scene in enumerate(scenes):
        folder = base / "image_02" / f"{number:04d}"
        folder.mkdir()
        for frame in range(scene.frames):
            (folder / f"{frame:06d}.png").write_bytes(scene_png(scene, frame))
        _text(base / "label_02" / f"{number:04d}.txt", labels(scene))
        _text(base / "calib" / f"{number:04d}.txt", calibration(scene))
        row = f"{IMU} {' '.join(['0'] * 24)}"
        _text(base / "oxts" / f"{number:04d}.txt", [row] * scene.frames)


def depth_of(thing: Thing) -> float:
    """Metres from the camera to a thing's plane."""
    return NEAREST + APART * thing.depth


def spot_of(scene: Scene, thing: Thing, frame: int) -> tuple[float, float, float]:
    """The centre of a thing in the camera's frame, metres: x right, y *down*, z ahead."""
    x, y = thing.centre(frame)
    away = depth_of(thing)
    return (
        (x + 0.5 - scene.width / 2) * away / FOCAL,
        (y + 0.5 - scene.height / 2) * away / FOCAL,
        away,
    )


def sides_of(scene: Scene, thing: Thing) -> tuple[float, float]:
    """Width and height of a thing in metres."""
    across, upwards = extents(thing.shape, scene.radius(thing))
    away = depth_of(thing)
    return (2 * across + 1) * away / FOCAL, (2 * upwards + 1) * away / FOCAL


def labels(scene: Scene) -> Iterator[str]:
    """The lines of a sequence's labels, frame by frame."""
    whole = whole_areas(scene)
    for frame in range(scene.frames):
        if frame == scene.frames - 1:  # such a frame is not counted in
            yield f"{frame} -1 DontCare -1 -1 -10 0 0 5 5 -1 -1 -1 -1000 -1000 -1000 -10"
        masks = visible_masks(scene, frame)
        for track, (thing, mask) in enumerate(zip(scene.things, masks, strict=True)):
            if mask.any():
                share = float(mask.sum()) / float(whole[track])
                yield _label(scene, thing, frame, track, edges(mask), share)


def _label(
    scene: Scene, thing: Thing, frame: int, track: int, box: tuple[int, ...], share: float
) -> str:
    x, y, z = spot_of(scene, thing, frame)
    width, height = sides_of(scene, thing)
    occluded = 0 if share > 0.9 else 1 if share > 0.4 else 2
    numbers = (*box, height, THICK, width, x, y + height / 2, z, 0.0)
    written = " ".join(f"{one:.6f}" for one in numbers)
    return f"{frame} {track} {TYPES[thing.shape]} 0 {occluded} {-np.arctan2(x, z):.6f} {written}"


def calibration(scene: Scene) -> list[str]:
    """The lines of a calibration file: four equal cameras, the third of which takes images."""
    middle = f"{scene.width / 2:.6e} 0 0 {FOCAL:.6e} {scene.height / 2:.6e} 0 0 0 1 0"
    cameras = [f"P{number}: {FOCAL:.6e} 0 {middle}" for number in range(4)]
    return [
        *cameras,
        "R_rect 1 0 0 0 1 0 0 0 1",
        f"Tr_velo_cam {VELODYNE}",
        "Tr_imu_velo 1 0 0 0 0 1 0 0 0 0 1 0",
    ]


def _text(path: Path, lines: Iterator[str] | Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
