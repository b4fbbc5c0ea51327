"""Write sample data: generated videos in the layout of ReVSI, with each kind of question.

There are two budgets of frames; true counts differ between them, as in ReVSI.
"""

from pathlib import Path

from harness.tasks.qa.answer_text import digits
from harness.tasks.qa.options import lettered
from harness.tasks.revsi.task import KINDS
from harness.tasks.spatial import shapes
from harness.tasks.spatial.shapes import write_video
from harness.tasks.video_qa.writing import write_table
from harness.world.scene import Scene
from harness.world.shapes import World

QUESTION_OF_PREFIX = {
    "object_abs_distance": shapes.distance,
    "object_size_estimation": shapes.width,
    "route_planning": shapes.route,
    "object_rel_direction": shapes.quadrant,
    "object_rel_distance": shapes.nearer_question,
    "object_counting": shapes.count,
    "room_size_estimation": shapes.room,
}
"""Function that asks a question, by the prefix of the question's kind."""
BUDGETS = ("16", "all")


def write(world: World, root: Path) -> None:
    """Write `root/revsi/{16,all}_frame`: a table and its videos."""
    scenes = world.scenes("qa_video", "test")
    for budget in BUDGETS:
        folder = root / "revsi" / f"{budget}_frame"
        for scene in scenes:
            write_video(folder / f"{scene.index:08d}.mp4", scene)
        rows = [_row(scenes[k % len(scenes)], kind, budget) for k, kind in enumerate(KINDS)]
        write_table(folder / "test-00000-of-00001.parquet", rows)


def _row(scene: Scene, kind: str, budget: str) -> dict[str, object]:
    """Return the row of a question about a scene."""
    (ask,) = [ask for prefix, ask in QUESTION_OF_PREFIX.items() if kind.startswith(prefix)]
    question = ask(scene)
    more = 1.0 if kind.startswith("object_counting") and budget == "all" else 0.0
    is_number = question.is_number
    return {
        "scene_id": f"{scene.index:08d}",
        "num_frames": budget,
        "question_type": kind,
        "question": question.text,
        "options": None if is_number else lettered(question.options),
        "ground_truth": digits(float(question.answer) + more) if is_number else question.letter,
    }
