"""Videos of the generated world in Video-MME's layout, with subtitles for two of three."""

from pathlib import Path
from typing import Any

from harness.tasks.video_mme.records import DURATIONS
from harness.tasks.video_qa.options import lettered
from harness.tasks.video_qa.writing import asked, name, write_videos
from harness.world.quiz import QA
from harness.world.scene import Scene
from harness.world.shapes import World

DOMAIN = "Knowledge"
TYPES = {
    "direction": "Action Recognition", "speed": "Action Reasoning", "order": "Temporal Reasoning",
    "order3": "Temporal Perception", "leaves": "Object Recognition",
    "end_relation": "Spatial Perception",
}  # fmt: skip


def write(world: World, root: Path) -> None:
    """Write the hub's table, the videos and their subtitles below `root/video_mme`."""
    folder = root / "video_mme"
    examples = asked(world, "test")
    rows = [
        _row(scene, question, number, place)
        for number, (scene, questions) in enumerate(examples, start=1)
        for place, question in enumerate(questions, start=1)
    ]
    write_videos(folder / "data", [scene for scene, _ in examples])
    (folder / "subtitle").mkdir()
    for number, (scene, _) in enumerate(examples):
        if number % 3 < 2:
            path = folder / "subtitle" / f"{name(scene)}.srt"
            path.write_text(_subtitles(scene), encoding="utf-8", newline="\n")
    _write_table(folder / "videomme" / "test-00000-of-00001.parquet", rows)


def _row(scene: Scene, question: QA, number: int, place: int) -> dict[str, Any]:
    return {
        "video_id": f"{number:03d}", "duration": DURATIONS[number % 3], "domain": DOMAIN,
        "sub_category": "Astronomy", "url": "https://shapes.invalid", "videoID": name(scene),
        "question_id": f"{number:03d}-{place}", "task_type": TYPES[question.kind],
        "question": question.text, "options": lettered(question.options),
        "answer": question.letter,
    }  # fmt: skip


def _subtitles(scene: Scene) -> str:
    """What says nothing about the answers: the number of every second."""
    parts = []
    for second in range(0, scene.frames, 2):
        times = f"00:00:{second:02d},000 --> 00:00:{second + 1:02d},500"
        said = f'<font color="white" size=".72c">This is second {second}.</font>'
        parts.append(f"{second // 2 + 1}\n{times}\n{said}\n")
    return "\n".join(parts)


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True)
    columns = [(key, pa.list_(pa.string()) if key == "options" else pa.string()) for key in rows[0]]
    table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    parquet.write_table(table, path, compression="zstd")
