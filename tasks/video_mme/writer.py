"""Write sample data: generated videos in Video-MME's layouts, with subtitles for two of three.

The hub's table and `videomme.json`, a list of videos with their questions as in the official result
files, hold the same questions. The reader prefers the table.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from harness.tasks.qa.options import lettered
from harness.tasks.video_mme.records import DURATIONS, JSON_FILE
from harness.tasks.video_qa.writing import choose_questions, name, write_table, write_videos
from harness.world.quiz import QA
from harness.world.scene import Scene
from harness.world.shapes import World

DOMAIN = "Knowledge"
VIDEO_FIELDS = ("video_id", "videoID", "duration", "domain", "sub_category", "url")
QUESTION_FIELDS = ("question_id", "task_type", "question", "options", "answer")
TYPE_OF_KIND = {  # Video-MME's `task_type` for each kind of the world's questions
    "direction": "Action Recognition",
    "speed": "Action Reasoning",
    "order": "Temporal Reasoning",
    "order3": "Temporal Perception",
    "leaves": "Object Recognition",
    "end_relation": "Spatial Perception",
}


def write(world: World, root: Path) -> None:
    """Write the hub's table, the videos and their subtitles below `root/video_mme`."""
    folder = root / "video_mme"
    examples = choose_questions(world, "test")
    rows = [
        _row(scene, question, video_number, question_number)
        for video_number, (scene, questions) in enumerate(examples, start=1)
        for question_number, question in enumerate(questions, start=1)
    ]
    write_videos(folder / "data", [scene for scene, _ in examples])
    (folder / "subtitle").mkdir()
    for video_number, (scene, _) in enumerate(examples):
        if video_number % 3 < 2:
            path = folder / "subtitle" / f"{name(scene)}.srt"
            path.write_text(_subtitles(scene), encoding="utf-8", newline="\n")
    write_table(folder / "videomme" / "test-00000-of-00001.parquet", rows)
    (folder / JSON_FILE).write_text(
        json.dumps(_videos(rows), indent=1), encoding="utf-8", newline="\n"
    )


def _videos(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the table's rows grouped by video, nested as in the official result files."""
    videos = []
    for _, group in groupby(rows, lambda row: row["videoID"]):
        video_rows = list(group)
        video_fields = {key: video_rows[0][key] for key in VIDEO_FIELDS}
        questions = [{key: row[key] for key in QUESTION_FIELDS} for row in video_rows]
        videos.append({**video_fields, "questions": questions})
    return videos


def _row(scene: Scene, question: QA, video_number: int, question_number: int) -> dict[str, object]:
    """Return the table's row of a question on a video; both numbers count from 1."""
    return {
        "video_id": f"{video_number:03d}",
        "duration": DURATIONS[video_number % 3],
        "domain": DOMAIN,
        "sub_category": "Astronomy",
        "url": "https://shapes.invalid",
        "videoID": name(scene),
        "question_id": f"{video_number:03d}-{question_number}",
        "task_type": TYPE_OF_KIND[question.kind],
        "question": question.text,
        "options": lettered(question.options),
        "answer": question.letter,
    }


def _subtitles(scene: Scene) -> str:
    """Return SubRip text without hints at the answers: the number of every second second."""
    blocks = []
    for second in range(0, scene.frames, 2):
        times = f"00:00:{second:02d},000 --> 00:00:{second + 1:02d},500"
        text = f'<font color="white" size=".72c">This is second {second}.</font>'
        blocks.append(f"{second // 2 + 1}\n{times}\n{text}\n")
    return "\n".join(blocks)
