"""True graphs and maps of the generated world, computed from its scenes.

The world is flat, with an order of depth. It is taken as a room seen from its open side, which is
METRES_ACROSS wide in a square image: x (right) and y (up) are metres from the middle of the image;
z is NEAREST_DEPTH metres for the nearest thing, and DEPTH_STEP metres more with each step of depth.
A map is a grid of 10 × 10 cells over the image, rows downwards.

The model `pocket` gives places in pixels of its canvas, to which images are resized: x to the right
and y down from the top left, depth in the same unit, with PIXELS_PER_METRE. Places are the centres
of whole things, even if they are covered or partly outside.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from harness.errors import DataError, raised_as
from harness.task import Task
from harness.trainers.video_str.graphs import KEY, to_plain
from harness.trainers.video_str.nodes import FrameGraph, Node
from harness.types import Sample
from harness.world.families import FAMILIES, draw_scene
from harness.world.qa import visible_frames
from harness.world.quiz import called
from harness.world.scene import SPLITS, Scene, Split
from harness.world.shapes import MANIFEST

METRES_ACROSS = 4.0  # metres that the image's unit side is taken for
NEAREST_DEPTH, DEPTH_STEP = 1.0, 0.5  # metres of depth
GRID = 10  # cells along each side of a map
CANVAS = 168  # pixels along each side of what `pocket` sees
PIXELS_PER_METRE = CANVAS / METRES_ACROSS
"""Pixels of pocket's canvas that show a metre of a square image."""


def frame_graph(scene: Scene, frame: int, *, canvas: bool = False) -> FrameGraph:
    """Return the graph of the things that are visible in a frame and that words single out.

    Places are in metres, or with `canvas` in pixels of pocket's canvas.
    """
    position_of = _on_canvas if canvas else _centre
    nodes = [
        Node(category=name, centre=position_of(scene, index, frame))
        for index, name in called(scene)
        if frame in visible_frames(scene, index)
    ]
    return FrameGraph(frame=frame, nodes=tuple(nodes))


def scene_graphs(scene: Scene, *, canvas: bool = False) -> tuple[FrameGraph, ...]:
    """Return the graphs of all frames."""
    return tuple(frame_graph(scene, frame, canvas=canvas) for frame in range(scene.frames))


def scene_map(scene: Scene) -> dict[str, list[list[int]]]:
    """Return the cell [column, row] of each thing that words single out, when it is first seen."""
    cells = {}
    for index, name in called(scene):
        x, y = scene.things[index].centre(visible_frames(scene, index)[0])
        cells[name] = [[_cell(x, scene.width), _cell(y, scene.height)]]
    return cells


def shapes_extra(task: Task, sample: Sample, *, canvas: bool = False) -> Mapping[str, object]:
    """Return graphs and map of a sample of `shapes_qa`; samples of other tasks have none.

    The scene is drawn again from the seed of the data. Graphs are in metres, or with `canvas` in
    pixels of pocket's canvas.

    Raises:
        DataError: the data is not of a generated world.
    """
    if task.name != "shapes_qa":
        return {}
    scene = scene_of(task, sample)
    return {KEY: to_plain(scene_graphs(scene, canvas=canvas)), "map": scene_map(scene)}


def scene_of(task: Task, sample: Sample) -> Scene:
    """Draw the scene of a sample of the world's benchmarks again, from the seed of its data.

    Raises:
        DataError: the data is not of a generated world.
    """
    family, _, index = sample.id.rpartition("_")[0].rpartition("_")  # family_index_question
    if family not in FAMILIES or not index.isdigit():
        raise DataError(
            f"{task.name}: sample {sample.id!r}", expected="family_index_question", found=sample.id
        )
    manifest = task.annotations[0].parents[2] / MANIFEST
    seed = _seed(manifest, manifest.stat().st_mtime_ns if manifest.exists() else 0)
    return draw_scene(seed, family=family, split=_split_of(task), index=int(index))


def _centre(scene: Scene, index: int, frame: int) -> tuple[float, float, float]:
    """Return the position of a thing in a frame, in metres."""
    thing = scene.things[index]
    x, y = thing.centre(frame)
    scale = METRES_ACROSS / scene.unit
    right, up = (x - scene.width / 2) * scale, (scene.height / 2 - y) * scale
    return round(right, 3), round(up, 3), NEAREST_DEPTH + DEPTH_STEP * thing.depth


def _on_canvas(scene: Scene, index: int, frame: int) -> tuple[float, float, float]:
    """Return the position of a thing in a frame, in pixels of pocket's canvas."""
    thing = scene.things[index]
    x, y = thing.centre(frame)
    depth = PIXELS_PER_METRE * (NEAREST_DEPTH + DEPTH_STEP * thing.depth)
    right, down = x * CANVAS / scene.width, y * CANVAS / scene.height
    return _whole_pixels(right), _whole_pixels(down), _whole_pixels(depth)


def _whole_pixels(number: float) -> int:
    """Return the nearest number for which pocket has a token."""
    return min(max(round(number), 0), CANVAS)


def _cell(coordinate: int, side: int) -> int:
    """Return the row or column of a place along a side of the image, both in pixels."""
    return min(max(GRID * coordinate // side, 0), GRID - 1)


def _split_of(task: Task) -> Split:
    """Return the generated world's split that a task has its samples from."""
    for split in SPLITS:
        if task.split == split:
            return split
    raise DataError(
        f"{task.name}, split {task.split}", expected="train, val or test", found=task.split
    )


@lru_cache
def _seed(path: Path, changed: int) -> int:
    """Return the seed in the manifest of generated data; DataError if it is none.

    `changed`, the time of the file's last change, is part of the cache's key.
    """
    what, expected = f"file {path}", "the seed of a generated world"
    unread = OSError, ValueError, RecursionError, TypeError, KeyError
    with raised_as(
        DataError, what, expected, *unread, fix="Make the data with `harness data make`."
    ):
        seed = json.loads(path.read_text("utf-8"))["seed"]
    if type(seed) is not int:
        raise DataError(f"file {path}: 'seed'", expected="a whole number", found=repr(seed)[:60])
    return seed
