"""True graphs and maps of the generated world, from the scenes' own places.

The world is flat, with an order of depth. It is taken for a room seen from its open side, four
metres across in an image of equal sides: x and y are metres from the middle of the image, z is
one metre for the nearest thing, and half a metre more with each step of depth. On a map, a grid of
10 × 10 lies over the image's first frame, rows downwards.

`pocket` tells places in pixels of its canvas, from its top left, and has never heard of metres. On
its canvas, to which images are squashed, the room of a square image has 42 pixels to the metre:
x goes right, y down, and depth is counted in the same unit. Places are of whole things, also where
they are covered or half outside.
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

ACROSS = 4.0  # metres that the image's unit side is taken for
NEAREST, STEP = 1.0, 0.5  # metres of depth
GRID = 10
CANVAS = 168  # pixels along each side of what `pocket` sees
METRE = CANVAS / ACROSS
"""Pixels of pocket's canvas that a metre of a square image has on it."""


def frame_graph(scene: Scene, frame: int, *, canvas: bool = False) -> FrameGraph:
    """The graph of the things that words single out and that are seen in a frame.

    In metres, or in pixels of pocket's `canvas`.
    """
    place = _on_canvas if canvas else _centre
    nodes = [
        Node(category=words, centre=place(scene, index, frame))
        for index, words in called(scene)
        if frame in visible_frames(scene, index)
    ]
    return FrameGraph(frame=frame, nodes=tuple(nodes))


def scene_graphs(scene: Scene, *, canvas: bool = False) -> tuple[FrameGraph, ...]:
    """The graphs of every frame."""
    return tuple(frame_graph(scene, frame, canvas=canvas) for frame in range(scene.frames))


def scene_map(scene: Scene) -> dict[str, list[list[int]]]:
    """The cell [column, row] of every thing that words single out, when it is first seen."""
    shapes = {}
    for index, words in called(scene):
        x, y = scene.things[index].centre(visible_frames(scene, index)[0])
        shapes[words] = [[_cell(x, scene.width), _cell(y, scene.height)]]
    return shapes


def shapes_extra(task: Task, sample: Sample, *, canvas: bool = False) -> Mapping[str, object]:
    """Graphs and map of a sample of `shapes_qa`, drawn again from the seed of its data.

    Graphs are in metres, or in pixels of pocket's `canvas`.

    Raises:
        DataError: the data is not of a generated world.
    """
    if task.name != "shapes_qa":
        return {}
    scene = scene_of(task, sample)
    return {KEY: to_plain(scene_graphs(scene, canvas=canvas)), "map": scene_map(scene)}


def scene_of(task: Task, sample: Sample) -> Scene:
    """The scene of a sample of the world's own benchmarks, drawn again from the seed of its data.

    Raises:
        DataError: the data is not of a generated world.
    """
    family, _, rest = sample.id.rpartition("_")[0].rpartition("_")
    if family not in FAMILIES or not rest.isdigit():
        raise DataError(
            f"{task.name}: sample {sample.id!r}", expected="family_index_question", found=sample.id
        )
    seed = _seed(task.annotations[0].parents[2] / MANIFEST)
    return draw_scene(seed, family=family, split=_split_of(task), index=int(rest))


def _centre(scene: Scene, index: int, frame: int) -> tuple[float, float, float]:
    thing = scene.things[index]
    x, y = thing.centre(frame)
    scale = ACROSS / scene.unit
    right, up = (x - scene.width / 2) * scale, (scene.height / 2 - y) * scale
    return round(right, 3), round(up, 3), NEAREST + STEP * thing.depth


def _on_canvas(scene: Scene, index: int, frame: int) -> tuple[float, float, float]:
    thing = scene.things[index]
    x, y = thing.centre(frame)
    depth = METRE * (NEAREST + STEP * thing.depth)
    right, down = x * CANVAS / scene.width, y * CANVAS / scene.height
    return _on_it(right), _on_it(down), _on_it(depth)


def _on_it(number: float) -> int:
    """The nearest number that pocket has a token for."""
    return min(max(round(number), 0), CANVAS)


def _cell(place: int, side: int) -> int:
    return min(max(GRID * place // side, 0), GRID - 1)


def _split_of(task: Task) -> Split:
    for split in SPLITS:
        if task.split == split:
            return split
    raise DataError(
        f"{task.name}, split {task.split}", expected="train, val or test", found=task.split
    )


@lru_cache
def _seed(path: Path) -> int:
    what, expected = f"file {path}", "the seed of a generated world"
    unread = OSError, ValueError, RecursionError, TypeError, KeyError
    with raised_as(
        DataError, what, expected, *unread, fix="Make the data with `harness data make`."
    ):
        seed = json.loads(path.read_text("utf-8"))["seed"]
    if type(seed) is not int:
        raise DataError(f"file {path}: 'seed'", expected="a whole number", found=repr(seed)[:60])
    return seed
