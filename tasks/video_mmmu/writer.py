"""Write sample data: generated videos in Video-MMMU's layout, each question in all three tracks."""

from pathlib import Path

from harness.tasks.video_mmmu.task import FOLDER_OF_SUBJECT
from harness.tasks.video_qa.benchmarks import Row, asked
from harness.tasks.video_qa.writing import write_table, write_videos
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/video_mmmu`: three tables, the lectures and the images of their questions.

    Every other question of adaptation has no options.
    """
    folder, tables = root / "video_mmmu", dict[str, list[Row]]()
    for number, scene, question in asked(world):
        subject = list(FOLDER_OF_SUBJECT)[number % len(FOLDER_OF_SUBJECT)]
        id = f"validation_{subject}_{number}"
        write_videos(folder / FOLDER_OF_SUBJECT[subject], [scene], names=[id])
        write_videos(folder / "question_only", [scene], names=[f"{id}_image"])
        right, options = str(question.answer), list(question.options)
        for track in ("Perception", "Comprehension", "Adaptation"):
            is_open = track == "Adaptation" and number % 2 == 1
            row: Row = {"id": id, "question": question.text, "options": [] if is_open else options}
            row["answer"] = right if is_open else "ABCDEFGH"[options.index(right)]
            row["question_type"] = "open" if is_open else "multiple-choice"
            tables.setdefault(track, []).append(row)
    for track, rows in tables.items():
        write_table(folder / track / "test-00000-of-00001.parquet", rows)
