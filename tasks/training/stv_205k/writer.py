"""Write sample data: videos of the generated world as STV-205k, with all eight types of questions.

For the 3D questions, a thing is a plate that faces a resting pinhole camera, and its order of depth
is converted to metres. (The real set is built by the package in `examples/stv`.)
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from math import dist
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from harness.tasks.qa.answer_text import digits
from harness.tasks.qa.options import lettered
from harness.tasks.rvos.writing import write_lines
from harness.tasks.spatial import shapes
from harness.types import Box, Box3D
from harness.world.encode import write_jpeg
from harness.world.qa_video import visible_frames
from harness.world.quiz import QA, called
from harness.world.raster import edges, extents, render, visible_masks
from harness.world.scene import Scene
from harness.world.shapes import World

MAX_SCENES = 3  # of each source
RL_QUESTIONS = 24  # in the subset for reinforcement learning
FOCAL_LENGTH = 200.0  # pixels
NEAREST_DEPTH = 8.0  # metres from the camera to the nearest thing
DEPTH_STEP = 4.0  # metres from each thing to the next
THICKNESS = 0.1  # metres, of a plate
SOURCES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "tao": ("tao/{}", "tao/frames/train/shapes/{:05d}"),
        "kitti": ("kitti/{:04d}", "kitti_tracking/training/image_02/{:04d}"),
        "scannet": ("scannet/scene{:04d}_00", "scannet/scans/scene{:04d}_00/color"),
    }
)
"""Patterns of the (name, folder) of a source's clips, by the clip's number; TAO has no depth."""

Graph: TypeAlias = list[dict[str, Any]]
"""The objects of each frame with their centres in metres."""
Asked: TypeAlias = tuple[str, str, QA | float | Box | Box3D, int | None]
"""(Type of question, text, answer, frame of the answer or None if it is about the clip)."""


def write(world: World, root: Path) -> None:
    """Write clips of each source below `root`, and `root/stv_205k` with their questions.

    Each clip is asked about as a video, and one of its frames as an image.
    """
    scenes = world.scenes("qa_video", "train")[: MAX_SCENES * len(SOURCES)]
    lines = [line for index, scene in enumerate(scenes) for line in _clip(scene, index, root)]
    ids: dict[str, list[str]] = {}
    for question, _ in lines:
        ids.setdefault(question["task"], []).append(question["problem_id"])
    folder = root / "stv_205k"
    folder.mkdir()
    write_lines(folder / "questions.jsonl", [question for question, _ in lines])
    graphs = [{"id": row["problem_id"], "graphs": graph} for row, graph in lines if graph]
    write_lines(folder / "graphs.jsonl", graphs)
    # One question of each type in turn, so that the subset is uniform over the types.
    in_turn = filter(None, chain.from_iterable(zip_longest(*ids.values())))
    listed = "".join(f"{name}\n" for name in islice(in_turn, RL_QUESTIONS))
    (folder / "rl_ids.txt").write_text(listed, encoding="utf-8", newline="\n")


def _clip(scene: Scene, index: int, root: Path) -> Iterator[tuple[dict[str, Any], Graph]]:
    """Write the frames of a scene; yield its questions, each with its graph."""
    source = tuple(SOURCES)[index % len(SOURCES)]
    name, folder = (pattern.format(index // len(SOURCES)) for pattern in SOURCES[source])
    files = [f"{folder}/{frame:06d}.jpg" for frame in range(scene.frames)]
    (root / folder).mkdir(parents=True)
    for number, file in enumerate(files):
        write_jpeg(root / file, render(scene, number))
    has_depth = source != "tao"
    still = visible_frames(scene, _subject(scene)[0])[0]
    for clip, frames in ((f"{name}/0", range(scene.frames)), (f"{name}/0/{still}", [still])):
        is_video = len(frames) > 1
        graph = _graph(scene, frames) if has_depth else []
        categories = {node["category"] for entry in graph for node in entry["nodes"]}
        for task_name, text, answer, frame in _questions(scene, frames, has_depth=has_depth):
            question = {
                "problem_id": f"{clip}/{task_name}-0",
                "problem": text,
                "data_type": "video" if is_video else "image",
                **_solution(answer),
                "data_source": "STV-205k",
                "task": task_name,
                "source": source,
                "frames": [files[frame_index] for frame_index in frames],
                "rate": float(shapes.RATE),
                "size": [scene.width, scene.height],
                "frame": frame if is_video else None,
                "objects": sorted(categories),
            }
            yield question, graph


def _questions(scene: Scene, frames: Sequence[int], *, has_depth: bool) -> Iterator[Asked]:
    """Yield the questions about frames of a scene; questions in metres need `has_depth`."""
    index, phrase = _subject(scene)
    frames_with_it = [frame for frame in visible_frames(scene, index) if frame in frames]
    first, last = frames_with_it[0], frames_with_it[-1]
    start, end = (Box(*edges(visible_masks(scene, frame)[index])) for frame in (first, last))
    visible = [k for k, _ in called(scene) if set(visible_frames(scene, k)) & {*frames}]
    yield "object_counting", "How many objects are there?", float(len(visible)), None
    at = "" if len(frames) == 1 else f" at {last} s"
    where = f"Where is the {phrase}{at}? Give its bounding box"
    if has_depth:
        sides = _sides(scene, index)
        text = f"{where} in camera coordinates: [x, y, z, width, height, length] in meters."
        yield "object_localization", text, Box3D(*_centre(scene, index, last), *sides), last
        text = f"How long is the longest side of the {phrase}, in meters?"
        yield "object_size", text, max(sides), None
    else:
        yield "object_localization", f"{where}.", end, last
    if len(frames) == 1:
        return
    direction, order = shapes.quadrant(scene), shapes.appearance(scene)
    yield "relative_direction", direction.text, direction, 0
    yield "appearance_order", order.text, order, None
    text = (
        f"The bounding box of the {phrase} is {_text(start)} at {first} s. Where is it at {last} s?"
    )
    yield "motion_tracking", text, end, last
    if has_depth:
        moved = dist(*(_centre(scene, index, frame) for frame in (first, last)))
        text = f"How far does the {phrase} move from {first} s to {last} s, in meters?"
        yield "displacement", text, moved, None
        subject, reference = shapes.pair(scene)
        distance = dist(*(_centre(scene, member, 0) for member, _ in (subject, reference)))
        text = f"How far apart are the {subject[1]} and the {reference[1]} at 0 s, in meters?"
        yield "relative_distance", text, distance, 0


def _solution(answer: QA | float | Box | Box3D) -> dict[str, object]:
    """Return the fields of a line for its type of problem, its options and its answer."""
    options: list[str] = []
    match answer:
        case QA():
            form, text, options = "multiple choice", answer.letter, lettered(answer.options)
        case Box():
            form, text = "IoU", _text(answer)
        case Box3D():
            form, text = "IoU 3D", _text(answer)
        case number:
            form, text = "numerical", digits(round(number, 2))
    return {"problem_type": form, "options": options, "solution": f"<answer>{text}</answer>"}


def _text(box: Box | Box3D) -> str:
    """Return a box as a list of numbers with two decimals."""
    return str([round(side, 2) for side in box])


def _subject(scene: Scene) -> tuple[int, str]:
    """Return (index, phrase) of the fastest thing with a unique name."""
    return max(called(scene), key=lambda named_thing: scene.things[named_thing[0]].squared_speed)


def _centre(scene: Scene, index: int, frame: int) -> tuple[float, float, float]:
    """Return the centre of a thing in camera coordinates, metres: x right, y up, z forward."""
    x, y = scene.things[index].centre(frame)
    depth = _depth(scene, index)
    right = (x + 0.5 - scene.width / 2) / FOCAL_LENGTH
    up = (scene.height / 2 - y - 0.5) / FOCAL_LENGTH
    return round(right * depth, 2), round(up * depth, 2), depth


def _sides(scene: Scene, index: int) -> tuple[float, float, float]:
    """Return width, height and length of a thing in metres."""
    thing, scale = scene.things[index], _depth(scene, index) / FOCAL_LENGTH
    across, upwards = extents(thing.shape, scene.radius(thing))
    return round((2 * across + 1) * scale, 2), round((2 * upwards + 1) * scale, 2), THICKNESS


def _depth(scene: Scene, index: int) -> float:
    """Return the distance of a thing from the camera in metres."""
    return NEAREST_DEPTH + DEPTH_STEP * scene.things[index].depth


def _graph(scene: Scene, frames: Sequence[int]) -> Graph:
    """Return the visible things of each frame as nodes; the first of `frames` has number 0."""
    return [
        {
            "frame": number,
            "nodes": [
                {"category": phrase, "centre": _centre(scene, index, frame), "count": 1}
                for index, phrase in called(scene)
                if frame in visible_frames(scene, index)
            ],
        }
        for number, frame in enumerate(frames)
    ]
