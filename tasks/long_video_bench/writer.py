"""Videos of the generated world in LongVideoBench's layouts, with both forms of subtitles.

`lvb_val.json` and `lvb_test_wo_gt.json` list the options of a question; the hub's tables,
`validation-…parquet` and `test-…parquet`, have five columns for them, filled up with "N/A". The
reader takes the former first.
"""

import json
from pathlib import Path
from typing import Any

from harness.tasks.long_video_bench.records import NOTHING, SLOTS
from harness.tasks.video_qa.writing import choose_questions, name, write_table, write_videos
from harness.world.quiz import QA
from harness.world.scene import Scene
from harness.world.shapes import World

GROUPS = (15, 60, 600, 3600)
HIDDEN = -1
"""Value in the table of `test`, where the organisers keep the ground truth."""
TABLES = {"val": "validation", "test": "test"}
STARTS = 100
"""Seconds of the imagined source at which every second video begins."""


def write(world: World, root: Path) -> None:
    """Write both splits, the videos and their subtitles below `root/long_video_bench`."""
    folder = root / "long_video_bench"
    (folder / "subtitles").mkdir(parents=True)
    for split, file in (("val", "lvb_val.json"), ("test", "lvb_test_wo_gt.json")):
        examples = choose_questions(world, split, limit=2)  # type: ignore[arg-type]
        records = []
        for number, (scene, questions) in enumerate(examples):
            starts = STARTS * (number % 2)
            records += [
                _record(scene, question, split, place, starts, number)
                for place, question in enumerate(questions)
            ]
            path = folder / "subtitles" / f"{split}_{name(scene)}_en.json"
            path.write_text(json.dumps(_subtitles(scene, starts)), encoding="utf-8")
            write_videos(folder / "videos" / split, [scene])
        if split == "test":
            records = [
                {k: v for k, v in record.items() if k != "correct_choice"} for record in records
            ]
        (folder / file).write_text(json.dumps(records, indent=1), encoding="utf-8", newline="\n")
        table = folder / f"{TABLES[split]}-00000-of-00001.parquet"
        write_table(table, list(map(_row, records)))


def _row(record: dict[str, Any]) -> dict[str, object]:
    """A record of the JSON files as a row of the tables."""
    given = record["candidates"]
    slots = zip(SLOTS, [*given, *[NOTHING] * (len(SLOTS) - len(given))], strict=True)
    plain = {key: value for key, value in record.items() if key not in ("candidates", "level")}
    return {"correct_choice": HIDDEN, **plain, **dict(slots)}


def _record(
    scene: Scene, question: QA, split: str, place: int, starts: int, number: int
) -> dict[str, object]:
    return {
        "id": f"{split}_{name(scene)}_{place}",
        "video_id": name(scene),
        "video_path": f"{split}/{name(scene)}.mp4",
        "subtitle_path": f"{split}_{name(scene)}_en.json",
        "question": question.text,
        "candidates": list(question.options),
        "correct_choice": question.options.index(str(question.answer)),
        "duration": float(scene.frames),
        "duration_group": GROUPS[number % len(GROUPS)],
        "question_category": question.kind,
        "topic_category": scene.family,
        "level": "L1",
        "starting_timestamp_for_subtitles": starts,
    }


def _subtitles(scene: Scene, starts: int) -> list[dict[str, object]]:
    """Return subtitles without hints at the answers; their form depends on the video's start."""
    lines: list[dict[str, object]] = []
    for second in range(0, scene.frames, 3):
        start, end = starts + second + 0.25, starts + second + 1.5
        text = f"This is second {second}."
        if starts:
            lines.append({"timestamp": [start, end], "text": text})
        else:
            lines.append(
                {"start": f"00:00:{start:06.3f}", "end": f"00:00:{end:06.3f}", "line": text}
            )
    return lines
