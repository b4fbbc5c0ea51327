"""Write sample data: generated images in SPAR-Bench's layout, the full and the tiny set.

Multiple views are the first, the middle and the last frame of a video. The depth of a thing is its
rank in the order from the viewer. A change of view is the camera motion that would look like the
motion of a thing. Backgrounds are plain, to keep tables small.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.metrics.spar import LEVELS, TASKS, VIEW_CHANGE
from harness.tasks.qa.answer_text import digits
from harness.tasks.qa.options import lettered
from harness.tasks.spatial import shapes
from harness.tasks.spatial.shapes import pair
from harness.tasks.video_qa.writing import write_table
from harness.world.encode import scene_png
from harness.world.quiz import QA, choice
from harness.world.scene import Scene
from harness.world.shapes import World

TABLE_FILE = "test-00000-of-00001.parquet"
COORDINATE_RANGE = 1000  # of normalized coordinates
CHOICE_QUESTIONS: dict[str, Callable[[Scene], QA]] = {
    "obj_spatial_relation": shapes.quadrant,
    "spatial_imagination": shapes.route,
    "distance_infer_center": shapes.nearer_question,
}


def write(world: World, root: Path) -> None:
    """Write `world.size` questions, but at least one of each task, below `root/spar_bench`."""
    scenes = [
        replace(scene, background=replace(scene.background, kind="plain"))
        for scene in world.scenes("qa_video", "test")
    ]
    n_rows = max(world.size, len(TASKS))
    rows = [
        _row(scenes[row_number % len(scenes)], row_number, TASKS[row_number % len(TASKS)])
        for row_number in range(n_rows)
    ]
    folder = root / "spar_bench"
    write_table(folder / "SPAR-Bench" / "data" / TABLE_FILE, rows)
    write_table(folder / "SPAR-Bench-Tiny" / "data" / TABLE_FILE, rows[: len(TASKS)])


def _row(scene: Scene, number: int, task: str) -> dict[str, object]:
    """Return the row of a task's question, with one image of the scene or three."""
    several = task.endswith("_mv") or task in LEVELS["Middle"]
    frames = (0, scene.frames // 2, scene.frames - 1) if several else (0,)
    question = _question(scene, task)
    options = "".join(f"\n{line}" for line in lettered(question.options))
    answer: str = question.letter if question.options else _answer_text(question.answer)
    if task == VIEW_CHANGE:
        answer = _view_change(scene)
    return {
        "id": number,
        "img_type": "multi_view" if several else "single_view",
        "format_type": "fill" if not question.options else "select",
        "task": task,
        "source": "shapes",
        "image": [{"bytes": scene_png(scene, frame), "path": f"{frame}.png"} for frame in frames],
        "question": question.text + options,
        "answer": answer,
    }


def _answer_text(answer: str | float) -> str:
    """Return a number as text."""
    return digits(float(answer))


def _question(scene: Scene, task: str) -> QA:
    """Return the question of a task, whose number or options come from the scene."""
    stem = task.removesuffix("_mv").removesuffix("_oc").removesuffix("_oo")
    if stem == "distance_prediction":
        return shapes.distance(scene)
    if stem == "depth_prediction":
        return _depth(scene, relative=task.removesuffix("_mv").endswith("_oo"))
    if task == VIEW_CHANGE:
        text = "How has the view changed, as move_right:…,move_up:…,rotate_left:…?"
        return QA(kind=task, text=text, answer=0.0, named=())
    if task in LEVELS["Middle"]:
        return _matching(scene, task)
    return CHOICE_QUESTIONS[stem](scene)


def _depth(scene: Scene, *, relative: bool) -> QA:
    """Ask for a thing's rank in the order from the viewer, or for the difference of two ranks."""
    first, second = pair(scene)
    near, far = (scene.things[index].depth + 1 for index, _ in (first, second))
    if relative:
        text = f"How many places apart in depth are the {first[1]} and the {second[1]}?"
        return QA(kind="depth", text=text, answer=float(abs(near - far)), named=(first, second))
    text = f"With the {first[1]} having a depth of {near}, determine the depth of the {second[1]}."
    return QA(kind="depth", text=text, answer=float(far), named=(first, second))


def _matching(scene: Scene, task: str) -> QA:
    """Ask for the box of a thing in the last view, normalized to 1000."""
    index, phrase = pair(scene)[0]
    right, *wrong_boxes = [_box(scene, index, shift) for shift in (0, 200, -200, 400)]
    text = f"Where is the {phrase} of the first image in the last one ({task})?"
    return choice(scene, task, text, answer=right, others=wrong_boxes, named=((index, phrase),))


def _box(scene: Scene, index: int, shift: int) -> str:
    """Return a thing's box in the last frame, normalized to 1000, moved to the right by `shift`."""
    thing = scene.things[index]
    (x, y), radius = thing.centre(scene.frames - 1), scene.radius(thing)
    left, right = (x_ * COORDINATE_RANGE // scene.width + shift for x_ in (x - radius, x + radius))
    top, bottom = (y_ * COORDINATE_RANGE // scene.height for y_ in (y - radius, y + radius))
    return f"({left},{top},{right},{bottom})"


def _view_change(scene: Scene) -> str:
    """Return the camera motion that looks like the motion of the scene's first named thing."""
    thing = scene.things[pair(scene)[0][0]]
    sideways = f"move_{'left' if thing.dx > 0 else 'right'}:{digits(abs(thing.dx) / 10)}"
    vertical = f"move_{'up' if thing.dy > 0 else 'down'}:{digits(abs(thing.dy) / 10)}"
    return f"{sideways},{vertical},move_forward:0.5,rotate_left:0,rotate_up:0"
