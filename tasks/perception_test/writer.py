"""Videos of the generated world in the layout of Perception Test's questions."""

from pathlib import Path

from harness.tasks.video_qa.benchmarks import asked, write_rows
from harness.tasks.video_qa.writing import name, write_videos
from harness.world.shapes import World

COLUMNS = {"video_name": "text", "question": "text", "options": "texts", "answer_id": "text"}


def write(world: World, root: Path) -> None:
    """Write `root/perception_test/mc_question_val` and `videos`."""
    place = root / "perception_test"
    scenes = {name(scene): scene for _, scene, _ in asked(world)}
    write_videos(place / "videos", list(scenes.values()))
    write_rows(
        world,
        place / "mc_question_val" / "validation-00000-of-00001.parquet",
        COLUMNS,
        lambda number, scene, question: {
            "video_name": name(scene),
            "question": question.text,
            "options": list(question.options),
            "answer_id": str(question.options.index(str(question.answer))),
        },
    )
