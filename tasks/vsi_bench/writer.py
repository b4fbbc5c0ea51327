"""Write sample data: generated videos in VSI-Bench's layout, with its subsets.

All questions are there twice: as `test.jsonl`, and in the table that the hub had before 2025,
`test-00000-of-00001.parquet`. The reader prefers `test.jsonl`.
"""

from pathlib import Path

from harness.metrics.vsi import CHOICE_TYPES, NUMBER_TYPES
from harness.tasks.qa.answer_text import digits
from harness.tasks.qa.options import lettered
from harness.tasks.rvos.writing import write_lines
from harness.tasks.spatial import shapes
from harness.tasks.spatial.shapes import Asked, write_video
from harness.tasks.video_qa.writing import write_table
from harness.world.scene import Scene
from harness.world.shapes import World

DATASET = "shapes"
QUESTION_OF_TYPE: dict[str, Asked] = {
    "object_counting": shapes.count,
    "object_abs_distance": shapes.distance,
    "object_size_estimation": shapes.width,
    "room_size_estimation": shapes.room,
    "object_rel_direction_easy": shapes.side_question,
    "object_rel_direction_medium": shapes.third_question,
    "object_rel_direction_hard": shapes.quadrant,
    "object_rel_distance": shapes.nearer_question,
    "route_planning": shapes.route,
    "obj_appearance_order": shapes.appearance,
}
TYPES = (*NUMBER_TYPES, *CHOICE_TYPES)
MIN_QUESTIONS = 2 * len(TYPES)
"""Two questions of each type."""


def write(world: World, root: Path) -> None:
    """Write `world.size` questions, but at least two of each type, below `root/vsi_bench`.

    Questions come in rounds of one per type. Every second round is pruned, so the pruned and the
    debiased subset both contain every type.
    """
    scenes = world.scenes("qa_video", "test")
    folder = root / "vsi_bench"
    count = max(world.size, MIN_QUESTIONS)
    rows = [_row(scenes[number % len(scenes)], number) for number in range(count)]
    for scene in scenes:
        write_video(folder / DATASET / f"{scene.index:08d}.mp4", scene)
    write_lines(folder / "test.jsonl", rows)
    write_table(folder / "test-00000-of-00001.parquet", rows)
    pruned = [row for number, row in enumerate(rows) if number // len(TYPES) % 2]
    (folder / "pruned_ids.txt").write_text("".join(f"{row['id']}\n" for row in pruned))
    write_table(folder / "test_pruned.parquet", pruned)
    write_table(folder / "test_debiased.parquet", [row for row in rows if row not in pruned])
    # One question of each type, in turns of the first and the second round of types.
    tiny = [position + len(TYPES) * (position % 2) for position in range(len(TYPES))]
    (folder / "tiny_ids.txt").write_text("".join(f"{number}\n" for number in tiny))


def _row(scene: Scene, number: int) -> dict[str, object]:
    """Return question `number` about a scene; consecutive numbers take the types in turn."""
    question_type = TYPES[number % len(TYPES)]
    question = QUESTION_OF_TYPE[question_type](scene)
    text = digits(float(question.answer)) if question.is_number else question.letter
    return {
        "id": number,
        "dataset": DATASET,
        "scene_name": f"{scene.index:08d}",
        "question_type": question_type,
        "question": question.text,
        "ground_truth": text,
        "options": None if question.is_number else lettered(question.options),
    }
