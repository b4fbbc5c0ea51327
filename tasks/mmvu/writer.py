"""Videos of the generated world in the layout of MMVU: every other question without its options."""

from pathlib import Path

from harness.tasks.rvos.writing import write_json
from harness.tasks.video_qa.benchmarks import asked
from harness.tasks.video_qa.writing import name, write_videos
from harness.world.shapes import World

SUBJECT = "Computer_Science"


def write(world: World, root: Path) -> None:
    """Write `root/mmvu/validation.json` and the videos below `root/mmvu/videos`."""
    place, records = root / "mmvu", []
    scenes = {name(scene): scene for _, scene, _ in asked(world)}
    write_videos(place / "videos" / SUBJECT, list(scenes.values()))
    for number, scene, question in asked(world):
        is_open = number % 2 == 1
        options = [*question.options, *["none of these"] * 5][:5]
        answer = str(question.answer)
        records.append(
            {
                "id": f"validation_{number}",
                "video": f"https://shapes.invalid/resolve/main/videos/{SUBJECT}/{name(scene)}.mp4",
                "question_type": "open-ended" if is_open else "multiple-choice",
                "question": question.text,
                "choices": dict(zip("ABCDE", [""] * 5 if is_open else options, strict=True)),
                "answer": answer if is_open else "ABCDE"[options.index(answer)],
            }
        )
    write_json(place / "validation.json", records)
