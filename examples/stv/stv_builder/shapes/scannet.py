"""Rooms in ScanNet's layout: thin plates at several depths, and a camera that moves to the right.

A thing at a depth of z metres moves by `FOCAL * STEP / z` pixels a frame, to the left. Depths are
chosen so that this is a whole number: the generated scene and the room agree exactly.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.tasks.rvos.writing import write_json
from harness.world.draws import Draws
from harness.world.encode import write_jpeg
from harness.world.raster import extents, render
from harness.world.scene import COLOURS, SHAPES, Background, Scene, Shape, Thing
from stv_builder.geometry import Array, inverse, rotation, transform_points

FOCAL = 160.0  # pixels
STEP = 0.0625  # metres that the camera moves each frame: FOCAL × STEP = 10
FRAMES = 6
THINGS = 6
SIZE = (224, 168)  # width and height in pixels
HEIGHT = 1.5  # metres of the camera above the floor
THICK = 0.2  # metres
GRID = 9  # points of a plate along each side
LABELS: dict[Shape, str] = {
    "circle": "lamp",
    "square": "cabinet",
    "triangle": "chair",
    "rectangle": "office chair",
    "diamond": "bed",
    "star": "plant",
    "cross": "door",
    "hexagon": "object",
}
"""Category of each shape; `chair` beside `office chair`, and `object`, must be dropped."""

TURNED = np.eye(4)
TURNED[:3, :3] = rotation(0.0, 0.0, 0.5)
TURNED[:3, 3] = (2.0, -1.0, 0.0)


def write_scannet(root: Path, indices: Sequence[int], *, seed: int) -> None:
    """Write `root/scannet/scans/scene0xxx_00` for each index."""
    for index in indices:
        write_scan(root / "scannet" / "scans" / f"scene{index:04d}_00", room(seed, index))


def room(seed: int, index: int) -> Scene:
    """Return six things side by side, each at its own depth; the last has the shape of another."""
    draws = Draws(seed, "scannet", index)
    shapes = draws.shuffle(SHAPES)[: THINGS - 1]
    shapes.append(draws.choice(shapes))
    colours = draws.shuffle(tuple(COLOURS))
    speeds = draws.shuffle(range(1, THINGS + 1))  # pixels a frame; the nearest moves fastest
    things = tuple(
        Thing(
            shape=shapes[k],
            colour=colours[k],
            size="small",
            x=42 + 32 * k,
            y=40 + draws.integer_below(90),
            depth=THINGS - speed,
            dx=-speed,
        )
        for k, speed in enumerate(speeds)
    )
    return Scene(
        seed=seed,
        family="scannet",
        split="train",
        index=index,
        width=SIZE[0],
        height=SIZE[1],
        background=Background("plain", draws.integer_below(2**32)),
        things=things,
        frames=FRAMES,
    )


def depth_of(thing: Thing) -> float:
    """Metres from the camera to a thing's front."""
    return FOCAL * STEP / -thing.dx


def corner_of(scene: Scene, thing: Thing) -> tuple[Array, Array]:
    """The lowest and the highest corner of a thing in the aligned world: x right, y ahead, z up."""
    away = depth_of(thing)
    across, upwards = (one * away / FOCAL for one in extents(thing.shape, scene.radius(thing)))
    x = (thing.x + 0.5 - scene.width / 2) * away / FOCAL
    z = HEIGHT - (thing.y + 0.5 - scene.height / 2) * away / FOCAL
    return (
        np.array([x - across, away, z - upwards]),
        np.array([x + across, away + THICK, z + upwards]),
    )


def pose_of(frame: int) -> Array:
    """Aligned world from camera (x right, y down, z ahead) in a frame."""
    pose = np.eye(4)
    pose[:3, :3] = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], dtype=np.float64)
    pose[:3, 3] = (frame * STEP, 0.0, HEIGHT)
    return pose


def write_scan(folder: Path, scene: Scene) -> None:
    """Write the mesh, its labels, and the images with their poses.

    The scan's own world is the aligned one turned back; its last frame's pose is lost.
    """
    name, back = folder.name, inverse(TURNED)
    for part in ("color", "pose", "intrinsic"):
        (folder / part).mkdir(parents=True)
    blocks = [_plate(*corner_of(scene, thing)) for thing in scene.things] + [_floor()]
    labels = [LABELS[thing.shape] for thing in scene.things] + ["floor"]
    write_ply(folder / f"{name}_vh_clean_2.ply", transform_points(back, np.concatenate(blocks)))
    segments = [10 * number for number, block in enumerate(blocks) for _ in block]
    write_json(folder / f"{name}_vh_clean_2.0.010000.segs.json", {"segIndices": segments})
    groups = [
        {"id": k, "objectId": k, "segments": [10 * k], "label": label}
        for k, label in enumerate(labels)
    ]
    write_json(folder / f"{name}.aggregation.json", {"segGroups": groups})
    alignment = " ".join(f"{one:.9f}" for one in TURNED.ravel())
    header = f"axisAlignment = {alignment}\ncolorWidth = {SIZE[0]}\ncolorHeight = {SIZE[1]}\n"
    (folder / f"{name}.txt").write_text(header, encoding="utf-8", newline="\n")
    camera = np.array(
        [[FOCAL, 0, SIZE[0] / 2, 0], [0, FOCAL, SIZE[1] / 2, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    )
    _matrix(folder / "intrinsic" / "intrinsic_color.txt", camera)
    for frame in range(scene.frames):
        write_jpeg(folder / "color" / f"{frame}.jpg", render(scene, frame))
        lost = frame == scene.frames - 1
        pose = np.full((4, 4), -np.inf) if lost else back @ pose_of(frame)
        _matrix(folder / "pose" / f"{frame}.txt", pose)


def _plate(low: Array, high: Array) -> Array:
    """Points of a plate's front and back."""
    x, z = np.meshgrid(np.linspace(low[0], high[0], GRID), np.linspace(low[2], high[2], GRID))
    return np.concatenate(
        [np.stack([x.ravel(), np.full(x.size, y), z.ravel()], axis=1) for y in (low[1], high[1])]
    )


def _floor() -> Array:
    """A floor of 8 × 12 metres."""
    x, y = np.meshgrid(np.linspace(-4, 4, GRID), np.linspace(0, 12, GRID))
    return np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)


def write_ply(path: Path, vertices: Array) -> None:
    """Write vertices as ScanNet's files have them: floats and a colour each, no faces."""
    head = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(vertices)}\nproperty float x\nproperty float y\n"
        "property float z\nproperty uchar red\nproperty uchar green\nproperty uchar blue\n"
        "property uchar alpha\nelement face 0\nproperty list uchar int vertex_indices\n"
        "end_header\n"
    )
    body = b"".join(struct.pack("<fffBBBB", *vertex, 128, 128, 128, 255) for vertex in vertices)
    path.write_bytes(head.encode("ascii") + body)


def _matrix(path: Path, matrix: Array) -> None:
    rows = [" ".join(f"{one:.9f}" for one in row) for row in matrix]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8", newline="\n")
