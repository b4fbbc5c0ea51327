"""Videos of the generated world in the layout of ReVSI: a question of each kind, for two budgets.

How many things are counted differs between the budgets, as the ground truth of ReVSI does.
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

ASKED = {
    "object_abs_distance": shapes.distance,
    "object_size_estimation": shapes.width,
    "route_planning": shapes.route,
    "object_rel_direction": shapes.quadrant,
    "object_rel_distance": shapes.nearer_question,
    "object_counting": shapes.count,
    "room_size_estimation": shapes.room,
}
BUDGETS = ("16", "all")


def write(world: World, root: Path) -> None:
    """Write `root/revsi/{16,all}_frame`: a table and its videos."""
    scenes = world.scenes("qa_video", "test")
    for budget in BUDGETS:
        place = root / "revsi" / f"{budget}_frame"
        for scene in scenes:
            write_video(place / f"{scene.index:08d}.mp4", scene)
        rows = [_row(scenes[k % len(scenes)], kind, budget) for k, kind in enumerate(KINDS)]
        write_table(place / "test-00000-of-00001.parquet", rows)


def _row(scene: Scene, kind: str, budget: str) -> dict[str, object]:
    question = next(ask for name, ask in ASKED.items() if kind.startswith(name))(scene)
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
