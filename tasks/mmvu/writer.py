"""Write sample data: generated videos in MMVU's layout; every second question has no options."""

from pathlib import Path

from harness.tasks.mmvu.task import FIELDS
from harness.tasks.rvos.writing import write_json
from harness.tasks.video_qa.benchmarks import Asked, Row, asked, record
from harness.tasks.video_qa.writing import name, write_videos
from harness.world.shapes import World

SUBJECT = "Computer_Science"


def write(world: World, root: Path) -> None:
    """Write `root/mmvu/validation.json` and the videos below `root/mmvu/videos`."""
    scenes = {name(example.scene): example.scene for example in asked(world)}
    write_videos(root / "mmvu" / "videos" / SUBJECT, list(scenes.values()))
    write_json(root / "mmvu" / "validation.json", [_record(example) for example in asked(world)])


def _record(example: Asked) -> Row:
    """Return a question's record; every second one has no options."""
    row = record(
        FIELDS, example, id=f"validation_{example.number}", question_type="multiple-choice"
    )
    options = [*example.question.options, *["none of these"] * 5][:5]
    if example.number % 2:
        row |= {"question_type": "open-ended", "answer": str(example.question.answer)}
        options = [""] * 5
    video = f"https://shapes.invalid/resolve/main/videos/{SUBJECT}/{name(example.scene)}.mp4"
    return row | {"video": video, "choices": dict(zip("ABCDE", options, strict=True))}
