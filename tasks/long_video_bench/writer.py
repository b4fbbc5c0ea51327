"""Write sample data: generated videos in LongVideoBench's layouts, with both forms of subtitles.

`lvb_val.json` and `lvb_test_wo_gt.json` have the options of a question as a list; the hub's tables,
`validation-…parquet` and `test-…parquet`, have five columns for them, filled with "N/A". The reader
prefers the JSON files.
"""

import json
from pathlib import Path
from typing import Any

from harness.tasks.long_video_bench.records import NO_OPTION, OPTION_COLUMNS
from harness.tasks.video_qa.writing import choose_questions, name, write_table, write_videos
from harness.world.quiz import QA
from harness.world.scene import Scene
from harness.world.shapes import World

DURATION_GROUPS = (15, 60, 600, 3600)  # largest length in seconds of each group
HIDDEN_ANSWER = -1
"""True answer in the table of `test`: the organisers keep the ground truth."""
TABLE_NAMES = {"val": "validation", "test": "test"}
CLIP_START = 100
"""Start of every second video within its imagined source, in seconds; that of the others is 0."""


def write(world: World, root: Path) -> None:
    """Write both splits, the videos and their subtitles below `root/long_video_bench`."""
    folder = root / "long_video_bench"
    (folder / "subtitles").mkdir(parents=True)
    for split, file in (("val", "lvb_val.json"), ("test", "lvb_test_wo_gt.json")):
        examples = choose_questions(world, split, limit=2)  # type: ignore[arg-type]
        records = []
        for scene_number, (scene, questions) in enumerate(examples):
            clip_start = CLIP_START * (scene_number % 2)
            records += [
                _record(scene, question, split, question_number, clip_start, scene_number)
                for question_number, question in enumerate(questions)
            ]
            path = folder / "subtitles" / f"{split}_{name(scene)}_en.json"
            path.write_text(json.dumps(_subtitles(scene, clip_start)), encoding="utf-8")
            write_videos(folder / "videos" / split, [scene])
        if split == "test":
            records = [
                {k: v for k, v in record.items() if k != "correct_choice"} for record in records
            ]
        (folder / file).write_text(json.dumps(records, indent=1), encoding="utf-8", newline="\n")
        table = folder / f"{TABLE_NAMES[split]}-00000-of-00001.parquet"
        write_table(table, list(map(_row, records)))


def _row(record: dict[str, Any]) -> dict[str, object]:
    """Return a record of the JSON files as a row of the tables."""
    options = record["candidates"]
    slots = zip(
        OPTION_COLUMNS, [*options, *[NO_OPTION] * (len(OPTION_COLUMNS) - len(options))], strict=True
    )
    fields = {key: value for key, value in record.items() if key not in ("candidates", "level")}
    return {"correct_choice": HIDDEN_ANSWER, **fields, **dict(slots)}


def _record(
    scene: Scene, question: QA, split: str, question_number: int, clip_start: int, scene_number: int
) -> dict[str, object]:
    """Return a question's record in the JSON files; `question_number` counts within the video."""
    return {
        "id": f"{split}_{name(scene)}_{question_number}",
        "video_id": name(scene),
        "video_path": f"{split}/{name(scene)}.mp4",
        "subtitle_path": f"{split}_{name(scene)}_en.json",
        "question": question.text,
        "candidates": list(question.options),
        "correct_choice": question.options.index(str(question.answer)),
        "duration": float(scene.frames),
        "duration_group": DURATION_GROUPS[scene_number % len(DURATION_GROUPS)],
        "question_category": question.kind,
        "topic_category": scene.family,
        "level": "L1",
        "starting_timestamp_for_subtitles": clip_start,
    }


def _subtitles(scene: Scene, clip_start: int) -> list[dict[str, object]]:
    """Return subtitles without hints at the answers, in the one form or the other by clip_start."""
    lines: list[dict[str, object]] = []
    for second in range(0, scene.frames, 3):
        start, end = clip_start + second + 0.25, clip_start + second + 1.5
        text = f"This is second {second}."
        if clip_start:
            lines.append({"timestamp": [start, end], "text": text})
        else:
            lines.append(
                {"start": f"00:00:{start:06.3f}", "end": f"00:00:{end:06.3f}", "line": text}
            )
    return lines
